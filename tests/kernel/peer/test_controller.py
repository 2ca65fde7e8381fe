from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import CallFailed, RemoteProtocolError
from ganglion.peer.conversation import PeerGone
from ganglion.sdk.controller import Controller
from ganglion.wire.messages import (
    ControllerEvaluate,
    ControllerShutdown,
    ControllerStart,
    Done,
    Failure,
    FlowSignal,
    Rebuilt,
    Verdict,
)
from ganglion.wire.verb import Verb


def calls(it: Any) -> list[tuple[str, str]]:
    """Return whom the controller called, by short names."""
    return [(e.peer.split("/")[2] if e.peer.count("/") > 1 else "governor", e.head.call) for e in it.link.calls()]


# -- setting up -------------------------------------------------------------------------------------------------------


def test_setup_comes_first(worker: Any) -> None:
    """Without a phase there is nothing to start, and nothing to shut down."""
    it = worker()
    with pytest.raises(RemoteProtocolError, match=r"expected controller\.setup first"):
        it.hosted.ask("controller.start", ControllerStart([], False, "lockstep", Verdict("RESET"), False))

    assert Done() == it.hosted.ask("controller.shutdown", ControllerShutdown(True, True))


def test_a_failing_environment_fails_the_setup(worker: Any, world: Any) -> None:
    """What an environment answers with ERROR at its start is handed on, with whose it is."""
    broken = world()
    broken.start = lambda: Failure("author", "ValueError: no", "environment w, hook __init__", "Traceback")
    it = worker({"w": broken})
    with pytest.raises(CallFailed) as caught:
        it.setup()

    assert ("r/environment/w/0", "ValueError: no") == (caught.value.culprit, caught.value.remote_message)


def test_a_controller_that_cannot_be_made_fails_the_worker(worker: Any) -> None:
    """An exception of its constructor is told to the governor like any other."""

    class Breaks(Controller):
        def __init__(self) -> None:
            raise ZeroDivisionError("no")

    it = worker(controller=Breaks)
    it.setup()
    it.start()
    it.hosted.host.tick()

    assert ("author", 0, 0) == (it.failures[0].failure.kind, it.failures[0].episode, it.failures[0].step)
    assert (it.failures[0].failure.where or "").endswith("hook __init__")


# -- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_restart_declares_as_before(worker: Any, world: Any) -> None:
    """New objects with other sensors than those of the phase are refused by name."""
    w = world(ends=1)
    it = worker({"w": w})
    it.setup()
    it.start()
    it.verdicts = [Verdict("RESTART", episode=1)]
    ended = it._ended

    def changed(report: Any) -> Any:
        w.sensor = "other"
        return ended(report)

    it.link.answers["governor.episode"] = lambda peer, message: changed(message)
    it.hosted.host.tick()

    assert "r/environment/w/0" == it.failures[0].peer
    assert "sensors changed between episodes: s is missing" in it.failures[0].failure.message


# -- the end of a phase -----------------------------------------------------------------------------------------------


def test_a_second_phase_begins_anew(worker: Any) -> None:
    """The same process serves the next phase; ticks count from 0, batches go on."""
    it = worker()
    it.run()
    it.hosted.ask("controller.shutdown", ControllerShutdown(True, True))
    it.run()

    assert [0, 1, 0, 1] == [row[1] for record in it.records("steps") for row in record[-1]]
    assert list(range(1, len(it.batches) + 1)) == [batch.number for batch in it.batches]


# -- failures ---------------------------------------------------------------------------------------------------------
def fail(it: Any) -> Any:
    """Run a phase that fails, and return what the governor is told."""
    it.setup()
    it.start()
    it.hosted.host.tick()
    assert 1 == len(it.failures)
    return it.failures[0]


def test_a_silent_peer_is_reported(worker: Any) -> None:
    """An environment that does not answer in its time fails the worker by its name and the place."""
    it = worker()
    it.link.answers["environment.update"] = lambda peer, message: None
    report = fail(it)

    assert ("deadline", "r/environment/w/0") == (report.failure.kind, report.peer)
    assert "environment w (worker 0) to answer environment.update (episode 0, step 1)" in report.failure.message


def test_a_lost_store_is_reported(worker: Any) -> None:
    """Without a store nothing more can be written."""
    it = worker()
    it.setup()
    it.start()
    it.hosted.host.gone(PeerGone("r/store", 1, "exit 1"))
    it.hosted.host.tick()

    assert ("store", "the store is gone: exit 1", "r/store") == (
        it.failures[0].failure.kind,
        it.failures[0].failure.message,
        it.failures[0].peer,
    )


def test_a_failing_reset_is_reported(worker: Any, world: Any) -> None:
    """Between two episodes, too, the culprit is named; the ended episode stays as it ended."""
    w = world(ends=1)
    w.reset = lambda: Failure("author", "ValueError: no")
    it = worker({"w": w})
    it.verdicts = [Verdict("RESET", episode=1)]
    report = fail(it)

    assert "r/environment/w/0" == report.peer
    assert ["terminated"] == [record[9] for record in it.records("episode")]


# -- evaluations ------------------------------------------------------------------------------------------------------
def evaluated(worker: Any) -> Any:
    """Return a worker that has made an evaluation of two episodes, and one of another."""
    it = worker()
    it.setup(evaluation=True)
    it.start(verdict=Verdict("RESET", round=7))
    it.verdicts = [Verdict("RESET", episode=1, round=7), Verdict("STOP_SIMULATION")]
    it.hosted.host.tick()
    it.hosted.ask("controller.evaluate", ControllerEvaluate(Verdict("RESET", episode=2, round=9)), "r/governor")
    it.hosted.host.tick()
    return it


