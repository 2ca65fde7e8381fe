from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakepeer import MemoryJournalFile

from ganglion.peer.journal import compaction as module
from ganglion.peer.journal.compaction import Compaction, GovernorCompaction, WorkerCompaction
from ganglion.peer.journal.write import Journal
from ganglion.peer.models import ModelStore
from ganglion.peer.participant import Participant
from ganglion.peer.results.records import Ordinals, Records
from ganglion.peer.worker.recovery import Command, CommandHistory
from ganglion.peer.worker.world import Phase, World
from ganglion.run.flow import Flow, episodes_of
from ganglion.run.governor import Governor
from ganglion.run.plan import PhasePlan, Plan, PluginPlan
from ganglion.run.setup import Setup
from ganglion.sdk import Controller
from ganglion.sdk.condition import EpisodeMeans, TerminationCondition
from ganglion.wire.messages import (
    ControllerSetup,
    EnvironmentReset,
    EnvironmentStart,
    EnvironmentUpdate,
    EpisodeEnded,
    FlowSignal,
    RecordAck,
    Verdict,
)

LONG_BYTES = 100_000


@pytest.fixture
def peer(link: Any, clock: Any) -> Callable[[MemoryJournalFile | None], Participant]:
    """Return what joins a participant with a journal."""

    def join(storage: MemoryJournalFile | None) -> Participant:
        journal = None if storage is None else Journal(storage)
        made = Participant(lambda: link, {}, lambda it: None, clock=clock, pulse=False, journal=journal)
        made.join(made.hello("muscle", "a", "?"))
        return made

    return join


class StandingPeer:
    """Be a participant whose journal is begun anew at every stand; keeps the state and the warnings."""

    recorded = journals = idle = takes_attributes = True
    size_bytes = 0

    def __init__(self, name: str, state: bytes | None = None) -> None:
        self.state, self.warnings = state, list[str]()
        self.welcome, self.name = None, name

    def clock(self) -> float:
        """Return ever later times."""
        return float(self.journal_bytes)

    @property
    def journal_bytes(self) -> int:
        """Return ever more bytes."""
        self.size_bytes += 1 << 30
        return self.size_bytes

    def state_of_predecessor(self, anew: bool = False) -> bytes | None:
        """Return what a predecessor left."""
        return self.state

    def begin_journal(self, heard: None, state: bytes) -> bool:
        """Keep a state."""
        self.state = state
        return True

    def warn(self, text: str) -> None:
        """Keep a warning."""
        self.warnings.append(text)

    def tell(self, *args: Any, **more: Any) -> None:
        """Say nothing."""


def hear(link: Any, participant: Participant, size_bytes: int = 10) -> None:
    """Let a participant hear something of a length."""
    link.tell("r/x", "record.ack", RecordAck(1, waiting="x" * size_bytes))
    participant.pump(0.0)
    participant.flush_journal()


