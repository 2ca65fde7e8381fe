from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import msgpack
import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.peer.brain import BrainHost
from ganglion.peer.controller import ControllerHost
from ganglion.peer.conversation import Gone
from ganglion.peer.environment import EnvironmentHost
from ganglion.peer.governor import GovernorHost
from ganglion.peer.muscle import MuscleHost
from ganglion.peer.store import StoreHost
from ganglion.run.effect import Event, Steer, read_cut
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, processes_of
from ganglion.sdk import (
    ActuatorInformation,
    Brain,
    Discrete,
    Environment,
    Muscle,
    Objective,
    RewardInformation,
    SensorInformation,
    Signal,
)
from ganglion.sdk.condition import PhaseView, TerminationCondition
from ganglion.sdk.controller import Controller
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import (
    Done,
    Ended,
    Failure,
    FlowSignal,
    GovernorStart,
    Joined,
    RecordAck,
    RunRequest,
    Stands,
    Watch,
)
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

OWN = PluginPlan("own")
GOVERNOR, STORE = "r/governor", "r/store"


class FakeCounter(Environment):
    """Count to four; raise in the step that `breaks` says."""

    def __init__(self, breaks: int = 0) -> None:
        self.breaks = breaks
        self.count = 0

    def start_environment(self) -> Any:
        self.count = 0
        return [SensorInformation(0, Discrete(10), "s")], [ActuatorInformation(0, Discrete(10), "a")]

    def update(self, actuators: Any) -> Any:
        self.count += 1
        if self.count == self.breaks:
            raise ZeroDivisionError("by nothing")
        rewards = [RewardInformation(self.count, Discrete(10), "r")]
        return [SensorInformation(self.count, Discrete(10), "s")], rewards, self.count == 4


class FakeAgent(Muscle):
    """Propose what the brain sent last."""

    def setup(self) -> None:
        self.value = 0

    def update(self, update: Any) -> None:
        self.value = update["value"]

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        actuators_available[0].value = self.value
        return actuators_available


class FakeSum(Objective):
    """Return the reward."""

    def internal_reward(self, memory: Any, **kwargs: Any) -> float:
        return float(memory.tail(1).rewards.values[0][0])


class FakeLearner(Brain):
    """Send how many rows it has, modulo ten."""

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        return {"value": len(self.memory) % 10}


class FakeOnce(Controller):
    """Let all act at once."""

    async def advance(self) -> None:
        await self.update(await self.act(self.agents), self.agents)


class FakeLimit(TerminationCondition):
    """End the phase when each worker has two episodes."""

    def phase(self, view: PhaseView) -> Signal:
        self.reason = "limit"
        done = all(len(worker.finished) >= 2 for worker in view.workers)
        return Signal.STOP_PHASE if done else Signal.CONTINUE


class FakeBroken(TerminationCondition):
    """Fail when the phase is asked."""

    def phase(self, view: PhaseView) -> Signal:
        raise ZeroDivisionError("no phase")


class FakeUnmade(TerminationCondition):
    """Fail to be made."""

    def __init__(self) -> None:
        raise ZeroDivisionError("no condition")


class FakeWriter:
    """Keep what is applied."""

    def __init__(self) -> None:
        self.records: list[list[Any]] = []

    def apply(self, writer: str, records: list[Any]) -> None:
        """Take records."""
        self.records += records

    def commit(self) -> None:
        """Do nothing."""

    def heads(self) -> dict[str, Any]:
        """Return what protects the rows."""
        return {"run": f"{len(self.records)} records"}

    def close(self) -> None:
        """Do nothing."""


class FakeWatched(FakeLimit):
    """Note by which deadline the watchdog bounds each question."""

    spans_s: ClassVar[list[float | None]] = []
    bound: ClassVar[Callable[[], float | None]]

    def phase(self, view: PhaseView) -> Signal:
        self.spans_s.append(type(self).bound())
        return super().phase(view)


CLASSES: dict[str, type[Any]] = {
    "environment": FakeCounter,
    "muscle": FakeAgent,
    "brain": FakeLearner,
    "objective": FakeSum,
    "controller": FakeOnce,
    "condition": FakeLimit,
    "condition__broken": FakeBroken,
    "condition__watched": FakeWatched,
    "condition__unmade": FakeUnmade,
}


