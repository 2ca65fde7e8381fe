from __future__ import annotations

import hashlib
from typing import Any

import pytest

from ganglion.broker.admission import Register, Strangers
from ganglion.broker.link import Admission
from ganglion.errors import RemoteProtocolError
from ganglion.wire.messages import Hello
from ganglion.wire.name import Role


def digest(token: str) -> bytes:
    """Return what the register keeps of a token."""
    return hashlib.sha256(token.encode()).digest()


def entry(name: str, token: str, role: Role = Role.ENVIRONMENT, **more: Any) -> Admission:
    """Return an admission."""
    return Admission(name, role, "farm", digest(token), **more)


REGISTER = [
    entry("farm/brain/ada", "brain", Role.BRAIN, incarnation=3, uid="ada"),
    entry("farm/environment/hill/0", "attach", attach="hill", uid="hill", worker=0),
    entry("farm/environment/hill/1", "attach", attach="hill", uid="hill", worker=1),
    entry("farm/environment/lake/0", "attach", attach="lake", uid="lake", worker=0),
    entry("farm/muscle/hill/0", "attach", Role.MUSCLE, attach="hill", uid="hill", worker=0),
    entry("observer-*", "look", Role.OBSERVER),
    entry("shadow-9", "look", Role.OBSERVER),
]


REFUSED = [
    (("farm/brain/ada", "brain", "brain", {"version": 2}), "version: this kernel speaks protocol 1, found 2"),
    (("farm/brain/ada", "brain", "brian", {}), "token: no participant is expected with it"),
    (("farm/brain/ada", "brain", "", {}), "token: no participant is expected with it"),
    (("farm/brain/ada", "brain", "t" * 44, {}), "token: expected at most 43 bytes, found 44"),
    (("farm/brain/ada", "muscle", "brain", {}), "role: this token is for the role brain, found 'muscle'"),
    (("lake", "muscle", "attach", {}), "role: this token is for the role environment, found 'muscle'"),
    (("farm/brain/ada", "", "brain", {}), "role: this token is for the role brain"),
    (("farm/brain/bob", "brain", "brain", {}), "name: this token does not admit 'farm/brain/bob'"),
    (("farm/brain/ada", "brain", "attach", {}), "name: this token does not admit .*; awaited are: hill, lake"),
    (
        ("moor", "environment", "attach", {}),
        "name: no run waits for an environment named 'moor'; awaited are: hill, lake",
    ),
    (("farm/brain/ada", "brain", "brain", {"incarnation": 2}), "incarnation: .* is at 3, found the stale 2"),
    (("supervisor", "supervisor", "look", {}), "role: this token is for the role observer"),
]


def hello(name: str, role: str, token: str, more: dict[str, Any]) -> Hello:
    """Return a HELLO."""
    return Hello(more.get("version", 1), role, name, token, incarnation=more.get("incarnation", 0))


@pytest.mark.parametrize(("said", "text"), REFUSED)
def test_refused_with_the_reason(said: tuple[Any, ...], text: str) -> None:
    """A HELLO that is entitled to nothing is told what is wrong with it."""
    with pytest.raises(RemoteProtocolError, match=text):
        Register(REGISTER).entitled(hello(*said), ())


def test_attaching_programs_fill_the_places_in_order() -> None:
    """Programs that attach under one name get the places of that name one after the other, then no more."""
    register, taken = Register(REGISTER), ["farm/environment/hill/0"]
    said = hello("hill", "environment", "attach", {})

    assert "farm/environment/hill/1" == register.entitled(said, taken).name
    taken.append("farm/environment/hill/1")
    with pytest.raises(RemoteProtocolError, match="name: all 2 places of 'hill' are taken"):
        register.entitled(said, taken)


def test_numbers_are_not_given_twice() -> None:
    """Peers under a pattern get ascending numbers, also when one has left in between."""
    register = Register(REGISTER)
    names = [register.entitled(hello("x", "observer", "look", {}), ()).name for _ in range(3)]

    assert ["observer-1", "observer-2", "observer-3"] == names


def test_withdrawn_name_does_not_join() -> None:
    """A withdrawn name is closed while others of the same token stay open; an unknown one is no fault."""
    register = Register(REGISTER)
    register.withdraw("lake")
    register.withdraw("farm/environment/lake/0")

    with pytest.raises(RemoteProtocolError, match=r"no run waits for an environment named 'lake'; awaited are: hill$"):
        register.entitled(hello("lake", "environment", "attach", {}), ())
    assert register.entitled(hello("hill", "environment", "attach", {}), ())


def test_wrong_tokens_are_answered_once_per_second_and_origin() -> None:
    """Each origin is answered once in a second; others, and the next second, are not concerned."""
    strangers = Strangers()
    asked = [("a", 0.0), ("a", 0.5), ("b", 0.5), ("a", 0.99), ("a", 1.0), ("b", 1.2), ("b", 1.6)]

    assert [True, False, True, False, True, False, True] == [strangers.may_answer(*row) for row in asked]


AWAITED = [
    ("", False),
    ("admit came", True),
    ("admit left", False),
    ("admit left came", True),
    ("admit left admit", True),
    ("admit withdraw", False),
    ("admit left withdraw admit", True),
]


@pytest.mark.parametrize(("history", "expected"), AWAITED)
def test_awaited(history: str, expected: bool) -> None:
    """Who was announced as one who returns is awaited until it says that it goes, or is given up."""
    register = Register()
    place = entry("farm/brain/ada", "brain", Role.BRAIN, returns=True)
    steps = {"admit": lambda: register.admit(place)}
    steps |= {word: lambda word=word: getattr(register, word)(place.name) for word in ("came", "left", "withdraw")}
    for word in history.split():
        steps[word]()

    assert (place if expected else None) is register.awaited(place.name)
