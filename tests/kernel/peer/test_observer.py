from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ganglion.errors import AuthorError
from ganglion.peer.conversation import Told
from ganglion.peer.observer import ObserverHost
from ganglion.sdk import Observer
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head
from ganglion.wire.messages import Gap, RunEvent
from ganglion.wire.verb import Verb


class Notebook(Observer):
    """Write down what is told."""

    topics = ("events", "waits")
    notes: list[Any]

    def setup(self) -> None:
        """Begin."""
        self.notes = ["setup"]

    def observe(self, topic: str, event: str, fields: Mapping[str, Any], time_s: float) -> None:
        """Note a message; one that says so is a reason to raise."""
        if fields.get("bad"):
            raise RuntimeError("cannot read that")
        self.notes.append((topic, event, dict(fields), time_s))

    def missed(self, topic: str, first: int, last: int) -> None:
        """Note a gap."""
        self.notes.append((topic, first, last))

    def teardown(self) -> None:
        """End."""
        self.notes.append("teardown")


class Waits(Notebook):
    """Listen to waits alone."""

    topics = ("waits",)


@pytest.fixture
def kit(loader: Any, hosted: Any) -> Any:
    """Return what makes a host on a fake bus, with its observer."""

    def made(kind: type[Notebook] = Notebook) -> tuple[Any, Notebook]:
        stood = hosted(ObserverHost(loader(observer__notebook=kind), "notebook", "r"))
        return stood, stood.host._observer

    return made


def tell(hosted: Any, call: str, message: Any) -> None:
    """Let the bus tell something."""
    head = Head(Verb.TELL, 0, call)
    hosted.host.told(Told("r/governor", head, codec_of(type(message)).encode(message), ()))


def test_a_gap_is_told_by_its_numbers(kit: Any) -> None:
    """After two messages a gap of three is 3 to 5."""
    hosted, observer = kit()
    hosted.host.joined()
    for _ in range(2):
        tell(hosted, "event", RunEvent("e", {}))

    tell(hosted, "kernel.gap", Gap("@r/events", 3))

    assert ("events", 3, 5) == observer.notes[-1]


def test_it_leaves_when_the_run_has_ended(kit: Any) -> None:
    """The end of the run is its end, also for who does not listen to events."""
    hosted, observer = kit(Waits)
    hosted.host.joined()

    tell(hosted, "event", RunEvent("run.ended", {}))
    hosted.host.close()

    assert "the run has ended" == hosted.participant.leaving.reason
    assert ["setup", "teardown"] == observer.notes


def test_an_observer_that_raises_is_blamed(kit: Any) -> None:
    """What `observe` raises names the observer and the hook."""
    hosted, _ = kit()
    hosted.host.joined()

    with pytest.raises(AuthorError, match="RuntimeError: cannot read that") as caught:
        tell(hosted, "event", RunEvent("e", {"bad": True}))

    assert "observer of r" in caught.value.__notes__[0]
    assert "hook observe" in caught.value.__notes__[0]
