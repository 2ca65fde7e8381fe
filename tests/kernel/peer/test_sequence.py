"""Who is asked what in which order: whole runs of the hosts around a broker in memory, every call written down."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ganglion.peer.brain import BrainHost
from ganglion.peer.controller import ControllerHost
from ganglion.peer.environment import EnvironmentHost
from ganglion.peer.governor import GovernorHost
from ganglion.peer.muscle import MuscleHost
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
from ganglion.sdk.condition import EpisodeView, PhaseView, TerminationCondition
from ganglion.sdk.controller import Controller
from ganglion.wire.messages import Act, Done, Ended, GovernorStart, Think
from ganglion.wire.name import Role

OWN = PluginPlan("own")
GOVERNOR = "r/governor"


class FakeCounter(Environment):
    """Count to `ends`; sensor and reward are the count."""

    def __init__(self, ends: int = 3) -> None:
        self.ends, self.count = ends, 0

    def start_environment(self) -> Any:
        self.count = 0
        ten = Discrete(10)
        return [SensorInformation(0, ten, "s")], [ActuatorInformation(0, ten, uid) for uid in ("a", "b")]

    def update(self, actuators: Any) -> Any:
        self.count += 1
        reading = SensorInformation(self.count, Discrete(10), "s")
        return [reading], [RewardInformation(self.count, Discrete(10), "r")], self.count == self.ends


class FakeAgent(Muscle):
    """Set what there is to one."""

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        for it in actuators_available:
            it.value = 1
        return actuators_available


class FakeSum(Objective):
    """Return the reward."""

    def internal_reward(self, memory: Any, **kwargs: Any) -> float:
        return float(memory.tail(1).rewards.values[0][0])


class FakeLearner(Brain):
    """Learn nothing."""

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        return None


class AllAtOnce(Controller):
    """Let all act at once."""

    async def advance(self) -> None:
        await self.update(await self.act(self.agents), self.agents)


class InTurns(Controller):
    """Let one act after the other."""

    async def advance(self) -> None:
        acting = self.turn(self.step)
        await self.update(await self.act(acting), acting)

    def turn(self, step: int) -> Sequence[str]:
        return [self.agents[step % len(self.agents)]]


class FakeLimit(TerminationCondition):
    """End the phase when each worker has `episodes` episodes."""

    def __init__(self, episodes: int = 2) -> None:
        super().__init__()
        self.episodes, self.reason = episodes, "limit"

    def phase(self, view: PhaseView) -> Signal:
        done = all(len(worker.finished) >= self.episodes for worker in view.workers)
        return Signal.STOP_PHASE if done else Signal.CONTINUE


class FakeReader(TerminationCondition):
    """Read the objectives, and end nothing."""

    reads = frozenset({"objectives"})

    def episode(self, view: EpisodeView) -> Signal:
        return Signal.CONTINUE


class Listener:
    """Stand before a host and write down what it is asked, when it is asked."""

    def __init__(self, host: Any, who: str, log: list[str], lock: Any) -> None:
        self._host, self._who, self._log, self._lock = host, who, log, lock
        for name in ("told", "gone", "tick"):
            if hasattr(host, name):
                setattr(self, name, getattr(host, name))

    @property
    def participant(self) -> Any:
        """Return the host's participant."""
        return self._host.participant

    @participant.setter
    def participant(self, participant: Any) -> None:
        self._host.participant = participant

    def handlers(self) -> dict[str, Any]:
        """Return the host's handlers, each of which writes down first."""
        return {call: self._listening(call, handler) for call, handler in self._host.handlers().items()}

    def _listening(self, call: str, handler: Any) -> Any:
        def listen(request: Any, message: Any) -> Any:
            with self._lock:
                self._log.append(f"{self._who} {call.partition('.')[2]}{_words(message)}")
            return handler(request, message)

        return listen


