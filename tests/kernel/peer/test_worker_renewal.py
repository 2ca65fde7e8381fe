from __future__ import annotations

from typing import Any

from ganglion.peer.journal.renewal import WorkerRenewal
from ganglion.peer.results.records import Records
from ganglion.peer.worker.lost import CommandHistory, Told
from ganglion.peer.worker.world import Phase, World
from ganglion.sdk import Controller
from ganglion.wire.messages import (
    ControllerSetup,
    EnvironmentReset,
    EnvironmentStart,
    EnvironmentUpdate,
    FlowSignal,
    Verdict,
)


class Still(Controller):
    """Do nothing."""

    def __init__(self) -> None:
        self.plans: list[int] = []


def worker(peer: Any) -> tuple[Phase, Records, WorkerRenewal]:
    """Return a worker at the begin of its first episode, with an environment of another language."""
    start = EnvironmentStart("r", 0, "one", "train", 0, "w", {}, 1, 2)
    world = World("w", "r/environment/w/0", {"episode_seed": 1, "episode_stream": b"1"})
    world.history = CommandHistory(start, 0, b"d" * 16)
    setup = ControllerSetup("r", 0, "one", "train", 0, {"name": "still"}, [], [], b"x" * 32, {}, "r/governor")
    records = Records(peer, "r/store")
    phase = Phase(peer, records, setup, [world])
    phase.controller = Still()
    return phase, records, WorkerRenewal(peer, phase, records)


def test_a_worker_goes_on_where_another_one_stood(standing: Any) -> None:
    """All that a worker knows at the begin of an episode is what its successor knows there."""
    peer = standing("r/controller/0")
    phase, records, crossing = worker(peer)
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
    assert crossing.stand(verdict, lambda: [3, ["r/x"]], loose=False) is None

    other, kept, again = worker(standing("r/controller/0", peer.state))
    found = again.stand(Verdict("RESET"), lambda: [0, []], loose=False)
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


def test_what_is_in_midst_of_something_is_not_taken(standing: Any) -> None:
    """Tasks that run on, and steps that would have to be done again, keep the journal; it is told why."""
    peer = standing("r/controller/0")
    phase, _, crossing = worker(peer)
    crossing.stand(Verdict("RESET"), list, loose=True)
    journal = phase.worlds[0].history
    assert journal is not None
    journal.steps.append(Told(EnvironmentUpdate([[]], None), b""))
    _, _, another = worker(peer)
    another._phase.worlds[0].history = journal
    another.stand(Verdict("RESET"), list, loose=False)

    assert peer.state is None
    assert ["tasks of the controller run on", "environment w stands in the midst"] == [
        next(word for word in ("tasks of the controller run on", "environment w stands in the midst") if word in text)
        for text in peer.warnings
    ]
