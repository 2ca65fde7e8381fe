"""The plan: what a checked document says, phase by phase, ready to be carried out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ganglion.limits import DEADLINE_OTHER_S, DEADLINES_S
from ganglion.wire.name import Role, peer_name

__all__ = [
    "AgentPlan",
    "EnvironmentPlan",
    "PhasePlan",
    "Plan",
    "PluginPlan",
    "Process",
    "processes_of",
    "span_s",
]


_INSIDE = {
    "muscle.setup": ("think",),
    "muscle.act": ("think",),
    "muscle.shutdown": ("leave",),
    "controller.setup": ("start",),
    "controller.start": ("setup", "think"),
    "controller.shutdown": ("shutdown", "record"),
}
"""What the callee waits for in turn: its own wait must end first, so that the error names who did not answer."""

_SLACK_S = 1.0


def span_s(call: str, deadlines_s: Mapping[str, float | None]) -> float | None:
    """Return how long a call may take: by its last word, and by what is waited for inside it; None waits for ever."""
    word = call.rpartition(".")[2]
    total_s = _one_s(word, deadlines_s)
    for inner in _INSIDE.get(call, ()):
        inner_s = _one_s(inner, deadlines_s)
        total_s = None if total_s is None or inner_s is None else total_s + inner_s + _SLACK_S
    return total_s


def _one_s(word: str, deadlines_s: Mapping[str, float | None]) -> float | None:
    return deadlines_s[word] if word in deadlines_s else DEADLINES_S.get(word, DEADLINE_OTHER_S)


@dataclass(frozen=True, slots=True)
class PluginPlan:
    """Name a plugin and its parameters; `at` is where the document names it (`file:line:column: $.path`)."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    on_error: str = "fail"
    at: str = ""


@dataclass(frozen=True, slots=True)
class EnvironmentPlan:
    """Describe one environment of a phase; exactly one of `plugin`, `command`, `attach` is set."""

    uid: str
    plugin: PluginPlan | None = None
    command: list[str] | None = None
    attach: bool = False
    params: dict[str, Any] = field(default_factory=dict)
    per_worker: list[dict[str, Any]] = field(default_factory=list)
    reward: PluginPlan | None = None
    transformer: PluginPlan | None = None
    cwd: str | None = None
    variables: dict[str, str] = field(default_factory=dict)

    def params_of(self, worker: int) -> dict[str, Any]:
        """Return the constructor's arguments in a worker: those of `per_worker` win key by key."""
        if not self.per_worker:
            return dict(self.params)
        return {**self.params, **self.per_worker[worker % len(self.per_worker)]}


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """Describe one agent of a phase.

    `sensors` and `actuators` are full ids or `<uid>.*`, with their places in `sensors_at`, `actuators_at`; `rewards`
    (`rewards_at`) None means those of all environments of which the agent has a sensor or an actuator. `brain` None
    never learns.
    `load` is None (continue), False (fresh) or a map; `load_at` and `models_at` are the places of these keys.
    """

    name: str
    muscle: PluginPlan
    brain: PluginPlan | None
    objective: PluginPlan
    sensors: list[str]
    actuators: list[str]
    rewards: list[str] | None = None
    filters: list[PluginPlan] = field(default_factory=list)
    models: str | None = None
    load: Any = None
    sensors_at: list[str] = field(default_factory=list)
    actuators_at: list[str] = field(default_factory=list)
    load_at: str = ""
    models_at: str = ""
    rewards_at: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """Describe one phase after the cascade."""

    index: int
    name: str
    environments: list[EnvironmentPlan]
    agents: list[AgentPlan]
    controller: PluginPlan
    episode_conditions: list[PluginPlan]
    phase_conditions: list[PluginPlan]
    mode: str = "train"  # train, test, evaluate
    workers: int = 1
    episodes: int | None = None
    sync: str = "lockstep"
    evaluate_every: int | None = None
    evaluate_episodes: int = 1
    deadlines_s: dict[str, float | None] = field(default_factory=dict)
    on_loss: str = "fail"  # fail, recover

    @property
    def evaluates(self) -> bool:
        """Say whether there may be evaluations within this phase."""
        return self.mode == "train" and self.evaluate_every is not None

    def deadline_s(self, call: str) -> float | None:
        """Return how long a call may take: the phase's own numbers first, then the built-in ones."""
        return span_s(call, self.deadlines_s)


