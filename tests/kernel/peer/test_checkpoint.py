from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakepeer import MemoryJournalFile, brain_setup

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.peer.agent.brain import BrainHost
from ganglion.peer.journal.snapshot import Generators, export, restore
from ganglion.peer.journal.write import Journal
from ganglion.peer.main import live
from ganglion.sdk import CheckpointableBrain
from ganglion.sdk.memory import Memory
from ganglion.wire.envelope import Head
from ganglion.wire.messages import BrainJoin, Nothing, Think, Thought
from ganglion.wire.verb import Verb

ROWS = 60


class Learner(CheckpointableBrain):
    """Learn something from rows, samples and draws; count its thoughts of this life."""

    CHECKPOINT_FORMAT = "learner"
    CHECKPOINT_SCHEMA_VERSION = 1
    thoughts = 0

    def __init__(self) -> None:
        super().__init__()
        self.values = np.zeros(3)

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        """Mix the newest row, a sample and a draw into the values."""
        if not len(self.memory):
            return {"values": self.values.copy()}
        type(self).thoughts += 1
        sample = self.memory.sample(4)
        self.values = 0.9 * self.values + float(sample.rewards.flat.sum()) + self.rng.random(3)
        return {"values": self.values.copy(), "data": data_from_muscle} if len(self.memory) % 3 == 0 else None

    def export_checkpoint_state(self) -> Mapping[str, Any]:
        """Return the values."""
        return {"values": self.values}

    def restore_checkpoint_state(self, state: Mapping[str, Any] | bytes) -> None:
        """Take the values."""
        assert not isinstance(state, bytes)
        self.values = np.array(state["values"])


class Mortal:
    """Be a link that ends its process when it has sent so many replies."""

    def __init__(self, link: Any, replies: int) -> None:
        self.link, self.replies = link, replies

    def send(self, frames: Any) -> None:
        """Send, and perhaps die."""
        self.link.send(frames)
        if self.link.sent[-1].head.verb is Verb.REPLY:
            self.replies -= 1
            if self.replies == 0:
                raise KeyboardInterrupt

    def receive(self, timeout_s: float | None) -> Any:
        """Receive."""
        return self.link.receive(timeout_s)

    def close(self) -> None:
        """Close."""


def messages(folder: Path, checkpoint_s: float | None) -> list[tuple[str, Any]]:
    """Return what a brain of two muscles is asked in a phase."""
    setup = brain_setup(muscles=["a/0", "a/1"], workers=2, models=str(folder), checkpoint_s=checkpoint_s)
    found: list[tuple[str, Any]] = [("brain.setup", setup), *(("brain.join", BrainJoin(w)) for w in (0, 1))]
    for i in range(ROWS):
        row = i // 2
        values = ([[row % 10]], [[1]], [[row / 100]], [0.5], [[2]])
        think = Think(i % 2, 0, row, *values, data={"row": row}, round=row, workers=[0, 1])
        found.append(("brain.think", think))
    return [*found, ("brain.shutdown", Nothing())]


def _ask(link: Any, peer: str, call: str, message: Any, serial: int) -> None:
    link.clock.now_s += 0.5
    link.request(peer, call, message, serial)


def ask(link: Any, asked: list[tuple[str, Any]], first: int = 0) -> None:
    """Let a peer be asked one after the other, from one of them on, and then leave."""
    for serial, (call, message) in enumerate(asked):
        if serial < first or link.replied(serial + 1, call) is not None:
            continue
        peer = f"r/muscle/a/{message.worker}" if hasattr(message, "worker") else "r/governor"
        link.idle.append(partial(_ask, link, peer, call, message, serial + 1))
    link.idle.append(lambda: link.deliver("", Head(Verb.BYE, 5)))


def live_once(host: BrainHost, link: Any, clock: Any, storage: MemoryJournalFile | None = None) -> None:
    """Let a host live its life."""
    variables = {"GANGLION_ROLE": "brain", "GANGLION_NAME": "r/brain/a"}
    live(host, lambda: link, variables, clock, pulse=False, journal=None if storage is None else Journal(storage))


def answers(link: Any, asked: list[tuple[str, Any]]) -> list[Thought]:
    """Return all updates that were given."""
    return [link.replied(i + 1, call) for i, (call, _) in enumerate(asked) if call != "brain.shutdown"]


@pytest.mark.parametrize("replies", [3, 30, 62])
def test_brain_goes_on_from_its_checkpoint(link: Any, clock: Any, loader: Any, tmp_path: Path, replies: int) -> None:
    """A brain that is lost goes on bit for bit from its newest checkpoint, and thinks again only what came later."""
    asked = messages(tmp_path, None)
    ask(link, asked)
    live_once(BrainHost(loader(brain=Learner)), link, clock)
    undisturbed = answers(link, asked)

    other, storage, asked = type(link)(clock), MemoryJournalFile(), messages(tmp_path, 5.0)
    ask(other, asked)
    with pytest.raises(KeyboardInterrupt):
        live_once(BrainHost(loader(brain=Learner)), Mortal(other, replies), clock, storage)
    other.inbox.clear()
    other.idle.clear()
    Learner.thoughts = 0
    ask(other, asked)
    live_once(BrainHost(loader(brain=Learner)), other, clock, storage)

    assert [str(thought) for thought in undisturbed] == [str(thought) for thought in answers(other, asked)]
    assert Learner.thoughts <= ROWS + 2 - replies + 12


def generators() -> Generators:
    """Return the generators of a brain."""
    return Generators({"rng": np.random.Generator(np.random.PCG64(1))})


def test_checkpoint_of_another_kind_is_refused() -> None:
    """What another version of the brain exported is refused by format and version."""
    checkpoint = export(Learner(), Memory(), generators(), {})
    newer = type("Other", (Learner,), {"CHECKPOINT_SCHEMA_VERSION": 2})

    with pytest.raises(AuthorError, match="expected format and version"):
        restore(newer(), Memory(), generators(), checkpoint)


@pytest.mark.parametrize("wrong", [None, [1], [{}, []], [{"format": "learner", "schema": 1}, []]])
def test_what_is_no_checkpoint_is_refused(wrong: Any) -> None:
    """Anything else is an error of the protocol."""
    with pytest.raises(RemoteProtocolError, match="checkpoint"):
        restore(Learner(), Memory(), generators(), wrong)
