from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import CallFailed, RemoteProtocolError
from ganglion.peer.conversation import Gone
from ganglion.sdk.controller import Controller
from ganglion.sdk.flow import Mode
from ganglion.wire.messages import (
    ControllerEvaluate,
    ControllerShutdown,
    ControllerStart,
    Done,
    EnvironmentReset,
    Failure,
    FlowSignal,
    MuscleReset,
    Rebuilt,
    RecordAck,
    Verdict,
)
from ganglion.wire.verb import Verb


def calls(it: Any) -> list[tuple[str, str]]:
    """Return whom the controller called, by short names."""
    return [(e.peer.split("/")[2] if e.peer.count("/") > 1 else "governor", e.head.call) for e in it.link.calls()]


# -- setting up -------------------------------------------------------------------------------------------------------
def test_setup_starts_the_environments(worker: Any, world: Any) -> None:
    """All environments are started at once with what the document says; their declarations are answered."""
    it = worker({"w": world(), "v": world(late=True)})
    ready = it.setup()
    started = it.link.asked("environment.start")

    assert ["r/environment/w/0", "r/environment/v/0"] == [peer for peer, _ in started]
    assert [("w", 1, 2, {"name": "own", "params": {}}), ("v", 1, 2, {"name": "own", "params": {}})] == [
        (message.uid, message.seed, message.episode_seed, message.plugin) for _, message in started
    ]
    assert ["w", "v"] == list(ready.declarations)
    assert ([["r"], None], None) == (
        [d["rewards"] and [row["id"] for row in d["rewards"]] for d in ready.declarations.values()],
        ready.declarations["w"]["static_model"],
    )


def test_start_sets_up_the_muscles(worker: Any, agent: Any) -> None:
    """Each muscle gets its own lists and the rewards it will get, if they are known; the episodes begin afterwards."""
    it = worker(agents={"one": agent(brain="r/brain/one"), "two": agent(sensors=[])})
    it.setup()
    answer = it.start()
    set_up = it.link.asked("muscle.setup")

    assert (Done(), []) == (answer, it.link.asked("muscle.act"))
    assert ["r/muscle/one/0", "r/muscle/two/0"] == [peer for peer, _ in set_up]
    assert [("r/brain/one", ["w.s"], ["w.r"]), (None, [], ["w.r"])] == [
        (m.brain, [s["id"] for s in m.sensors], [r["id"] for r in m.rewards]) for _, m in set_up
    ]


def test_rewards_not_known_yet_are_left_open(worker: Any, world: Any) -> None:
    """Where an environment declares its rewards by its first update, muscles are set up without."""
    it = worker({"w": world(late=True)})
    it.setup()
    it.start()

    assert [None] == [message.rewards for _, message in it.link.asked("muscle.setup")]


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


def test_a_controller_knows_itself(worker: Any) -> None:
    """Worker, mode, agents and environments in document order are there before its constructor runs."""
    seen: list[Any] = []

    class Curious(Controller):
        def __init__(self) -> None:
            seen.append((self.uid, self.worker, self.mode, tuple(self.agents), tuple(self.environments)))

        async def advance(self) -> None:
            await self.update(await self.act(self.agents), self.agents)

    worker(controller=Curious).run()

    assert [("controller/0", 0, Mode.TRAIN, ("one",), ("w",))] == seen


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
def test_a_reset_begins_the_next_episode_in_place(worker: Any, world: Any, agent: Any) -> None:
    """Environments get number and seeds, muscles the number, all at once; then the episode begins at step 1."""
    it = worker({"v": world(ends=1), "w": world()}, {"one": agent(["w.a"]), "two": agent(["v.a"])})
    seeds = {"v": {"seed": 5, "stream": bytes(32)}, "w": {"seed": 6, "stream": b""}}
    it.verdicts = [Verdict("RESET", episode=3, seeds=seeds)]
    it.run()

    assert [EnvironmentReset(3, 5, bytes(32)), EnvironmentReset(3, 6, b"")] == [
        message for _, message in it.link.asked("environment.reset")
    ]
    assert [MuscleReset(3), MuscleReset(3)] == [message for _, message in it.link.asked("muscle.reset")]
    assert [0, 3] == [report.episode for report in it.reports]
    assert [[0], [1], [0], [1]] == [act.readings[0] for act in it.agents["one"].acts]