@dataclass(frozen=True, slots=True)
class Plan:
    """Describe a whole run. `seed` is decimal text: it may be larger than an integer on the wire."""

    uid: str
    experiment: str
    seed: str
    phases: list[PhasePlan]
    source: str = ""  # the document's file
    folder: str = ""  # where its paths begin
    document: str = ""  # its text, kept with the results
    allow: list[str] = field(default_factory=list)  # packages that import paths may name

    def to_map(self) -> dict[str, Any]:
        """Return the plan as a tree of plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_map(cls, tree: dict[str, Any]) -> Plan:
        """Return the plan that `to_map` gave."""
        phases = [_phase(p) for p in tree["phases"]]
        return cls(**{**tree, "phases": phases})


def _plugin(tree: dict[str, Any] | None) -> PluginPlan | None:
    return None if tree is None else PluginPlan(**tree)


def _environment(tree: dict[str, Any]) -> EnvironmentPlan:
    parts = {key: _plugin(tree[key]) for key in ("plugin", "reward", "transformer")}
    return EnvironmentPlan(**{**tree, **parts})


def _agent(tree: dict[str, Any]) -> AgentPlan:
    parts: dict[str, Any] = {key: _plugin(tree[key]) for key in ("muscle", "brain", "objective")}
    parts["filters"] = [PluginPlan(**f) for f in tree["filters"]]
    return AgentPlan(**{**tree, **parts})


def _phase(tree: dict[str, Any]) -> PhasePlan:
    return PhasePlan(
        **{
            **tree,
            "environments": [_environment(e) for e in tree["environments"]],
            "agents": [_agent(a) for a in tree["agents"]],
            "controller": PluginPlan(**tree["controller"]),
            "episode_conditions": [PluginPlan(**c) for c in tree["episode_conditions"]],
            "phase_conditions": [PluginPlan(**c) for c in tree["phase_conditions"]],
        }
    )


@dataclass(frozen=True, slots=True)
class Process:
    """Name one process of a phase and say how it comes to life."""

    name: str
    role: Role
    uid: str | None = None  # agent or environment
    worker: int | None = None
    environment: EnvironmentPlan | None = None
    evaluation: bool = False  # of a worker that evaluates

    @property
    def attached(self) -> bool:
        """Say whether somebody else starts it."""
        return self.environment is not None and self.environment.attach

    @property
    def is_controller(self) -> bool:
        """Say whether it drives a worker."""
        return self.role is Role.CONTROLLER

    @property
    def label(self) -> str:
        """Return how a person is told of it: `environment grid (worker 2)`."""
        text = self.role.value if self.uid is None else f"{self.role.value} {self.uid}"
        kind = "evaluation worker" if self.evaluation else "worker"
        return text if self.worker is None else f"{text} ({kind} {self.worker})"


def processes_of(run: str, phase: PhasePlan) -> list[Process]:
    """Return the processes that a phase needs besides governor and store, in document order."""
    found: list[Process] = []
    for agent in phase.agents:
        if agent.brain is not None:
            found.append(Process(peer_name(run, Role.BRAIN, agent.name), Role.BRAIN, agent.name))
    for evaluation in (False, True) if phase.evaluates else (False,):
        for worker in range(phase.workers):
            found += _worker(run, phase, worker, evaluation)
    return found


def _worker(run: str, phase: PhasePlan, worker: int, evaluation: bool) -> list[Process]:
    """Return the processes of one worker."""

    def process(role: Role, uid: str | None, environment: EnvironmentPlan | None = None) -> Process:
        name = peer_name(run, role, uid, worker, evaluation)
        return Process(name, role, uid, worker, environment, evaluation)

    environments = [process(Role.ENVIRONMENT, e.uid, e) for e in phase.environments]
    muscles = [process(Role.MUSCLE, agent.name) for agent in phase.agents]
    return [process(Role.CONTROLLER, None), *environments, *muscles]