def test_long_journals_are_begun_anew(peer: Any, link: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal is begun anew when it is longer than the limit and than twice what it begins with; then it is short."""
    monkeypatch.setattr(module, "JOURNAL_BEGIN_BYTES", LONG_BYTES)
    storage, taken = MemoryJournalFile(), list[bytes]()
    participant = peer(storage)
    compaction = Compaction(participant, "muscle a", lambda: None)
    state = bytes(LONG_BYTES)
    longest = 0
    for _ in range(100):
        compaction.restore_or_compact(lambda: taken.append(state) or state, taken.append)
        hear(link, participant, LONG_BYTES // 4)
        longest = max(longest, len(storage.data))

    assert 8 <= len(taken) <= 13
    assert longest < 4 * LONG_BYTES


def test_large_states_are_taken_seldom(peer: Any, link: Any, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a phase lasts, states that are written for their age are so many bytes in a second at most."""
    monkeypatch.setattr(module, "_STATE_BYTES_PER_S", 4 << 10)
    storage, taken = MemoryJournalFile(), list[Any]()
    participant = peer(storage)
    compaction = Compaction(participant, "muscle a", lambda: None)
    for _ in range(1000):
        clock.now_s += 1.0
        compaction.restore_or_compact(lambda: taken.append(clock.now_s) or bytes(100 << 10), taken.append)
        hear(link, participant)

    assert 35 <= len(taken) <= 40


# -- governor compaction ----------------------------------------------------------------------------------------------
class Counting(TerminationCondition):
    """Be a condition that knows something."""

    def __init__(self) -> None:
        self.asked: list[int] = []


class Stood:
    """Be a governor whose episodes run, with all that belongs to it."""

    def __init__(self, peer: Any, folder: Path) -> None:
        phase = PhasePlan(0, "one", [], [], PluginPlan("own"), [], [], workers=2)
        plan = Plan("doc", "exp", "7", [phase])
        self.peer, self.condition, self.ordinals = peer, Counting(), Ordinals(2, 1)
        self.models = ModelStore(plan, "r", str(folder), None, lambda text: None)
        self.records = Records(self.peer, "r/store")
        self.governor = Governor("r", plan, "r/store", str(folder), self)  # type: ignore[arg-type]
        self.flow = self.governor._flow = Flow(
            "r",
            phase,
            [("c", self.condition, "phase")],
            Setup("r", phase, None, "", self),  # type: ignore[arg-type]
        )
        self.governor._phase = phase
        self.sent: list[Any] = []
        self.compaction = GovernorCompaction(
            self.peer, self.governor, {"c": self.condition}, self.ordinals, self.records, self.models
        )

    def restore_or_compact(self, numbers: dict[str, int], said: dict[str, list[FlowSignal]]) -> None:
        """Stand; keep what a predecessor had sent."""
        self.compaction.restore_or_compact(numbers, said, lambda *sent: self.sent.extend(sent))


def test_a_governor_goes_on_where_another_one_stood(tmp_path: Path) -> None:
    """What it has counted, numbered, sent and recorded is what its successor knows."""
    first = Stood(StandingPeer("r/governor"), tmp_path)
    first.flow.tally.count(1, episodes_of(EpisodeEnded(1, 0, 7, True, False, "", {"ada": {"mean": 0.5}}, [], [], [])))
    first.flow.round, first.flow._last_round = 8, {1: 8}
    first.governor._joined["r/muscle/ada/1"] = "msgpack"
    first.condition.asked.append(3)
    first.ordinals.number(1)
    first.ordinals.order()
    row = ["phase", 0, "one", "evaluate", "running", None]
    first.models.take(row)
    first.records.number = 12
    said = {"r/controller/0": [FlowSignal("PAUSE", "operator", number=1)]}
    first.restore_or_compact({"r/controller/0": 1}, said)
    other = Stood(StandingPeer("r/governor", first.peer.state), tmp_path)
    other.restore_or_compact({}, {})

    assert not first.peer.warnings
    assert [{"r/controller/0": 1}, said] == other.sent
    assert [[], [EpisodeMeans(0, 7, {"ada": 0.5}, False)]] == other.flow.tally._finished
    assert (8, {1: 8}, [3], 12) == (
        other.flow.round,
        other.flow._last_round,
        other.condition.asked,
        other.records.number,
    )
    assert other.governor._joined == first.governor._joined
    assert (first.ordinals.number(1), first.ordinals.order()) == (other.ordinals.number(1), other.ordinals.order())
    assert first.models.note() == other.models.note()


def test_models_that_were_stored_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where models came in the midst of a phase the journal goes on as it is."""
    stood = Stood(StandingPeer("r/governor"), tmp_path)
    monkeypatch.setattr(stood.models, "note", lambda: [["brain", 0, "ada"]])
    stood.restore_or_compact({}, {})

    assert stood.peer.state is None
    assert "models were stored" in stood.peer.warnings[0]


# -- worker compaction ------------------------------------------------------------------------------------------------
class Still(Controller):
    """Do nothing."""

    def __init__(self) -> None:
        self.plans: list[int] = []


def worker(peer: Any) -> tuple[Phase, Records, WorkerCompaction]:
    """Return a worker at the begin of its first episode, with an environment of another language."""
    start = EnvironmentStart("r", 0, "one", "train", 0, "w", {}, 1, 2)
    world = World("w", "r/environment/w/0", {"episode_seed": 1, "episode_stream": b"1"})
    world.history = CommandHistory(start, 0, b"d" * 16)
    setup = ControllerSetup("r", 0, "one", "train", 0, {"name": "still"}, [], [], b"x" * 32, {}, "r/governor")
    records = Records(peer, "r/store")
    phase = Phase(peer, records, setup, [world])
    phase.controller = Still()
    return phase, records, WorkerCompaction(peer, phase, records)


def test_a_worker_goes_on_where_another_one_stood() -> None:
    """All that a worker knows at the begin of an episode is what its successor knows there."""
    peer = StandingPeer("r/controller/0")
    phase, records, compaction = worker(peer)
    (world,) = phase.worlds
    records.add(["steps", 1])
    records.flush()
    records.add(["steps", 2])
    phase.controller.plans.append(4)
    phase.signals.append(FlowSignal("PAUSE", "operator"))
    phase.tick, phase.steps_left, phase.evaluation, phase.heeded = 70, 3, (9, 40), 8
    world.rewards, world.readings, world.earned, world.ticks = [], [0.5], [1.0], 12
    world.setup["episode_seed"] = 77
    assert world.history is not None
    world.history.began(EnvironmentReset(5, 77, b"s"), b"e" * 16)
    verdict = Verdict("RESET", "", 5, {"w": {"seed": 77, "stream": b"s"}}, 70, {"ada": [0, 1]})
    assert compaction.restore_or_compact(verdict, lambda: [3, ["r/x"]], loose=False) is None

    other, kept, again = worker(StandingPeer("r/controller/0", peer.state))
    found = again.restore_or_compact(Verdict("RESET"), lambda: [0, []], loose=False)
    (seen,) = other.worlds
    assert (verdict, [3, ["r/x"]]) == found
    assert records.state() == kept.state()
    assert (1, False) == (kept.number, kept.settled)
    assert ([4], list(phase.signals), 70, 3, 8) == (
        other.controller.plans,
        list(other.signals),
        other.tick,
        other.steps_left,
        other.heeded,
    )
    assert phase.moment == other.moment
    assert ([], [0.5], [1.0], 12, 77) == (
        seen.rewards,
        seen.readings,
        seen.earned,
        seen.ticks,
        seen.setup["episode_seed"],
    )
    assert world.history == seen.history


def test_what_is_not_at_a_boundary_is_not_taken() -> None:
    """Tasks that run on, and steps that would have to be done again, keep the journal; it is told why."""
    peer = StandingPeer("r/controller/0")
    phase, _, compaction = worker(peer)
    compaction.restore_or_compact(Verdict("RESET"), list, loose=True)
    journal = phase.worlds[0].history
    assert journal is not None
    journal.steps.append(Command(EnvironmentUpdate([[]], None), b""))
    _, _, another = worker(peer)
    another._phase.worlds[0].history = journal
    another.restore_or_compact(Verdict("RESET"), list, loose=False)

    assert peer.state is None
    assert ["tasks of the controller outlive", "environment w is within an episode"] == [
        next(word for word in ("tasks of the controller outlive", "environment w is within an episode") if word in text)
        for text in peer.warnings
    ]