def test_nothing_of_the_old_episode_comes_with_the_new(worker: Any) -> None:
    """The first act of an episode brings no rewards: those of the last step were given at its end."""
    it = worker()
    it.verdicts = [Verdict("RESET", episode=1)]
    it.run()

    assert [None, [[10]], [[20]], None, [[10]], [[20]]] == [act.rewards for act in it.agents["one"].acts]


def test_a_restart_makes_new_objects(worker: Any) -> None:
    """Environments and muscles are shut down and made anew, with the seeds of the episode; the controller stays."""
    it = worker()
    seeds = {"w": {"seed": 9, "stream": bytes(32)}}
    it.verdicts = [Verdict("RESTART", episode=1, seeds=seeds)]
    it.run()
    again = [call for _, call in calls(it)]
    end = again.index("governor.episode")

    assert ["environment.shutdown", "muscle.shutdown", "environment.start", "muscle.setup", "muscle.act"] == again[
        end + 1 : end + 6
    ]
    assert [2, 9] == [message.episode_seed for _, message in it.link.asked("environment.start")]
    assert [0, 1] == [e.head.position[2] for e in it.link.calls("environment.start")]
    assert [0, 1] == [e.head.position[2] for e in it.link.calls("muscle.setup")]
    assert [(0, 2), (1, 2)] == [(report.episode, report.steps) for report in it.reports]
    assert [1, 2, 3, 4] == [row[4][0] for record in it.records("actions") for row in record[-1]]


def test_a_restart_with_late_rewards(worker: Any, world: Any) -> None:
    """A new object declares its rewards again by its first update."""
    it = worker({"w": world(ends=1, late=True)})
    it.verdicts = [Verdict("RESTART", episode=1)]
    it.run()

    assert [[10.0], [10.0]] == [[row[7] for row in record[-1]] for record in it.records("actions")]


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
    assert "sensors changed between episodes: other" in it.failures[0].failure.message


@pytest.mark.parametrize("signal", ["STOP_SIMULATION", "STOP_PHASE", "SHUTDOWN"])
def test_a_greater_verdict_ends_the_workers_part(worker: Any, signal: str) -> None:
    """After it no episode begins; the phase's objects stay until the shutdown."""
    it = worker()
    it.verdicts = [Verdict(signal)]
    it.run()
    it.hosted.host.tick()

    assert (1, []) == (len(it.reports), it.link.asked("environment.reset"))


def test_the_first_episode_may_have_any_number(worker: Any) -> None:
    """Rounds and participants of the first verdict hold for the first episode."""
    it = worker()
    it.run(verdict=Verdict("RESET", round=7, participants={"one": [0, 3]}))

    assert (7, [0, 3]) == (it.agents["one"].acts[0].round, it.agents["one"].acts[0].workers)


# -- the end of a phase -----------------------------------------------------------------------------------------------
def test_shutdown_goes_in_two_steps(worker: Any) -> None:
    """First the muscles, then the environments; the second waits until all records are durable."""
    it = worker()
    it.run()
    before = len(it.link.calls())
    it.hosted.ask("controller.shutdown", ControllerShutdown(muscles=True))
    it.hosted.ask("controller.shutdown", ControllerShutdown(environments=True))

    assert [("one", "muscle.shutdown"), ("w", "environment.shutdown")] == calls(it)[before:]
    assert it.hosted.host._records.settled


def test_a_second_phase_begins_anew(worker: Any) -> None:
    """The same process serves the next phase; ticks count from 0, batches go on."""
    it = worker()
    it.run()
    it.hosted.ask("controller.shutdown", ControllerShutdown(True, True))
    it.run()

    assert [0, 1, 0, 1] == [row[1] for record in it.records("steps") for row in record[-1]]
    assert list(range(1, len(it.batches) + 1)) == [batch.number for batch in it.batches]


def test_without_a_store_nothing_is_recorded(worker: Any) -> None:
    """A run that nobody stores runs the same."""
    it = worker()
    it.setup(store=None)
    it.start()
    it.hosted.host.tick()

    assert ([], 1) == (it.batches, len(it.reports))