def plan(workers: int = 1, condition: str = "own", breaks: int = 0, brain: bool = True, load: Any = None) -> Plan:
    """Return a plan of one phase."""
    environment = EnvironmentPlan("w", OWN, params={"breaks": breaks})
    agent = AgentPlan("one", OWN, OWN if brain else None, OWN, ["w.*"], ["w.*"], load=load)
    phase = PhasePlan(0, "first", [environment], [agent], OWN, [], [PluginPlan(condition)], workers=workers)
    return Plan("doc", "exp", "7", [phase])


class Run:
    """Run a plan with all of its hosts around one broker in memory; the test is the supervisor."""

    def __init__(self, crowd: Any, loader: Any, plan: Plan, results: Path) -> None:
        self.ended: Ended | None = None
        self.writer = FakeWriter()
        done = threading.Event()

        def end(request: Any, ended: Ended) -> Done:
            self.ended = ended
            done.set()
            return Done()

        crowd.supervisor._handlers |= {"kernel.need": lambda request, need: Done(), "kernel.ended": end}
        found = loader(**CLASSES)
        hosts: dict[Role, Callable[[], Any]] = {
            Role.ENVIRONMENT: lambda: EnvironmentHost(found),
            Role.MUSCLE: lambda: MuscleHost(found),
            Role.BRAIN: lambda: BrainHost(found),
            Role.CONTROLLER: lambda: ControllerHost(found),
        }
        governor = GovernorHost(found, str(results))
        FakeWatched.bound = lambda: governor.participant.patience_s
        crowd.add(governor, GOVERNOR, Role.GOVERNOR)
        crowd.add(StoreHost(self.writer), STORE, Role.STORE)  # type: ignore[arg-type]
        for process in processes_of("r", plan.phases[0]):
            crowd.add(hosts[process.role](), process.name, process.role, process.uid, process.worker)
        crowd.supervisor.call(GOVERNOR, "governor.start", GovernorStart("r", plan.to_map(), STORE), 5.0)
        crowd.supervisor.serve(lambda: setattr(crowd.supervisor, "leaving", self.ended), 0.02)
        assert done.is_set()
        assert [] == crowd.failures

    def rows(self, kind: str) -> list[list[Any]]:
        """Return rows of a kind, by worker and episode, with their values decoded."""
        found = sorted((r for r in self.writer.records if r[0] == kind), key=lambda r: (r[3], r[5]))
        return [[*r[3:6], [[_plain(v) for v in row] for row in r[6]]] for r in found]


def _plain(value: Any) -> Any:
    return msgpack.unpackb(value) if isinstance(value, bytes) and value else value


@pytest.fixture
def run(crowd: Any, loader: Any, tmp_path: Path) -> Callable[..., Run]:
    """Return a function that runs a plan."""
    return lambda **fields: Run(crowd, loader, plan(**fields), tmp_path)


# -- whole runs -------------------------------------------------------------------------------------------------------


def test_an_index_of_models_that_cannot_be_written_fails_the_run(run: Any, tmp_path: Path) -> None:
    """A run whose models nobody could find later does not end as if all were well."""
    (tmp_path / "brains" / "models.json" / "in the way").mkdir(parents=True)
    it = run()

    assert ("failed", 1, "store") == (it.ended.status, it.ended.exit_status, it.ended.failure.kind)
    assert "index of models" in it.ended.failure.message


def test_a_model_that_is_nowhere_fails_the_run(run: Any, tmp_path: Path) -> None:
    """The document is at fault: status 2, and no step is made."""
    it = run(load={"experiment_run": "cod", "base": str(tmp_path / "nowhere")})

    assert ("failed", 2, "document") == (it.ended.status, it.ended.exit_status, it.ended.failure.kind)
    assert f"in base {tmp_path / 'nowhere'}: there is no such directory" in it.ended.failure.message
    assert [] == it.rows("steps")


def test_workers_without_a_brain_go_their_own_ways(run: Any) -> None:
    """Where nothing is learned there is no common boundary, and the same rows."""
    it = run(workers=2, brain=False)

    assert [[0] * 4] * 4 == [[row[4][0] for row in entry[-1]] for entry in it.rows("actions")]
    assert [(0, 0), (0, 1), (1, 0), (1, 1)] == [(entry[0], entry[2]) for entry in it.rows("actions")]


def test_an_authors_exception_ends_the_run_by_name(run: Any) -> None:
    """Exit 1, whose fault, in which step; complete rows before it are there."""
    it = run(breaks=3)
    ended = it.ended

    assert ("failed", 1, "r/environment/w/0") == (ended.status, ended.exit_status, ended.peer)
    assert ("author", "ZeroDivisionError: by nothing") == (ended.failure.kind, ended.failure.message)
    assert "environment w (worker 0), class FakeCounter, step 3, hook update" in ended.failure.where
    assert [2, 2] == [len(it.rows(kind)[0][-1]) for kind in ("steps", "actions")]


