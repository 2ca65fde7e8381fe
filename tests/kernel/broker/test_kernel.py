from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from ganglion.limits import ADMISSIONS, KERNEL_BODY_BYTES, KERNEL_BODY_CONTAINERS, OPEN_CALLS, SUBSCRIPTIONS, WATCHES
from ganglion.wire.messages import Admit, Subscribe, Watch, Withdraw
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb


def kinds(said: list[tuple[Any, ...]]) -> list[tuple[str, str]]:
    """Return verb, and kind of error or name of call, of what was said."""
    return [(row[2].name, row[5].get("kind", "") if row[2] is Verb.ERROR else row[4]) for row in said]


def test_refused_watch_watches_nobody(bus: Any) -> None:
    """A list with one bad name changes nothing."""
    governor = bus.join("farm/governor", Role.GOVERNOR)
    said = bus.ask(governor, "kernel.watch", Watch(["farm/store", "Farm"]))

    assert [("ERROR", "protocol")] == kinds(said)
    assert ({}, set()) == (bus.broker.watchers, governor.watches)


def test_watches_and_subscriptions_are_bounded(bus: Any) -> None:
    """One watch or subscription beyond its limit is refused by the limit's name."""
    link = bus.join("looker", Role.OBSERVER)
    assert [("REPLY", "")] == kinds(bus.ask(link, "kernel.watch", Watch([f"p{i}" for i in range(WATCHES)])))
    said = bus.ask(link, "kernel.watch", Watch(["one-more"]))
    assert "(watches)" in said[0][5]["message"]

    for i in range(SUBSCRIPTIONS):
        assert [("REPLY", "")] == kinds(bus.ask(link, "kernel.subscribe", Subscribe(f"@farm/{i}")))
    said = bus.ask(link, "kernel.subscribe", Subscribe("@farm/more"))
    assert "(subscriptions)" in said[0][5]["message"]


@pytest.mark.parametrize("topic", ["farm/events", "", "@", "@Farm/events", "@" + "a" * 200])
def test_bad_topic_is_refused(bus: Any, topic: str) -> None:
    """A topic is `@<run>/<name>`."""
    link = bus.join("looker", Role.OBSERVER)

    assert [("ERROR", "protocol")] == kinds(bus.ask(link, "kernel.subscribe", Subscribe(topic)))
    assert {} == bus.broker.topics


def admit(name: str, role: str = "brain") -> Admit:
    """Return an announcement with the name as token."""
    return Admit(name, role, "farm", sha256(name.encode()).digest(), 2, "ada", 1)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (admit("farm/x", "king"), "unknown role 'king'"),
        (admit("farm/x", "supervisor"), "unknown role 'supervisor'"),
        (admit("farm/x", "BRAIN"), "unknown role 'BRAIN'"),
        (admit("Farm"), "expected a name"),
        (admit("farm*x"), "expected a name"),
        (admit("@farm/events"), "the name of a topic"),
    ],
)
def test_refused_admission(bus: Any, message: Admit, text: str) -> None:
    """A role or a name that cannot be is refused when it is announced."""
    supervisor = bus.join("supervisor", Role.SUPERVISOR)
    said = bus.ask(supervisor, "kernel.admit", message)

    assert [("ERROR", "protocol")] == kinds(said)
    assert text in said[0][5]["message"]


def test_admissions_are_bounded(bus: Any) -> None:
    """The supervisor is told when the register is full."""
    supervisor = bus.join("supervisor", Role.SUPERVISOR)
    for i in range(ADMISSIONS - 1):
        bus.admit(f"n{i}", Role.BRAIN)

    assert [("ERROR", "limit")] == kinds(bus.ask(supervisor, "kernel.admit", admit("n")))


def test_watches_and_subscriptions_end_with_what_is_withdrawn(bus: Any) -> None:
    """Whoever looks on at one run after the other has room for each: what is withdrawn counts no more."""
    supervisor, link = bus.join("supervisor", Role.SUPERVISOR), bus.join("operator-1", Role.OPERATOR)
    for number in range(2 * max(WATCHES, SUBSCRIPTIONS)):
        run = f"farm-{number}"
        assert [("REPLY", "")] == kinds(bus.ask(link, "kernel.subscribe", Subscribe(f"@{run}/events")))
        assert [("REPLY", "")] == kinds(bus.ask(link, "kernel.watch", Watch([f"{run}/store"])))
        bus.ask(supervisor, "kernel.withdraw", Withdraw([f"{run}/store", f"@{run}/events"]))

    assert ({}, {}) == (bus.broker.watchers, bus.broker.topics)
    assert (set(), set()) == (link.watches, link.topics)


# -- what is the supervisor's business --------------------------------------------------------------------------------


def test_without_supervisor_the_call_is_answered(bus: Any) -> None:
    """A call to a supervisor that is not there yet, or again, is answered: it is to be said again."""
    operator = bus.join("operator-1", Role.OPERATOR, "")
    said = bus.ask(operator, "kernel.runs")

    assert [("ERROR", "busy")] == kinds(said)
    assert {"absent": True} == said[0][5]["data"]


def test_the_supervisor_answers_again_after_its_return(bus: Any) -> None:
    """Who asked a supervisor that is lost hears that it returns, and asks it anew."""
    supervisor = bus.join("supervisor", Role.SUPERVISOR)
    operator = bus.join("operator-1", Role.OPERATOR, "")
    bus.ask(operator, "kernel.runs", serial=4)
    said = bus.take(bus.broker.disconnect(supervisor, "killed", bus.now_s))
    assert [("operator-1", True)] == [(row[0], row[5]["returns"]) for row in said if row[2] is Verb.LOST]
    bus.join("supervisor", Role.SUPERVISOR)

    assert ["supervisor"] == [row[0] for row in bus.ask(operator, "kernel.runs", serial=4)]


def test_calls_to_the_supervisor_are_bounded(bus: Any) -> None:
    """One open call too many is answered busy, with the time after which to ask again."""
    bus.join("supervisor", Role.SUPERVISOR)
    operator = bus.join("operator-1", Role.OPERATOR, "")
    said = [bus.ask(operator, "kernel.runs", serial=serial)[0] for serial in range(OPEN_CALLS + 1)]

    assert ["supervisor"] * OPEN_CALLS == [row[0] for row in said[:-1]]
    assert ("operator-1", "busy", 50) == (said[-1][0], said[-1][5]["kind"], said[-1][5]["retry_after_ms"])


# -- encodings --------------------------------------------------------------------------------------------------------
def test_large_bodies_are_not_decoded(bus: Any) -> None:
    """What the broker itself would decode is bounded: many small things take far more memory than they say."""
    governor = bus.join("farm/governor", Role.GOVERNOR)
    for size, limit in ((KERNEL_BODY_CONTAINERS, "containers"), (KERNEL_BODY_BYTES, "bytes")):
        empty_maps = b"\x81\xa1x\xdd" + size.to_bytes(4, "big") + b"\x80" * size
        said = bus.say(governor, "", Verb.CALL, 7, "kernel.watch", empty_maps)

        assert [("ERROR", "protocol")] == kinds(said)
        assert f"(kernel_body_{limit})" in said[0][5]["message"]
