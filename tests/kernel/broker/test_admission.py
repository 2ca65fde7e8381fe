from __future__ import annotations

import hashlib
from typing import Any

import pytest

from ganglion.broker.admission import Register, Strangers, admission_of, checked
from ganglion.broker.link import Admission
from ganglion.errors import LimitExceeded, RemoteProtocolError
from ganglion.limits import ADMISSIONS, WRONG_TOKEN_ORIGINS
from ganglion.wire.messages import Admit, Hello
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

# (name, role, token, further fields of HELLO) -> the name that is joined
ACCEPTED = [
    (("farm/brain/ada", "brain", "brain", {}), "farm/brain/ada"),
    (("farm/brain/ada", "brain", "brain", {"incarnation": 3}), "farm/brain/ada"),
    (("hill", "environment", "attach", {}), "farm/environment/hill/0"),
    (("farm/environment/hill/1", "environment", "attach", {}), "farm/environment/hill/1"),
    (("lake", "environment", "attach", {}), "farm/environment/lake/0"),
    (("hill", "muscle", "attach", {}), "farm/muscle/hill/0"),
    (("observer-*", "observer", "look", {}), "observer-1"),
    (("whoever", "observer", "look", {}), "observer-1"),
    (("shadow-9", "observer", "look", {}), "shadow-9"),
]

REFUSED = [
    (("farm/brain/ada", "brain", "brain", {"version": 2}), "version: this kernel speaks protocol 1, found 2"),
    (("farm/brain/ada", "brain", "brian", {}), "token: it admits nobody"),
    (("farm/brain/ada", "brain", "", {}), "token: it admits nobody"),
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


@pytest.mark.parametrize(("said", "name"), ACCEPTED)
def test_accepted(said: tuple[Any, ...], name: str) -> None:
    """A token opens the places that were announced with it, and only those."""
    assert name == Register(REGISTER).entitled(hello(*said), ()).name


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


def test_next_incarnation_replaces_the_one_before() -> None:
    """A name that is announced again has its new token and incarnation only."""
    register = Register(REGISTER)
    register.admit(entry("farm/brain/ada", "newer", Role.BRAIN, incarnation=4))

    assert len(REGISTER) == len(register)
    assert 4 == register.entitled(hello("farm/brain/ada", "brain", "newer", {}), ()).incarnation
    with pytest.raises(RemoteProtocolError, match="token: it admits nobody"):
        register.entitled(hello("farm/brain/ada", "brain", "brain", {}), ())


def test_withdrawn_name_does_not_join() -> None:
    """A withdrawn name is closed while others of the same token stay open; an unknown one is no fault."""
    register = Register(REGISTER)
    register.withdraw("lake")
    register.withdraw("farm/environment/lake/0")

    with pytest.raises(RemoteProtocolError, match=r"no run waits for an environment named 'lake'; awaited are: hill$"):
        register.entitled(hello("lake", "environment", "attach", {}), ())
    assert register.entitled(hello("hill", "environment", "attach", {}), ())


def test_register_is_bounded() -> None:
    """One name beyond the limit is refused; a known one may still be announced anew."""
    register = Register(entry(f"n{i}", str(i)) for i in range(ADMISSIONS))
    register.admit(entry("n0", "again"))

    with pytest.raises(LimitExceeded, match="admissions"):
        register.admit(entry("one-more", "x"))
    assert ADMISSIONS == len(register)


def test_wrong_tokens_are_answered_once_per_second_and_origin() -> None:
    """Each origin is answered once in a second; others, and the next second, are not concerned."""
    strangers = Strangers()
    asked = [("a", 0.0), ("a", 0.5), ("b", 0.5), ("a", 0.99), ("a", 1.0), ("b", 1.2), ("b", 1.6)]

    assert [True, False, True, False, True, False, True] == [strangers.may_answer(*row) for row in asked]


def test_strangers_are_bounded() -> None:
    """Of origins without number only the newest are remembered."""
    strangers = Strangers()
    for number in range(3 * WRONG_TOKEN_ORIGINS):
        assert strangers.may_answer(f"process {number}", 0.0)

    assert WRONG_TOKEN_ORIGINS == len(strangers._answered_s)
    assert not strangers.may_answer(f"process {3 * WRONG_TOKEN_ORIGINS - 1}", 0.1)


AWAITED = [
    ("", False),
    ("admit", True),
    ("admit came", True),
    ("admit left", False),
    ("admit left came", True),
    ("admit left admit", True),
    ("admit withdraw", False),
    ("admit withdraw admit", True),
    ("admit left withdraw admit", True),
    ("left admit", True),
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


def test_others_are_not_awaited() -> None:
    """Who was not announced as one who returns is not waited for."""
    assert not any(Register(REGISTER).awaited(place.name) for place in REGISTER)


def test_announcement_becomes_a_place() -> None:
    """Everything that is announced of a name is in its place."""
    admit = Admit("r/muscle/a/1", "muscle", "r", b"t" * 32, 4, "a", 1, None, "msgpack", True, "k" * 40, True)

    assert Admission(
        "r/muscle/a/1", Role.MUSCLE, "r", b"t" * 32, 4, "a", 1, None, True, "k" * 40, True
    ) == admission_of(admit)


@pytest.mark.parametrize("name", ["", "A", "a b", "\ud800", "x" * 129])
def test_checked_names(name: str) -> None:
    """What is no name is refused as the other side's breach."""
    with pytest.raises(RemoteProtocolError, match="expected a name"):
        checked(name)
    assert "r/store" == checked("r/store")


def test_every_pair_of_who_one_is_and_who_one_claims_to_be() -> None:
    """A token of its own for each place of two runs: whoever claims name or role of another with his is refused."""
    places = [("supervisor", Role.SUPERVISOR), ("operator/*", Role.OPERATOR), ("observer/*", Role.OBSERVER)]
    for run in ("farm-1", "farm-2"):
        places += [(f"{run}/{role.value}", role) for role in (Role.GOVERNOR, Role.STORE)]
        places += [(f"{run}/controller/{worker}", Role.CONTROLLER) for worker in (0, 1)]
        for uid in ("ada", "bob"):
            places.append((f"{run}/brain/{uid}", Role.BRAIN))
            for role in (Role.MUSCLE, Role.ENVIRONMENT):
                places += [(f"{run}/{role.value}/{uid}/{worker}", role) for worker in (0, 1)]
    register = Register([entry(name, f"of {name}", role) for name, role in places])
    admitted = []
    for real, _ in places:
        for name, _ in places:
            for role in Role:
                said = hello(name, role.value, f"of {real}", {})
                try:
                    place = register.entitled(said, ())
                except RemoteProtocolError:
                    continue
                admitted.append((real, place.role, role))
                numbered = place.name.rstrip("0123456789") == real.removesuffix("*")
                assert real == place.name if "*" not in real else numbered, (real, said)

    own = [(name, role, role) for name, role in places]
    many = [row for row in own if "*" in row[0]]  # these give the name themselves, whatever was claimed
    assert sorted(own + many * (len(places) - 1)) == sorted(admitted)