# -- failures ---------------------------------------------------------------------------------------------------------
def fail(it: Any) -> Any:
    """Run a phase that fails, and return what the governor is told."""
    it.setup()
    it.start()
    it.hosted.host.tick()
    assert 1 == len(it.failures)
    return it.failures[0]


def test_a_failing_environment_is_reported(worker: Any, world: Any) -> None:
    """The governor hears the environment's own words, and whose they are; complete rows before it are stored."""
    w = world()
    w.fails_at = 3
    it = worker({"w": w})
    report = fail(it)

    assert (0, 0, 3, "r/environment/w/0") == (report.worker, report.episode, report.step, report.peer)
    assert ("author", "ValueError: no", "environment, hook update", "Traceback: here") == (
        report.failure.kind,
        report.failure.message,
        report.failure.where,
        report.failure.traceback,
    )
    assert ([2], [2]) == (
        [len(record[-1]) for record in it.records("steps")],
        [len(record[-1]) for record in it.records("actions")],
    )
    assert [(2, False, True, "failed: ValueError: no")] == [tuple(record[6:10]) for record in it.records("episode")]


def test_a_failing_muscle_is_reported(worker: Any, agent: Any) -> None:
    """Likewise a muscle; one that fails in the first step leaves no episode."""
    one = agent()
    one.fails_at = 1
    it = worker(agents={"one": one})
    report = fail(it)

    assert ("r/muscle/one/0", 0) == (report.peer, report.step)
    assert [] == it.records("episode")


def test_the_first_failure_to_arrive_is_reported(worker: Any, world: Any, agent: Any) -> None:
    """Of two that fail in one step one is told: whose answer came first."""
    worlds = {"v": world(), "w": world()}
    for one in worlds.values():
        one.fails_at = 1
    it = worker(worlds, {"one": agent(["w.a"])})

    assert "r/environment/v/0" == fail(it).peer


def test_a_lost_peer_is_reported(worker: Any) -> None:
    """A muscle that dies while it is asked fails the worker by its name."""
    it = worker()
    it.link.answers["muscle.act"] = lambda peer, message: it.link.lose(peer, "killed by signal 9")
    report = fail(it)

    assert ("lost", "r/muscle/one/0") == (report.failure.kind, report.peer)
    assert "killed by signal 9" in report.failure.message


def test_a_silent_peer_is_reported(worker: Any) -> None:
    """An environment that does not answer in its time fails the worker by its name and the place."""
    it = worker()
    it.link.answers["environment.update"] = lambda peer, message: None
    report = fail(it)

    assert ("deadline", "r/environment/w/0") == (report.failure.kind, report.peer)
    assert "environment w (worker 0) to answer environment.update (episode 0, step 1)" in report.failure.message


def test_a_failing_store_is_reported(worker: Any) -> None:
    """What the store cannot write fails the worker, and the store is the culprit."""
    it = worker()
    it.acknowledges = False
    act = it.link.answers["muscle.act"]

    def full(peer: str, message: Any) -> Any:
        it.link.tell("r/store", "record.ack", RecordAck(0, Failure("store", "disk full")))
        return act(peer, message)

    it.link.answers["muscle.act"] = full
    report = fail(it)

    assert ("store", "disk full", "r/store") == (report.failure.kind, report.failure.message, report.peer)


def test_a_lost_store_is_reported(worker: Any) -> None:
    """Without a store nothing more can be written."""
    it = worker()
    it.setup()
    it.start()
    it.hosted.host.gone(Gone("r/store", 1, "exit 1"))
    it.hosted.host.tick()

    assert ("store", "the store is gone: exit 1", "r/store") == (
        it.failures[0].failure.kind,
        it.failures[0].failure.message,
        it.failures[0].peer,
    )


def test_after_a_failure_the_phase_can_be_shut_down(worker: Any, world: Any) -> None:
    """The worker goes on serving: it ends its phase in order."""
    w = world()
    w.fails_at = 1
    it = worker({"w": w})
    fail(it)

    assert Done() == it.hosted.ask("controller.shutdown", ControllerShutdown(True, True))


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