def _words(message: Any) -> str:
    """Return what is special about a message."""
    if isinstance(message, Act):
        words = ["ask" if message.decide else "close" if message.closing else "settle"]
        words += [] if message.rewards is None else [f"rewards {message.rewards[0]}"]
        words += ["terminated"] if message.terminated else []
        words += ["truncated"] if message.truncated else []
        return f" {message.readings[0]}: " + ", ".join(words) if not message.passing else " pass"
    if isinstance(message, Think):
        flags = ["terminated"] if message.terminated else []
        return f" {message.decision}: " + ", ".join([f"{message.readings[0]} to {message.next_readings[0]}", *flags])
    return ""


Log = Callable[..., list[str]]


@pytest.fixture
def log_of(crowd: Any, loader: Any, tmp_path: Path) -> Log:
    """Return a function that runs a plan and returns the calls from the first muscle's setup to the last shutdown."""

    def run(controller: type[Any], settle: bool = False, ends: int = 3, **fields: Any) -> list[str]:
        more = [PluginPlan("reader")] if settle else []
        agents = [AgentPlan(n, OWN, OWN, OWN, ["w.s"], [f"w.{a}"]) for n, a in (("One", "a"), ("Two", "b"))]
        environment = EnvironmentPlan("w", OWN, params={"ends": ends})
        limit = PluginPlan("own", {"episodes": fields.pop("episodes", 2)})
        phase = PhasePlan(0, "first", [environment], agents, OWN, more, [limit], **fields)
        found = loader(
            environment=FakeCounter, muscle=FakeAgent, brain=FakeLearner, objective=FakeSum, controller=controller,
            condition=FakeLimit, condition__reader=FakeReader,
        )  # fmt: skip
        log: list[str] = []
        lock, done = threading.Lock(), threading.Event()
        hosts = {
            Role.ENVIRONMENT: EnvironmentHost,
            Role.MUSCLE: MuscleHost,
            Role.BRAIN: BrainHost,
            Role.CONTROLLER: ControllerHost,
        }
        ended: list[Ended] = []

        def end(request: Any, message: Ended) -> Done:
            ended.append(message)
            done.set()
            return Done()

        crowd.supervisor._handlers |= {"kernel.need": lambda request, need: Done(), "kernel.ended": end}
        crowd.add(Listener(GovernorHost(found, str(tmp_path)), "governor", log, lock), GOVERNOR, Role.GOVERNOR)
        for process in processes_of("r", phase):
            who = f"{process.role.value} {process.uid}" if process.uid else process.role.value
            host = Listener(hosts[process.role](found), who, log, lock)
            crowd.add(host, process.name, process.role, process.uid, process.worker)
        plan = Plan("doc", "exp", "7", [phase])
        crowd.supervisor.call(GOVERNOR, "governor.start", GovernorStart("r", plan.to_map(), None), 5.0)
        crowd.supervisor.serve(lambda: setattr(crowd.supervisor, "leaving", ended[0] if ended else None), 0.02)
        assert done.is_set()
        assert [] == crowd.failures
        assert "finished" == ended[0].status
        return log[next(i for i, row in enumerate(log) if " setup" in row and "muscle" in row) :]

    return run


def stages(log: list[str]) -> list[list[str]]:
    """Return a log in stages that follow each other.

    Calls of one kind in a row are made at once, and who is first is nobody's matter: they are one stage, sorted. What
    brains are asked belongs to the stage in which muscles ask them.
    """
    found: list[list[str]] = [[]]
    before = ""
    for row in log:
        kind = next((word for word in KINDS if word in row), row.split()[-1])
        if not row.startswith("brain") or kind in ("store", "setup", "shutdown"):
            if kind != before or kind == "update":
                found.append([])
            before = kind
        found[-1].append(row)
    return [sorted(stage) for stage in found if stage]