@pytest.mark.parametrize(("name", "text"), [("broken", "no phase"), ("unmade", "no condition")])
def test_a_failing_condition_ends_the_run_by_name(run: Any, name: str, text: str) -> None:
    """A phase part that raises, or a condition that cannot be made, is blamed; the governor lives on to say it."""
    ended = run(condition=name).ended

    assert ("failed", 1, "author", f"ZeroDivisionError: {text}") == (
        ended.status,
        ended.exit_status,
        ended.failure.kind,
        ended.failure.message,
    )
    assert "conditions of phase 0" in ended.failure.where


# -- alone ------------------------------------------------------------------------------------------------------------
class Stage:
    """Stand a governor's host on a fake link whose kernel and store answer by a script."""

    def __init__(self, hosted: Any, loader: Any, tmp_path: Path) -> None:
        self.hosted = hosted(GovernorHost(loader(**CLASSES), str(tmp_path)))
        self.link = self.hosted.link
        self.link.answers |= {
            "kernel.need": lambda peer, it: Done(),
            "kernel.watch": lambda peer, it: Done(),
            "kernel.ended": lambda peer, it: Done(),
        }

    def start(self, store: str | None = STORE, resume: Any = None) -> Any:
        request = GovernorStart("r", plan().to_map(), store, None, resume)
        return self.hosted.ask("governor.start", request, "supervisor")

    def settle(self) -> None:
        """Take all that has come."""
        participant = self.hosted.participant
        while self.link.inbox or participant._inbox:
            incoming = participant._next(0.0)
            if incoming is not None:
                participant._take(incoming)
        self.hosted.host.tick()

    def ended(self) -> Any:
        return self.link.asked("kernel.ended")[0][1]


@pytest.fixture
def stage(hosted: Any, loader: Any, tmp_path: Path) -> Stage:
    """Return a governor's host."""
    return Stage(hosted, loader, tmp_path)


def test_a_start_may_go_on_with_a_cut(stage: Stage, tmp_path: Path) -> None:
    """The run began when it began first; signals are counted on; the cut is there once the store has all before it."""
    cut = {"phase": 0, "models": [], "started": "long ago", "signals": [[1, 5]], "shelves": [], "rows": []}
    stage.start(resume=cut)
    stage.settle()
    batches = [message for _, message in stage.link.told("record.batch")]
    path = tmp_path / "cuts" / "phase-000000.json"

    assert "long ago" == batches[0].records[0][1]["started"]
    assert not path.exists()
    stage.link.tell(STORE, "record.ack", RecordAck(batches[-1].number, None))
    stage.settle()
    found = read_cut(path.read_bytes(), "it")
    assert ("r", 0, "long ago", [[1, 5]]) == tuple(found[key] for key in ("run", "phase", "started", "signals"))


def test_what_is_no_cut_is_refused(stage: Stage) -> None:
    """A start with something else as `resume` begins nothing."""
    with pytest.raises(RemoteProtocolError, match="expected a cut as `resume`"):
        stage.start(resume={"phase": "first"})


def test_a_governor_has_one_run(stage: Stage) -> None:
    """A second start is refused."""
    stage.start()
    with pytest.raises(RemoteProtocolError, match="has a run already"):
        stage.start()


@pytest.mark.parametrize(
    ("call", "message"), [("governor.signal", FlowSignal("RESET", "operator")), ("governor.stop", RunRequest("r"))]
)
def test_start_comes_first(stage: Stage, call: str, message: Any) -> None:
    """Without a run there is nothing to steer."""
    with pytest.raises(RemoteProtocolError, match=r"expected governor\.start first"):
        stage.hosted.ask(call, message, "supervisor")


def test_a_lost_process_fails_the_run(stage: Stage) -> None:
    """LOST of somebody who is needed ends the run by his name and the reason."""
    stage.start(None)
    stage.settle()
    stage.link.tell("", "kernel.joined", Joined("r/brain/one", 1, "brain"))
    stage.link.lose("r/brain/one", "killed by signal 9")
    stage.settle()

    assert ("failed", "r/brain/one") == (stage.ended().status, stage.ended().peer)
    assert "killed by signal 9" in stage.ended().failure.message