def test_rows_of_an_evaluation_stand_behind_the_round_of_training(worker: Any) -> None:
    """An episode is recorded with that round and the steps since the evaluation began; ticks go on."""
    it = evaluated(worker)

    assert [[7, 2], [7, 4], [9, 2]] == [record[-2:] for record in it.records("episode")]
    assert ["evaluate"] * 3 == [record[2] for record in it.records("episode")]
    assert [[0, 1], [2, 3], [4, 5]] == [[row[1] for row in record[-1]] for record in it.records("steps")]


def test_a_signal_that_comes_again_is_not_heard_twice(worker: Any) -> None:
    """The governor says signals again where they may have been lost: those with a number that was heard are dropped."""
    it = worker()
    it.setup()
    it.start()
    for number in (1, 2, 1, 2, 3, 0, 0):
        wish = FlowSignal("RESET", "operator", number=number)
        it.link.tell("r/governor", "", wish, Verb.SIGNAL)
    it.hosted.participant.pump(0.0)
    while it.link.inbox:
        it.hosted.participant.pump(0.0)

    assert [1, 2, 3, 0, 0] == [signal.number for signal in it.hosted.host._phase.signals]


# -- losses -----------------------------------------------------------------------------------------------------------
class Mortal:
    """Stand before a worker whose environment or muscle is gone when it is asked for the n-th time."""

    def __init__(self, it: Any, call: str, at: int, gone: Failure | None = None) -> None:
        self.it, self.count = it, 0
        self.waits: list[str] = []
        self.comes_back = True
        answer = it.link.answers[call]

        def ask(peer: str, message: Any) -> Any:
            self.count += 1
            return (gone or GONE) if self.count == at else answer(peer, message)

        def rebuild(peer: str, message: Any) -> Rebuilt:
            self.waits.append(message.peer)
            return Rebuilt(self.comes_back)

        it.link.answers |= {call: ask, "governor.rebuild": rebuild}

    def run(self, *verdicts: Verdict, common: bool = False, first: Verdict | None = None) -> Mortal:
        """Run a phase in which every loss costs an episode."""
        self.it.verdicts = list(verdicts)
        self.it.setup(restarts=True)
        self.it.start(common, verdict=first)
        self.it.hosted.host.tick()
        return self


GONE = Failure("unreachable", "nobody of that name is here")
NEXT = (Verdict("RESTART", episode=1),)


def test_an_episode_is_lost_with_a_muscle(worker: Any, agent: Any) -> None:
    """Before the first step of all: the episode is told and recorded with no step."""
    it = worker(agents={"one": agent(restarts=True)})
    mortal = Mortal(it, "muscle.act", 1).run(Verdict("RESTART", episode=1), Verdict("STOP_PHASE"))

    assert ["r/muscle/one/0"] == mortal.waits
    assert (0, 0, True, "lost: muscle one") == (
        it.reports[0].episode, it.reports[0].steps, it.reports[0].lost, it.reports[0].reason,
    )  # fmt: skip
    assert 2 == len(it.link.asked("muscle.setup"))


def test_whom_brains_await_passes(worker: Any, world: Any, agent: Any) -> None:
    """The others of the round go on: everybody of a lost episode has no row in it, who is new too."""
    it = worker(
        {"w": world(ends=2)},
        {"one": agent(brain="r/brain/one", restarts=True), "two": agent(sensors=[], brain="r/brain/two")},
    )
    first = Verdict("RESET", round=7, participants={"one": [0, 1], "two": [0]})
    Mortal(it, "muscle.act", 1).run(*NEXT, common=True, first=first)
    passed = [(peer, act.round, act.workers) for peer, act in it.link.asked("muscle.act") if act.passing]
    order = [call for peer, call in calls(it) if peer != "w"]

    assert [("r/muscle/one/0", 7, [0, 1]), ("r/muscle/two/0", 7, [0])] == passed
    assert order.index("governor.rebuild") < order.index("muscle.setup", 2)
    assert [1, 3] == [report.round for report in it.reports], "the others made a step meanwhile"


@pytest.mark.parametrize(
    ("call", "at"), [("environment.start", 1), ("muscle.setup", 1), ("environment.reset", 1), ("muscle.reset", 1)]
)
def test_a_loss_between_episodes_costs_none(worker: Any, world: Any, agent: Any, call: str, at: int) -> None:
    """Who is lost while he is set up, or while the next episode is begun, is awaited, and it is begun again."""
    it = worker({"w": world(ends=2)}, {"one": agent(restarts=True)})
    mortal = Mortal(it, call, at).run(Verdict("RESET", episode=1))

    assert ([], 1) == (it.failures, len(mortal.waits))
    assert [(0, 2, False), (1, 2, False)] == [(r.episode, r.steps, r.lost) for r in it.reports]


def test_a_loss_at_the_end_of_a_phase_costs_nothing(worker: Any, world: Any) -> None:
    """Who is lost when nothing more is asked of him is not awaited."""
    mortal = Mortal(worker({"w": world(ends=2)}), "environment.shutdown", 1).run()
    mortal.it.hosted.ask("controller.shutdown", ControllerShutdown(True, True), "r/governor")

    assert [] == mortal.waits


def test_without_a_successor_the_worker_fails(worker: Any, world: Any) -> None:
    """Where nobody comes back the loss is told as it is, and the rows are kept."""
    mortal = Mortal(worker({"w": world(ends=3)}), "environment.update", 2)
    mortal.comes_back = False
    mortal.run()

    assert ["unreachable"] == [failed.failure.kind for failed in mortal.it.failures]
    assert [(0, 1, "lost: environment w")] == [(r[5], r[6], r[9]) for r in mortal.it.records("episode")]