def test_an_evaluation_goes_on_where_the_last_one_ended(worker: Any) -> None:
    """Its episodes begin in place, with the verdict's number; muscles take the newest policy before the first."""
    it = evaluated(worker)

    assert [0, 1, 2] == [report.episode for report in it.reports]
    assert all(report.evaluation for report in it.reports)
    assert [(1, False), (2, True)] == [(m.episode, m.prepare) for _, m in it.link.asked("muscle.reset")]
    assert 1 == len(it.link.asked("environment.start"))


def test_rows_of_an_evaluation_stand_behind_the_round_of_training(worker: Any) -> None:
    """An episode is recorded with that round and the steps since the evaluation began; ticks go on."""
    it = evaluated(worker)

    assert [[7, 2], [7, 4], [9, 2]] == [record[-2:] for record in it.records("episode")]
    assert ["evaluate"] * 3 == [record[2] for record in it.records("episode")]
    assert [[0, 1], [2, 3], [4, 5]] == [[row[1] for row in record[-1]] for record in it.records("steps")]


def test_a_pause_that_comes_too_late_does_not_hold_the_next_evaluation(worker: Any) -> None:
    """A signal sent before the last verdict was for the episodes that it ended: nobody would say CONTINUE to it."""
    it = worker()
    it.setup(evaluation=True)
    it.start(verdict=Verdict("RESET", round=7))

    def late(peer: str, report: Any) -> Verdict:
        it.link.tell("r/governor", "", FlowSignal("PAUSE", "operator", number=7), Verb.SIGNAL)
        it.reports.append(report)
        return Verdict("STOP_SIMULATION")

    it.link.answers["governor.episode"] = late
    it.hosted.host.tick()
    it.hosted.ask("controller.evaluate", ControllerEvaluate(Verdict("RESET", episode=1, round=9)), "r/governor")
    it.hosted.host.tick()

    assert [0, 1] == [report.episode for report in it.reports]
    assert [] == it.link.asked("governor.stands")
    assert 7 == it.hosted.host._phase.heeded


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


def test_a_failure_says_that_the_worker_evaluates(worker: Any, world: Any) -> None:
    """The governor hears which kind of worker cannot go on."""
    it = worker({"w": world()})
    it.worlds["w"].fails_at = 1
    it.setup(evaluation=True)
    it.start()
    it.hosted.host.tick()

    assert [True] == [failure.evaluation for failure in it.failures]


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


@pytest.mark.parametrize("gone", [GONE, Failure("not_set_up", "expected environment.start first")])
def test_an_episode_is_lost_with_an_environment(worker: Any, world: Any, gone: Failure) -> None:
    """Its rows up to the cut are kept with the reason; the next one begins with new objects, and is whole."""
    mortal = Mortal(worker({"w": world(ends=3)}), "environment.update", 2, gone).run(*NEXT)
    it = mortal.it

    assert ([], ["r/environment/w/0"]) == (it.failures, mortal.waits)
    assert [(0, 1, True, "lost: environment w"), (1, 3, False, "terminated")] == [
        (report.episode, report.steps, report.lost, report.reason) for report in it.reports
    ]
    assert [(0, 1, "lost: environment w"), (1, 3, "terminated")] == [
        (record[5], record[6], record[9]) for record in it.records("episode")
    ]
    assert [[1], [1, 2, 3]] == [[row[0] for row in record[6]] for record in it.records("steps")]
    assert ["environment.start"] * 2 == [call for _, call in calls(it) if call == "environment.start"]
    assert 1 == [call for _, call in calls(it)].count("muscle.shutdown")
    assert 0 == [call for _, call in calls(it)].count("environment.shutdown"), "a new process has nothing to end"


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


def test_other_losses_fail_the_worker(worker: Any, world: Any) -> None:
    """Only whose loss costs no more than an episode by the document is awaited; so it is with other errors."""
    it = worker({"w": world(ends=3)})
    mortal = Mortal(it, "muscle.act", 2).run()  # the environment would be awaited, the muscle is not
    assert (1, []) == (len(it.failures), mortal.waits)
    broken = Mortal(worker({"w": world(ends=3)}), "environment.update", 2, Failure("author", "ValueError: no")).run()
    assert (1, []) == (len(broken.it.failures), broken.waits)