KINDS = (": ask", ": settle", ": close", "pass")
BEGIN = [["brain One join", "brain Two join", "muscle One setup", "muscle Two setup"]]
JUDGE = [["governor episode"]]
AGAIN = [["environment w reset", "muscle One reset", "muscle Two reset"]]
LEAVE = [
    ["brain One leave", "brain Two leave", "controller shutdown", "muscle One shutdown", "muscle Two shutdown"],
    ["brain One store", "brain Two store"],
    ["brain One shutdown", "brain Two shutdown", "controller shutdown", "environment w shutdown"],
]
UPDATE = ["environment w update"]


def both(*rows: str) -> list[str]:
    """Return rows of both agents, sorted."""
    return sorted(row.replace("X", name) for row in rows for name in ("One", "Two"))


AT_ONCE = [
    # no decision yet: the brains are asked for news only
    both("brain X update", "muscle X act [0]: ask"),
    UPDATE,
    # the rewards of decision 0 come with the question for decision 1
    both("brain X think 0: [0] to [1]", "muscle X act [1]: ask, rewards [1]"),
    UPDATE,
    both("brain X think 1: [1] to [2]", "muscle X act [2]: ask, rewards [2]"),
    UPDATE,
    # the last decision of everybody is completed with the flags; nobody is asked for another one
    both("brain X think 2: [2] to [3], terminated", "muscle X act [3]: close, rewards [3], terminated"),
]
AT_ONCE_SETTLED = [
    both("brain X update", "muscle X act [0]: ask"),
    UPDATE,
    both("muscle X act [1]: settle, rewards [1]"),
    both("brain X think 0: [0] to [1]", "muscle X act [1]: ask"),
    UPDATE,
    both("muscle X act [2]: settle, rewards [2]"),
    both("brain X think 1: [1] to [2]", "muscle X act [2]: ask"),
    UPDATE,
    both("muscle X act [3]: settle, rewards [3]"),
    both("brain X think 2: [2] to [3], terminated", "muscle X act [3]: close, terminated"),
]
TURNS = [
    ["brain One update", "muscle One act [0]: ask"],
    UPDATE,
    ["brain Two update", "muscle Two act [1]: ask"],
    UPDATE,
    # One's next readings are those of its next turn, its rewards those of its own step
    ["brain One think 0: [0] to [2]", "muscle One act [2]: ask, rewards [1]"],
    UPDATE,
    ["brain One think 1: [2] to [3], terminated", "brain Two think 0: [1] to [3], terminated",
     "muscle One act [3]: close, rewards [3], terminated", "muscle Two act [3]: close, rewards [2], terminated"],
]  # fmt: skip
TURNS_SETTLED = [
    ["brain One update", "muscle One act [0]: ask"],
    UPDATE,
    ["muscle One act [1]: settle, rewards [1]"],
    ["brain Two update", "muscle Two act [1]: ask"],
    UPDATE,
    ["muscle Two act [2]: settle, rewards [2]"],
    ["brain One think 0: [0] to [2]", "muscle One act [2]: ask"],
    UPDATE,
    ["muscle One act [3]: settle, rewards [3]"],
    ["brain One think 1: [2] to [3], terminated", "brain Two think 0: [1] to [3], terminated",
     "muscle One act [3]: close, terminated", "muscle Two act [3]: close, terminated"],
]  # fmt: skip


@pytest.mark.parametrize(
    ("controller", "settle", "episode"),
    [
        (AllAtOnce, False, AT_ONCE),
        (AllAtOnce, True, AT_ONCE_SETTLED),
        (InTurns, False, TURNS),
        (InTurns, True, TURNS_SETTLED),
    ],
)
def test_two_episodes_call_by_call(log_of: Log, controller: type[Any], settle: bool, episode: list[list[str]]) -> None:
    """Act, update, perhaps settle, step by step; rewards once, one row per decision; the end; the next begins alike."""
    expected = [*BEGIN, *episode, *JUDGE, *AGAIN, *episode, *JUDGE, *LEAVE]

    assert expected == stages(log_of(controller, settle))