def test_a_process_that_returns_fails_nothing(stage: Stage) -> None:
    """LOST of somebody who will return is waited out."""
    stage.start(None)
    stage.settle()
    stage.link.tell("", "kernel.joined", Joined("r/brain/one", 1, "brain"))
    stage.hosted.host.gone(Gone("r/brain/one", 1, "killed by signal 9", True))
    stage.settle()

    assert [] == stage.link.asked("kernel.ended")


def test_signals_are_numbered_and_said_again_to_who_joins(stage: Stage) -> None:
    """Each controller's signals count from one; who joins again hears those of the phase, with their numbers."""
    stage.start(None)
    stage.settle()
    wish, first, second = FlowSignal("PAUSE", "operator"), "r/controller/0", "r/controller/1"
    stage.hosted.host._carry_out([Steer(first, wish), Steer(second, wish), Steer(first, wish)])
    stage.link.tell("", "kernel.joined", Joined(first, 2, "controller"))
    stage.settle()

    sent = [e for e in stage.link.sent if e.head.verb is Verb.SIGNAL]
    numbers = [(e.peer, codec_of(FlowSignal).decode(e.body).number) for e in sent]
    assert [(first, 1), (second, 1), (first, 2), (first, 1), (first, 2)] == numbers
    stage.hosted.host._carry_out([Event("phase.started")])
    stage.link.tell("", "kernel.joined", Joined(first, 3, "controller"))
    stage.settle()
    assert len(sent) == len([e for e in stage.link.sent if e.head.verb is Verb.SIGNAL])


@pytest.mark.parametrize(("heeded", "stands"), [(0, False), (1, False), (2, True), (3, True), (None, True)])
def test_who_is_told_to_go_on_does_not_stand(stage: Stage, heeded: int | None, stands: bool) -> None:
    """A report that crosses CONTINUE is of a worker that stands no longer; one that crosses PAUSE is true."""
    stage.start(None)
    stage.settle()
    peer, there = "r/controller/0", list[Stands]()
    signals = [FlowSignal(signal, "operator") for signal in ("PAUSE", "CONTINUE", "PAUSE")]
    stage.hosted.host._carry_out([Steer(peer, signal) for signal in signals])
    stage.hosted.host._running().stands = lambda token, report, now_s: there.append(report) or []
    stage.hosted.ask("governor.stands", Stands(0, 1, 2, heeded=heeded), peer)
    stage.hosted.ask("governor.stands", Stands(1, 1, 2, heeded=0), "r/controller/1")  # it was told nothing

    assert [0, 1][not stands :] == [report.worker for report in there]


def test_another_broker_is_asked_to_watch_again(stage: Stage) -> None:
    """On each new connection everybody whom the phase needs is watched."""
    stage.start()
    stage.settle()
    before = stage.link.calls("kernel.watch")
    stage.hosted.host.reconnected()

    assert len(before) + 1 == len(stage.link.calls("kernel.watch"))
    names = codec_of(Watch).decode(stage.link.calls("kernel.watch")[-1].body).peers
    assert {STORE, "r/brain/one"} <= set(names)


def test_the_end_is_said_again_to_whoever_supervises_next(stage: Stage) -> None:
    """That its word was answered is on the governor's tape, and who has answered may be gone: it says it anew."""
    stage.start(None)
    stage.hosted.ask("governor.stop", RunRequest("r", False, "Ctrl-C"), "supervisor")
    stage.settle()
    assert 1 == len(stage.link.asked("kernel.ended"))
    stage.hosted.host.reconnected()

    first, second = [message for _, message in stage.link.asked("kernel.ended")]
    assert ("interrupted", first) == (second.status, second)


def test_a_failing_kernel_call_fails_the_run(stage: Stage) -> None:
    """What the supervisor cannot do ends the run."""
    stage.link.answers["kernel.need"] = lambda peer, it: Failure("launch", "no such program")
    stage.start(None)
    stage.settle()

    assert ("launch", "no such program") == (stage.ended().failure.kind, stage.ended().failure.message)


def test_a_failing_store_fails_the_run(stage: Stage) -> None:
    """What the store cannot write ends the run by the store's name, and the governor lives on to say it."""
    stage.start()
    stage.settle()
    stage.link.tell(STORE, "record.ack", RecordAck(1, Failure("store", "disk full")))
    stage.settle()
    stage.hosted.ask("governor.signal", FlowSignal("RESET", "operator"), "supervisor")
    stage.settle()
    stage.settle()

    assert ("failed", "store", "disk full", STORE) == (
        stage.ended().status,
        stage.ended().failure.kind,
        stage.ended().failure.message,
        stage.ended().peer,
    )
