"""What a generated phase consists of, and what must come of it by rules written down here once more, as plainly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

DUMMY_IDS = tuple(str(i) for i in range(10))
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {  # sensors, actuators, rewards
    "dummy": (DUMMY_IDS, DUMMY_IDS, ("Dummy Reward",)),
    "counting": (("observation",), ("answer",), ("reward",)),
    "cartpole": (("observation",), ("action",), ("reward",)),
    "pendulum": (("cos", "sin", "speed"), ("torque",), ("balance",)),
    "tic_tac_toe": (("board", "legal"), ("x", "o"), ("x", "o")),
}
UNKNOWN = "unknown"
"""Stands for an objective that the oracle does not know."""


@dataclass(frozen=True)
class Environment:
    """Be an environment of a phase, after all that earlier phases said of it."""

    uid: str
    kind: str
    params: dict[str, Any] = field(default_factory=dict)
    per_worker: tuple[dict[str, Any], ...] = ()

    def ids(self, what: int) -> list[str]:
        """Return its full ids: 0 sensors, 1 actuators, 2 rewards."""
        return [f"{self.uid}.{local}" for local in KINDS[self.kind][what]]

    def of(self, worker: int) -> dict[str, Any]:
        """Return its parameters in a worker."""
        own = self.per_worker[worker % len(self.per_worker)] if self.per_worker else {}
        return {**self.params, **own}

    def length(self, worker: int) -> tuple[int, bool]:
        """Return after how many steps it ends by itself, and whether it has terminated then."""
        params = self.of(worker)
        if self.kind == "dummy":
            return params.get("max_iter", 10), True
        if self.kind == "counting":
            length, cut = params.get("length", 10), params.get("truncate_at")
            return (length, True) if cut is None or length <= cut else (cut, False)
        if self.kind == "cartpole":
            assert params["longest"] < 8, "a pole can fall after eight steps"
            return params["longest"], False
        return 200, False  # the pendulum

    def reward(self, worker: int, step: int) -> float | None:
        """Return the sum of its rewards in a step; None where the oracle does not know."""
        if self.kind == "dummy":
            return float(step % self.of(worker).get("max_iter", 10))
        if self.kind == "counting":
            return step / 1000
        return 1.0 if self.kind == "cartpole" else None


@dataclass(frozen=True)
class Agent:
    """Be an agent of a phase."""

    name: str
    muscle: dict[str, Any]
    brain: dict[str, Any] | None
    objective: str | None
    sensors: tuple[str, ...]
    actuators: tuple[str, ...]
    rewards: tuple[str, ...] | None = None

    def hears(self, environment: Environment) -> bool:
        """Say whether it gets the rewards of an environment."""
        if self.rewards is not None:
            return bool({environment.uid, *environment.ids(2)} & set(self.rewards))
        mine = {*environment.ids(0), *environment.ids(1), f"{environment.uid}.*"}
        return bool(mine & {*self.sensors, *self.actuators})


@dataclass(frozen=True)
class PhaseWorld:
    """Be a phase after the cascade; conditions are (name, params)."""

    name: str
    environments: tuple[Environment, ...]
    agents: tuple[Agent, ...]
    controller: str
    episode_conditions: tuple[tuple[str, dict[str, Any]], ...]
    phase_conditions: tuple[tuple[str, dict[str, Any]], ...]
    mode: str = "train"
    worker: int = 1
    episodes: int = 1
    sync: str = "lockstep"
    every: int | None = None
    each: int = 1

    @property
    def known(self) -> bool:
        """Say whether all its episodes are known beforehand: no game, and nothing that depends on who is faster."""
        racing = self.sync == "async" and self.worker > 1
        shared = self.evaluates or any(name == "environment" for name, _ in self.phase_conditions)
        return all(e.kind != "tic_tac_toe" for e in self.environments) and not (racing and shared)

    @property
    def evaluates(self) -> bool:
        """Say whether it evaluates while it trains."""
        return self.every is not None and self.mode == "train"

    def ending(self, worker: int) -> tuple[int, bool, str]:
        """Return steps, whether terminated, and the reason of each episode of a worker that is left alone."""
        lengths = {e.uid: e.length(worker) for e in self.environments}
        conditions = [*self.episode_conditions, *self.phase_conditions]
        wishes = [_awaited(name, params, lengths) for name, params in conditions]
        over = [steps for steps in wishes if steps is not None] or [_awaited("environment", {}, lengths)]
        limits = [int(params["steps"]) for name, params in conditions if name == "max_steps"]
        natural = min(steps for steps in over if steps is not None)
        if limits and min(limits) < natural:
            return min(limits), False, f"truncated: max_steps {min(limits)}"
        terminated = any(steps <= natural and final for steps, final in lengths.values())
        return natural, terminated, "terminated" if terminated else "truncated: environment"

    def acting(self, step: int) -> list[str]:
        """Return who acts in a step, which counts from 1."""
        names = [agent.name for agent in self.agents]
        return names if self.controller == "vanilla" else [names[(step - 1) % len(names)]]


def _awaited(name: str, params: dict[str, Any], lengths: dict[str, tuple[int, bool]]) -> int | None:
    """Return after how many steps a condition finds that enough environments have ended; None if it never looks."""
    if name not in ("environment", "vanilla"):
        return None
    when = params.get("when", "any")
    if when == "any":
        return min(steps for steps, _ in lengths.values())
    return max(steps for uid, (steps, _) in lengths.items() if when == "all" or uid in when)


@dataclass
class Expected:
    """Say what the tables of a phase must show: episodes, rows of steps, objectives of decisions."""

    reason: str = "max_episodes"
    evaluations: int = 0
    episodes: list[tuple[int, int, int, bool, str]] = field(default_factory=list)  # worker, number, steps, ...
    steps: dict[tuple[int, int, str], int] = field(default_factory=dict)  # worker, number, environment
    objectives: dict[tuple[int, int, str], list[Any]] = field(default_factory=dict)  # worker, number, agent

    def add(self, phase: PhaseWorld, worker: int, number: int, ending: tuple[int, bool, str]) -> None:
        steps, terminated, reason = ending
        self.episodes.append((worker, number, steps, terminated, reason))
        for environment in phase.environments:
            self.steps[worker, number, environment.uid] = min(steps, environment.length(worker)[0])
        for agent in phase.agents:
            decided = [step for step in range(1, steps + 1) if agent.name in phase.acting(step)]
            if decided:
                judged = [_objective(phase, agent, worker, step) for step in decided]
                self.objectives[worker, number, agent.name] = judged


def expected(phase: PhaseWorld) -> Expected:
    """Return what must come of a phase that is known, without its evaluations, whose number is told."""
    found = Expected()
    for worker, number, ending in _timetable(phase, found):
        found.add(phase, worker, number, ending)
    return found


def evaluated(phase: PhaseWorld, count: int) -> Expected:
    """Return what must come of so many evaluations: they know nothing of training."""
    found = Expected()
    for number in range(count * phase.each):
        for worker in range(phase.worker):
            found.add(phase, worker, number, phase.ending(worker))
    return found


def _timetable(phase: PhaseWorld, found: Expected) -> list[tuple[int, int, tuple[int, bool, str]]]:
    """Return (worker, episode, ending) in the order of the results: by round, then worker."""
    endings = [phase.ending(worker) for worker in range(phase.worker)]
    stops = [ending[0] * phase.episodes for ending in endings]  # the rounds after which they have enough
    last = max(stops)
    if any(name == "environment" for name, _ in phase.phase_conditions):
        natural = [ending[0] for ending in endings if "max_steps" not in ending[2]]
        first = min(natural, default=None)
        if first is not None and first <= last:
            last, found.reason = first, "environment"
            deciding = [name for name, _ in phase.phase_conditions if name != "max_steps"]
            if deciding[0] != "environment" and all(stop <= first for stop in stops):
                found.reason = "max_episodes"  # both fire at once, and this one comes first
    rows = []
    for worker, (length, terminated, reason) in enumerate(endings):
        stop = min(stops[worker], last)
        for number in range(stop // length):
            rows.append(((number + 1) * length, worker, number, (length, terminated, reason)))
        if stop % length:
            cut = (stop % length, False, "truncated: phase end")
            rows.append((stop, worker, stop // length, cut))
    found.evaluations = _evaluations(phase, [row[0] for row in rows if "phase end" not in row[3][2]])
    return [(worker, number, ending) for _, worker, number, ending in sorted(rows, key=lambda row: row[:2])]


def _evaluations(phase: PhaseWorld, rounds: list[int]) -> int:
    """Return how many evaluations are due where episodes end after these rounds."""
    if not phase.evaluates or phase.every is None:
        return 0
    counts = [sum(other <= round_ for other in rounds) // phase.every for round_ in sorted(set(rounds))]
    return len({count for count in counts if count})


def _objective(phase: PhaseWorld, agent: Agent, worker: int, step: int) -> Any:
    """Return the objective of a decision: the sum of its rewards; what rests earns nothing."""
    heard = [e for e in phase.environments if agent.hears(e)]
    running = [e for e in heard if step <= e.length(worker)[0]]
    rewards = [e.reward(worker, step) for e in running]
    if None in rewards:
        return UNKNOWN
    if not rewards and agent.objective != "dummy":
        return None
    return sum(reward for reward in rewards if reward is not None)
