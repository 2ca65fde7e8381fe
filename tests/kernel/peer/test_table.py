"""Hosts of tables: in which order they do what is asked, what waits, and what ends a wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from ganglion.errors import GanglionError
from ganglion.peer.agent.table import TableHost
from ganglion.sdk.pool import INSERT, Pool
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import Failure, Lost, RunEvent, TableAnswer, TableAsk, TableSetup
from ganglion.wire.verb import Verb

ADA, BOB = "r/brain/ada", "r/brain/bob"


class Rows(Pool):
    """Keep numbers; at most two more are drawn than were put there, and at most three fewer."""

    face = None

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []
        self.drawn = 0

    def judge(self, agent: str, what: str, given: Mapping[str, Any]) -> str | None:
        """Hold both to each other."""
        left = len(self.numbers) - self.drawn
        if what == INSERT:
            return "it is full" if left >= 3 else None
        return "it is empty" if what == "draw" and left <= 0 else None

    def insert(self, agent: str, given: Mapping[str, Any]) -> None:
        """Keep numbers."""
        self.numbers += given["numbers"].tolist()

    def answer(self, agent: str, what: str, given: Mapping[str, Any]) -> Any:
        """Return all that is there."""
        return list(self.numbers)

    def note(self, agent: str, what: str, given: Mapping[str, Any]) -> None:
        """Count draws."""
        self.drawn += what == "draw"

    def state(self) -> Mapping[str, int | float | str | None]:
        """Return how many there are."""
        return {"numbers": len(self.numbers)}


class Table:
    """Be a hosted table, and the brains on the other side."""

    def __init__(self, hosted: Any, loader: Any, **setup: Any) -> None:
        self.host = TableHost(loader(table=Rows))
        self.on = hosted(self.host)
        agents = {"feed": ["ada"], "serve": ["ada", "bob"], "writers": [ADA], **setup}
        place = {"run": "r", "phase": 0, "phase_name": "train", "mode": "train", "uid": "recent"}
        self.on.ask("table.setup", TableSetup(**place, plugin={"name": "own"}, stream=bytes(32), **agents))

    def insert(self, *numbers: int, agent: str = "ada", at: list[int] | None = None) -> int:
        """Insert numbers; return the serial."""
        data = np.array(numbers, "<i8")
        array = {"dtype": "<i8", "shape": [len(numbers)], "data": data.tobytes()}
        given = {"numbers": array, "streams": ["s"] * len(numbers)}
        return self._ask(agent, INSERT, given, at)

    def draw(self, agent: str = "bob", at: list[int] | None = None, what: str = "draw") -> int:
        """Draw; return the serial."""
        return self._ask(agent, what, {}, at)

    def _ask(self, agent: str, what: str, given: dict[str, Any], at: list[int] | None) -> int:
        serial: int = self.on.ask("table.ask", TableAsk(agent, what, given, at), f"r/brain/{agent}")
        self.host.tick()
        return serial

    def answer(self, serial: int) -> Any:
        """Return what a request was answered, the message of its error, or `nothing`."""
        for one in self.on.link.sent:
            if one.head.serial == serial and one.head.verb is Verb.REPLY:
                return codec_of(TableAnswer).decode(one.body).found
            if one.head.serial == serial and one.head.verb is Verb.ERROR:
                return codec_of(Failure).decode(one.body).message
        return "nothing"


@pytest.fixture
def table(hosted: Any, loader: Any) -> Callable[..., Table]:
    """Return a function that makes a hosted table."""
    return lambda **setup: Table(hosted, loader, **setup)


@pytest.mark.parametrize("first", ["ada", "bob"])
def test_what_a_round_writes_is_there_from_the_next_on(table: Callable[..., Table], first: str) -> None:
    """In the order of agents, whoever came first; draws of the round see what was there before it."""
    stage = table(feed=["ada", "bob"], shared=True)
    stage.insert(0, at=[1])
    order = ["ada", "bob"] if first == "ada" else ["bob", "ada"]
    for agent in order:
        stage.insert(1 if agent == "ada" else 2, agent=agent, at=[2])
    early, late = stage.draw(at=[2], what="look"), stage.draw(at=[3], what="look")

    assert ([0], [0, 1, 2]) == (stage.answer(early), stage.answer(late))


def test_an_earlier_round_is_an_error(table: Callable[..., Table]) -> None:
    """Else who is slower would see, or miss, what nobody can tell."""
    stage = table(shared=True)
    stage.insert(0, at=[2])
    with pytest.raises(GanglionError, match=r"table recent: expected nothing before \[2\], found \[1\]"):
        stage.draw(at=[1])


def test_lockstep_refuses_what_nobody_could_end(table: Callable[..., Table]) -> None:
    """At once, with the table, the reason, the cause and who wrote last."""
    stage = table()
    with pytest.raises(GanglionError, match=r"agent bob cannot draw: it is empty; in lockstep no .*; no agent"):
        stage.draw()
    stage.insert(1, 2, 3)
    with pytest.raises(GanglionError, match=r"agent ada cannot insert: it is full; .*; agent ada wrote last, 0.0 s"):
        stage.insert(4)


def test_both_sides_wait_in_order_of_arrival(table: Callable[..., Table]) -> None:
    """A draw waits for an insert, an insert for a draw; nobody overtakes on his side."""
    stage = table(waits=True)
    first, second = stage.draw("bob"), stage.draw("ada")
    assert ["nothing"] * 2 == [stage.answer(first), stage.answer(second)]
    stage.insert(7)
    assert [[7], "nothing"] == [stage.answer(first), stage.answer(second)]
    stage.insert(8, 9)
    assert [7, 8, 9] == stage.answer(second)
    stage.insert(1, 2)
    waits = stage.insert(3)
    assert "nothing" == stage.answer(waits)
    stage.draw()
    assert stage.answer(waits) is None


def test_a_wait_ends_by_its_deadline(table: Callable[..., Table]) -> None:
    """The error says how long it was, and how long ago somebody wrote."""
    stage = table(waits=True, span_s=5.0)
    stage.insert(1)
    stage.draw()
    waits = stage.draw()
    stage.on.clock.now_s += 4.0
    stage.host.tick()
    assert "nothing" == stage.answer(waits)
    stage.on.clock.now_s += 1.0
    stage.host.tick()
    expected = (
        "table recent: agent bob cannot draw: it is empty; waited 5.0 s in vain: no agent has changed that; "
        "agent ada wrote last, 5.0 s ago, of 1 decisions"
    )
    assert expected == stage.answer(waits)


def test_a_writer_that_does_not_return_ends_waits(table: Callable[..., Table]) -> None:
    """By its name, at once, also those that begin later; one that returns is waited for."""
    stage = table(waits=True, span_s=5.0)
    waits = stage.draw()
    stage.on.link.tell("", "", Lost(ADA, 1, "exit 9", returns=True), Verb.LOST)
    stage.on.participant.pump(0.1)
    assert "nothing" == stage.answer(waits)
    stage.on.link.tell("", "", Lost(ADA, 1, "exit 9"), Verb.LOST)
    stage.on.participant.pump(0.1)
    expected = "waited 0.0 s in vain: brain ada is gone: exit 9; no agent has inserted"
    assert f"table recent: agent bob cannot draw: it is empty; {expected}" == stage.answer(waits)
    with pytest.raises(GanglionError, match="brain ada is gone: exit 9"):
        stage.draw()


@pytest.mark.parametrize(("agent", "what"), [("bob", INSERT), ("cyd", "draw")])
def test_strangers_are_refused(table: Callable[..., Table], agent: str, what: str) -> None:
    """Whoever does not feed a table may not insert, and whom it does not serve may not ask."""
    with pytest.raises(GanglionError, match=f"table recent: agent {agent} may not {what}"):
        table().draw(agent, what=what)


def test_its_state_is_told_when_somebody_waits_and_once_a_second(table: Callable[..., Table]) -> None:
    """So that those who look on see it at once."""
    stage = table(waits=True)
    stage.on.participant.welcome = stage.on.participant.welcome or type("Welcome", (), {"run": "r"})()
    stage.insert(1)
    stage.insert(2)
    stage.on.clock.now_s += 1.0
    stage.insert(3)
    stage.insert(4)
    bodies = [one.body for one in stage.on.link.sent if one.head.verb is Verb.TELL]
    told = [codec_of(RunEvent).decode(body) for body in bodies]

    assert [("table.state", {"numbers": count}) for count in (1, 3, 3)] == [(one.event, one.fields) for one in told]
