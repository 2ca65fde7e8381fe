"""The plan: a checked document, phase by phase; the meaning of losses and waits in a plan."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, TypeAlias, get_args, get_origin, get_type_hints

from ganglion import limits
from ganglion.sdk.condition import TerminationCondition
from ganglion.wire.name import Role, peer_name

Asked: TypeAlias = tuple[str, TerminationCondition, str]
"""A condition of a phase: its name, its object, and its scope, `episode` or `phase`."""

RECOVER: Final = "recover"
RESTART: Final = "restart"
FAIL: Final = "fail"
ON_LOSS: Final = RECOVER
"""The meaning of a process's loss where no document states one."""
FREE: Final = "free"
"""The mode in which environments with bodies run independently."""

NO_BRAIN = "none"
"""The name for no brain."""

CONTROLLER, OBJECTIVE = "vanilla", "aggregate_rewards"
"""The default plugins of a phase and an agent; the objective of programs that act is the sum of their rewards."""

Deadlines = Mapping[str, "float | None"]
"""Seconds by the last word of a call; None waits for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Hold a document's settings of losses and deadlines, for a run, a phase, an environment or an agent.

    `on_loss` is `recover` (the loss has no effect), `restart` (the open episode is lost, the next one begins anew) or
    `fail`. A process is replaced `restarts_max` times within `restarts_within_s` seconds, and not again if it dies
    `restarts_poison` times at one place. `checkpoint_s` is the least time between two checkpoints of a run. `run_as` is
    the user of a process; None: the current user.
    """

    on_loss: str = ON_LOSS
    deterministic: bool = True
    restarts_max: int = limits.RESTARTS_PER_NAME
    restarts_within_s: float = limits.RESTARTS_WITHIN_S
    restarts_poison: int = limits.LOSSES_AT_ONE_STEP
    checkpoint_s: float = limits.CHECKPOINT_S
    deadlines_s: dict[str, float | None] = field(default_factory=dict)
    run_as: str | None = None

    def outline_recovery(self) -> dict[str, Any]:
        """Return the settings of losses and deadlines in the form of a document."""
        values = {part.name: getattr(self, part.name) for part in dataclasses.fields(Recovery)}
        restarts = {key: values.pop(f"restarts_{key}") for key in ("max", "within_s", "poison")}
        first = {key: values.pop(key) for key in ("on_loss", "deterministic")}
        return {**first, "restarts": restarts, **values}


def _values(part: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(part, name) for name in names}


_INSIDE = {
    "muscle.setup": ("think",),
    "muscle.act": ("think",),
    "muscle.swap": ("think",),
    "muscle.shutdown": ("leave",),
    "controller.setup": ("start",),
    "controller.start": ("setup", "think"),
    "controller.shutdown": ("shutdown", "record"),
}
"""The waits of the callee itself: they must end first, so that the error names the late process."""

_SLACK_S = 1.0


def span_s(call: str, deadlines_s: Deadlines) -> float | None:
    """Return a call's deadline: by its last word, plus the waits of its callee; None waits for ever."""
    word = call.rpartition(".")[2]
    total_s = _one_s(word, deadlines_s)
    for inner in _INSIDE.get(call, ()):
        inner_s = _one_s(inner, deadlines_s)
        total_s = None if total_s is None or inner_s is None else total_s + inner_s + _SLACK_S
    return total_s


def widest(tables: Iterable[Deadlines]) -> dict[str, float | None]:
    """Return for each call the longest time that one of these tables allows, that of the slowest callee."""
    given = list(tables)
    spans_s = {word: [_one_s(word, table) for table in given] for table in given for word in table}
    return {word: None if None in spans else max(filter(None, spans)) for word, spans in spans_s.items()}


def _one_s(word: str, deadlines_s: Deadlines) -> float | None:
    return deadlines_s[word] if word in deadlines_s else limits.DEADLINES_S.get(word, limits.DEADLINE_OTHER_S)


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """Describe a program that is an environment or a muscle; `command` None: it is started from outside.

    `cwd` is relative to the document. `params` are sent with the set-up of a muscle. `speaks` is `bus`, or `lines` for
    JSON on its standard streams.
    """

    command: list[str] | None = None
    cwd: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    speaks: str = "bus"

    def outline(self) -> dict[str, Any]:
        """Return the entry of a document: its form, and the keys of that form only."""
        if self.command is None:
            return {"attach": True}
        said = {"command": self.command, "cwd": self.cwd, "speaks": self.speaks, "variables": self.variables}
        return {key: value for key, value in said.items() if value not in (None, "bus", {})}


REPLAY = "recorded"  # the plugin of the group `replay` that carries out the key `replay` of agents


@dataclass(frozen=True, slots=True)
class PluginPlan:
    """Name a plugin and its parameters; `at` is its place in the document (`file:line:column: $.path`)."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    on_error: str = "fail"
    at: str = ""

    def outline(self) -> dict[str, Any]:
        """Return a `{name, params, on_error}`."""
        return _values(self, "name", "params", "on_error")


def outlines(plugins: Iterable[PluginPlan]) -> list[dict[str, Any]]:
    """Return each of several plugins as `{name, params, on_error}`."""
    return [plugin.outline() for plugin in plugins]


def _own(part: EnvironmentPlan | AgentPlan) -> dict[str, Any]:
    """Return `recovery` and `topics` of an entry; an entry without its own recovery has that of its phase."""
    recovery = {} if part.recovery is None else {"recovery": part.recovery.outline_recovery()}
    return recovery | ({"topics": part.topics} if part.topics else {})


@dataclass(frozen=True, slots=True)
class EnvironmentPlan:
    """Describe one environment of a phase; exactly one of `plugin` and `program` is set.

    `recovery` None: that of the phase. `topics` maps `parameters` and `engine` to keys, and each key to a value or to
    its distribution. The other fields apply in a phase with bodies: the environment steps at ticks k with (k - offset)
    mod period = 0. A budget is per worker, with `each` per body; without a budget the environment never ends by itself.
    `max_steps` is the cap of one episode. `episode_end` is `all`, `any`, `each`, `environment`, or the body
    `<agent>/<b>` whose end ends the episode.
    """

    uid: str
    plugin: PluginPlan | None = None
    program: ProgramPlan | None = None
    params: dict[str, Any] = field(default_factory=dict)
    per_worker: list[dict[str, Any]] = field(default_factory=list)
    reward: PluginPlan | None = None
    transformer: PluginPlan | None = None
    recovery: Recovery | None = None
    topics: dict[str, Any] = field(default_factory=dict)
    period: int = 1
    offset: int = 0
    budget_steps: int | None = None
    budget_episodes: int | None = None
    max_steps: int | None = None
    episode_end: str = "all"

    def params_of(self, worker: int) -> dict[str, Any]:
        """Return the constructor's arguments in a worker; `per_worker` overrides `params` key by key."""
        if not self.per_worker:
            return dict(self.params)
        return {**self.params, **self.per_worker[worker % len(self.per_worker)]}

    def trial(self, worker: int = 0) -> str:
        """Return a key that is equal for two environments of a plan if they declare the same."""
        parts = [part and [part.name, part.params] for part in (self.plugin, self.reward, self.transformer)]
        return json.dumps([self.uid, parts, self.params_of(worker)], sort_keys=True)

    def outline(self, bodies: bool) -> dict[str, Any]:
        """Return the entry of a document, in a phase with bodies or without."""
        form: dict[str, Any] = {} if self.plugin is None else {"name": self.plugin.name}
        if self.program is not None:
            form = self.program.outline()
        parts = {"reward": self.reward, "state_transformer": self.transformer}
        form |= _values(self, "params", "per_worker")
        entry: dict[str, Any] = {"environment": {"uid": self.uid, **form}}
        entry |= {key: plugin.outline() for key, plugin in parts.items() if plugin is not None}
        return {**entry, **(self._timeline() if bodies else {}), **_own(self)}

    def _timeline(self) -> dict[str, Any]:
        named = self.episode_end in ("all", "any", "each", "environment")
        budget = {"steps": self.budget_steps, "episodes": self.budget_episodes}
        given = {key: value for key, value in budget.items() if value is not None}
        return {
            "clock": {"period": self.period, "phase": self.offset},
            **({"budget": given} if given else {}),
            "max_steps": self.max_steps,
            "episode_end": self.episode_end if named else {"body": self.episode_end},
        }


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """Describe one agent of a phase; exactly one of `muscle` and `program` is set.

    `sensors` and `actuators` are full ids or `<uid>.*`, with their places in `sensors_at`, `actuators_at`. `rewards`
    (`rewards_at`) None means those of all environments of which the agent has a sensor or an actuator. An agent with
    `brain` None never learns. `load` is None (continue), False (fresh) or a map; `load_at` and `models_at` are the
    places of these keys. `replay` are maps of recorded episodes, with their places in `replay_at`. `recovery` None:
    that of the phase. `topics` has the form of an environment's.
    """

    name: str
    muscle: PluginPlan | None
    brain: PluginPlan | None
    objective: PluginPlan
    sensors: list[str]
    actuators: list[str]
    rewards: list[str] | None = None
    filters: list[PluginPlan] = field(default_factory=list)
    models: str | None = None
    load: Any = None
    replay: list[dict[str, Any]] = field(default_factory=list)
    sensors_at: list[str] = field(default_factory=list)
    actuators_at: list[str] = field(default_factory=list)
    load_at: str = ""
    replay_at: list[str] = field(default_factory=list)
    models_at: str = ""
    rewards_at: list[str] = field(default_factory=list)
    recovery: Recovery | None = None
    topics: dict[str, Any] = field(default_factory=dict)
    program: ProgramPlan | None = None  # in place of a muscle plugin

    def outline(self) -> dict[str, Any]:
        """Return the agent in the form of a document."""
        if self.program is not None:
            acts = {"muscle": {**self.program.outline(), "params": self.program.params}}
        else:
            assert self.muscle is not None
            acts = {"muscle": self.muscle.outline(), "objective": self.objective.outline()}
        return {
            "name": self.name,
            "muscle": acts.pop("muscle"),
            "brain": (self.brain or PluginPlan(NO_BRAIN)).outline(),
            **acts,
            **_values(self, "sensors", "actuators", "rewards"),
            "filters": outlines(self.filters),
            **_values(self, "models", "load"),
            "replay": self.replay or None,
            **_own(self),
        }


@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """Name the model by which a body decides; `at` is its place in the document.

    `source` is `latest` (the current model), `frozen` (the stored model of `load`; None: that of the phase's begin) or
    `pool`: the current model with probability `latest`, else one of the newest `window` snapshots of the model of
    `agent` (None: the body's own). A snapshot is kept every `snapshot_every` learned transitions; a model is drawn
    every `swap_every` decisions. With `rotate_every` teams take turns: one learns by the current model for that many
    decisions. `initial` and `k` are of the ratings.
    """

    source: str = "latest"
    load: dict[str, Any] | None = None
    window: int = 10
    latest: float = 0.5
    snapshot_every: int = 20_000
    swap_every: int = 10_000
    rotate_every: int | None = None
    initial: float = 1200.0
    k: float = 16.0
    agent: str | None = None
    at: str = ""

    def outline(self) -> Any:
        """Return the policy in the form of a document."""
        if self.source == "latest":
            return self.source
        if self.source == "frozen":
            return {"source": self.source} | ({} if self.load is None else {"load": self.load})
        keys = ("source", "window", "latest", "snapshot_every", "swap_every", "rotate_every", "agent")
        return {**_values(self, *keys), "rating": _values(self, "initial", "k")}


@dataclass(frozen=True, slots=True)
class BodyPlan:
    """Describe one body of a phase: an instance of an agent in an environment.

    The body decides before step n of its episode where n >= `offset` and (n - offset) mod period = 0. At other steps
    its last setpoint is repeated, or `noop` or `zero` is applied; `between_at` is the place of that setting. The
    reward, of `reward` or else of the environment, is multiplied by `scale`, `shift` is added, and the result is
    clipped to `low` and `high`. With `learn` false the brain does not receive its transitions. With `most` the entry
    describes bodies that the environment may spawn, at most that many at a time, and `b` is unused.
    """

    agent: str
    environment: str
    b: int
    period: int = 1
    offset: int = 0
    between: str = "repeat"
    between_at: str = ""
    scale: float = 1.0
    shift: float = 0.0
    low: float | None = None
    high: float | None = None
    learn: bool = True
    role: str | None = None
    team: str | None = None
    group: str | None = None
    reward: PluginPlan | None = None
    most: int = 0
    policy: PolicyPlan = PolicyPlan()

    def outline(self) -> dict[str, Any]:
        """Return the document's rule that fully describes this body, or the bodies that may be spawned."""
        reward: dict[str, Any] = {"scale": self.scale, "offset": self.shift}
        if self.low is not None and self.high is not None:
            reward["clip"] = [self.low, self.high]
        reward |= {} if self.reward is None else self.reward.outline()
        decision = {"period": self.period, "phase": self.offset, "between": self.between}
        match = {**_values(self, "agent", "environment"), **({"dynamic": True} if self.most else {"body": self.b})}
        tags = _values(self, "learn", "role", "team", "group")
        return {"match": match, "reward": reward, "decision": decision, **tags, "policy": self.policy.outline()}


@dataclass(frozen=True, slots=True)
class Source:
    """Name the bodies of an agent that decide by one model; `places` are their numbers among the agent's bodies.

    Each worker has one muscle per source. `name` is empty for the current model, else it begins with the source.
    """

    name: str
    policy: PolicyPlan
    team: str | None
    bodies: list[BodyPlan]
    places: list[int]

    def part_of(self, agent: str) -> str | None:
        """Return the agent with the source in brackets, None for the current model."""
        return f"{agent}[{self.name}]" if self.name else None

    @property
    def learns(self) -> bool:
        """Say whether a brain takes part: it receives decisions, or sends the current model."""
        return self.policy.source == "latest" or any(body.learn for body in self.bodies)


def sources_of(bodies: Sequence[BodyPlan] | None, agent: str) -> list[Source]:
    """Return the sources by which an agent's bodies decide, in the order of their first bodies.

    Each team that plays by a pool draws separately. An agent without bodies has the current model.
    """
    found: dict[tuple[Any, ...], Source] = {}
    for place, body in enumerate(body for body in bodies or () if body.agent == agent):
        policy, pooled = body.policy, body.policy.source == "pool"
        said = "" if policy.source == "latest" else repr(dataclasses.replace(policy, at=""))
        key = (policy.source, said, pooled and body.team)
        if key not in found:
            words = [policy.source, *([body.team] if pooled and body.team else [])]
            same = sum(one.name.split(" #")[0] == " ".join(words) for one in found.values())
            name = "" if policy.source == "latest" else " ".join([*words, *([f"#{same + 1}"] if same else [])])
            found[key] = Source(name, policy, body.team if pooled else None, [], [])
        found[key].bodies.append(body)
        found[key].places.append(place)
    return [*found.values()] or [Source("", PolicyPlan(), None, [], [])]


@dataclass(frozen=True, slots=True)
class TablePlan:
    """Describe one table of a phase: the agents whose decisions it stores, and the agents whose brains may ask it.

    With `mix` the table has no data of its own and `plugin` is None: samples come from other tables, by these shares.
    """

    uid: str
    plugin: PluginPlan | None
    feed: list[str]
    serve: list[str]
    mix: dict[str, float] | None = None

    def outline(self) -> dict[str, Any]:
        """Return the table in the form of a document."""
        drawn = {"mix": self.mix} if self.plugin is None else self.plugin.outline()
        return {"uid": self.uid, **drawn, **_values(self, "feed", "serve")}


@dataclass(frozen=True, slots=True)
class PhasePlan(Recovery):
    """Describe one phase after the cascade, with the meaning of losses in it.

    `bodies` are in the order of agents, environments and `b`; None: one body per agent, over all environments.
    `dynamic` are the bodies that environments may spawn, one entry per agent and environment, in the same order. `end`
    says which spent budgets end such a phase: `all`, `any`, or those of the environment of that uid. With `free`
    environments run independently, at most `lead` ticks ahead of the slowest unfinished one.
    """

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
    bodies: list[BodyPlan] | None = None
    dynamic: list[BodyPlan] = field(default_factory=list)
    end: str = "all"
    free: bool = False
    lead: int | None = None
    tables: list[TablePlan] = field(default_factory=list)

    @property
    def pools(self) -> list[TablePlan]:
        """Return the tables that are processes; empty if no brain learns."""
        return [table for table in self.tables if table.mix is None and self.mode == "train"]

    @property
    def all_bodies(self) -> list[BodyPlan]:
        """Return the bodies of the document, then an entry for each kind that may be spawned; empty without bodies."""
        return [*(self.bodies or ()), *self.dynamic]

    @property
    def seats(self) -> list[BodyPlan] | None:
        """Return a body per row: those of `bodies`, then those that may be spawned; None if there are no bodies."""
        if self.bodies is None:
            return None
        return [*self.bodies, *(body for body in self.dynamic for _ in range(body.most))]

    @property
    def evaluates(self) -> bool:
        """Say whether there may be evaluations within this phase."""
        return self.mode == "train" and self.evaluate_every is not None

    def started(self) -> dict[str, Any]:
        """Return the fields of the event that reports the phase's start."""
        names = ("name", "mode", "workers", "episodes")
        return {"phase": self.index, **{name: getattr(self, name) for name in names}}

    def deadline_s(self, call: str, process: Process | None = None) -> float | None:
        """Return a call's deadline: that of the callee first, then the phase's, then the built-in one.

        A call to a controller allows for the slowest of the calls that the controller makes.
        """
        if call.startswith("controller."):
            return span_s(call, widest(part.deadlines_s for part in self.parts()))
        return span_s(call, (self if process is None else self.recovery_of(process)).deadlines_s)

    def parts(self) -> list[Recovery]:
        """Return the recovery settings of the phase, then of each environment and each agent."""
        own = [*(e.recovery for e in self.environments), *(a.recovery for a in self.agents)]
        return [self, *(self if recovery is None else recovery for recovery in own)]

    def recovery_of(self, process: Process) -> Recovery:
        """Return the recovery settings of one process of this phase."""
        entries: dict[str, Recovery | None] = {}
        if process.role in (Role.MUSCLE, Role.BRAIN):
            entries = {agent.name: agent.recovery for agent in self.agents}
        elif process.role is Role.ENVIRONMENT:
            entries = {environment.uid: environment.recovery for environment in self.environments}
        return entries.get(process.uid or "") or self

    def outline(self) -> dict[str, Any]:
        """Return the phase in the normalized form of a document, with every default written out."""
        config = {
            "mode": self.mode,
            "worker": self.workers,
            **_values(self, "episodes", "sync", "evaluate_every", "evaluate_episodes"),
            "conditions": outlines(self.phase_conditions),
        }
        bodies: dict[str, Any] = {} if self.bodies is None else {"bodies": self._outline_bodies(self.bodies)}
        bodies |= {"tables": [table.outline() for table in self.tables]} if self.tables else {}
        return {
            **bodies,
            "environments": [environment.outline(self.bodies is not None) for environment in self.environments],
            "agents": [agent.outline() for agent in self.agents],
            "simulation": {**self.controller.outline(), "conditions": outlines(self.episode_conditions)},
            "phase_config": config,
            "recovery": self.outline_recovery(),
        }

    def _outline_bodies(self, bodies: list[BodyPlan]) -> dict[str, Any]:
        """Return the section that describes exactly these bodies: a list, and a rule for each."""
        spawned = [{**_values(body, "agent", "environment"), "max": body.most} for body in self.dynamic]
        return {
            "product": "custom",
            "num": [[body.agent, body.environment, body.b] for body in bodies],
            "rules": [body.outline() for body in self.all_bodies],
            **({"dynamic": spawned} if spawned else {}),
        }


def budgets_end(budgets: Mapping[str, bool], end: str) -> bool:
    """Say whether spent budgets end a phase with bodies, by its `end`; `budgets` says which environments have one."""
    if end in ("all", "any"):
        return all(budgets.values()) if end == "all" else any(budgets.values())
    return budgets.get(end, False)


def conditions_of(phase: PhasePlan, conditions: list[Asked]) -> list[Asked]:
    """Return the conditions to evaluate: with bodies, clocks end episodes and budgets replace limits.

    A condition that ends a phase by the ends of its environments is kept.
    """
    if phase.bodies is None:
        return conditions
    return [(name, c, place) for name, c, place in conditions if not _is_replaced(c, place)]


def _is_replaced(condition: TerminationCondition, place: str) -> bool:
    """Say whether budgets, caps and ends of episodes replace a condition in a phase with bodies."""
    if "episodes" in condition.reads:
        return True
    if place == "phase" and condition.has_phase_part():
        return False
    return "ended" in condition.reads or cap_of(condition) is not None


def listens(phase: PhasePlan, conditions: Iterable[Asked]) -> bool:
    """Say whether episodes of a phase with bodies are counted, for evaluations or a condition of the phase."""
    return phase.evaluates or any(place == "phase" and condition.has_phase_part() for _, condition, place in conditions)


def cap_of(condition: TerminationCondition) -> int | None:
    """Return the number of steps after which a condition ends every episode, whatever environments do; None: never."""
    return condition.longest_episode({}) if condition.has_episode_part() else None


@dataclass(frozen=True, slots=True)
class Plan:
    """Describe a whole run. `seed` is decimal text: it may be larger than an integer on the wire."""

    uid: str
    experiment: str
    seed: str
    phases: list[PhasePlan]
    source: str = ""  # the document's file
    folder: str = ""  # base folder of its relative paths
    document: str = ""  # text of the document, stored with the results
    allow: list[str] = field(default_factory=list)  # packages that import paths may name
    recovery: Recovery = field(default_factory=Recovery)  # for processes outside phases: governor and store

    @property
    def needs_tcp(self) -> bool:
        """Say whether a process takes part that may not know the socket file, or may not open it."""
        programs = [e.program for phase in self.phases for e in phase.environments]
        programs += [agent.program for phase in self.phases for agent in phase.agents]
        users = [part.run_as for phase in self.phases for part in phase.parts()]
        return any(program is not None for program in programs) or any(users)

    def to_map(self) -> dict[str, Any]:
        """Return the plan as a tree of plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_map(cls, tree: dict[str, Any]) -> Plan:
        """Return the plan that `to_map` serialized."""
        found: Plan = _made(cls, tree)
        return found


_hints = functools.cache(get_type_hints)


def _made(kind: Any, value: Any) -> Any:
    """Return a plain value as an object of its declared type: a dataclass, a list, None, or the value itself."""
    if value is None:
        return None
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: _made(hints[name], part) for name, part in value.items()})
    inner = get_args(kind)
    if get_origin(kind) is list:
        return [_made(inner[0], part) for part in value]
    return _made(inner[0], value) if get_origin(kind) is types.UnionType else value


@dataclass(frozen=True, slots=True)
class Process:
    """Name one process of a phase and how it is started."""

    name: str
    role: Role
    uid: str | None = None  # agent or environment
    worker: int | None = None
    environment: EnvironmentPlan | None = None
    evaluation: bool = False  # whether the process belongs to an evaluation worker
    run_as: str | None = None  # user of the process; None: the current user
    muscle: ProgramPlan | None = None  # the program of a muscle that is one
    part: str | None = None  # name of a muscle of another model source: its agent with the source in brackets

    @property
    def program(self) -> ProgramPlan | None:
        """Return the program of the process, None for a participant of ours."""
        return self.muscle if self.environment is None else self.environment.program

    @property
    def attached(self) -> bool:
        """Say whether the process is started from outside."""
        return self.program is not None and self.program.command is None

    @property
    def label(self) -> str:
        """Return the name for people: `environment grid (worker 2)`."""
        text = self.role.value if self.uid is None else f"{self.role.value} {self.part or self.uid}"
        kind = "evaluation worker" if self.evaluation else "worker"
        return text if self.worker is None else f"{text} ({kind} {self.worker})"


def processes_of(run: str, phase: PhasePlan) -> list[Process]:
    """Return the processes that a phase needs besides governor and store, in document order."""

    def process(role: Role, uid: str | None, own: Recovery | None, *place: Any, **more: Any) -> Process:
        user = (own or phase).run_as
        return Process(peer_name(run, role, more.get("part") or uid, *place), role, uid, run_as=user, **more)

    found = [process(Role.TABLE, table.uid, None) for table in phase.pools]
    found += [process(Role.BRAIN, a.name, a.recovery) for a in phase.agents if a.brain is not None]
    places = [(worker, evaluation) for evaluation in (False, True) for worker in range(phase.workers)]
    for worker, evaluation in places if phase.evaluates else places[: phase.workers]:
        more: dict[str, Any] = {"worker": worker, "evaluation": evaluation}
        place = (worker, evaluation)
        found.append(process(Role.CONTROLLER, None, None, *place, **more))
        found += [
            process(Role.ENVIRONMENT, e.uid, e.recovery, *place, environment=e, **more) for e in phase.environments
        ]
        found += [
            process(Role.MUSCLE, a.name, a.recovery, *place, muscle=a.program, part=source.part_of(a.name), **more)
            for a in phase.agents
            for source in sources_of(phase.seats, a.name)
        ]
    return found


class Loss(Enum):
    """Say what the end of a process means."""

    RETURNS = auto()
    """The successor resumes without effect on the run; others wait for it."""
    REPLAYED = auto()
    """The process is a program; its controller replays the successor to the state of the lost one."""
    EPISODE = auto()
    """The worker loses the open episode, and begins another one with a successor."""
    FAILS = auto()
    """The run fails."""


def loss_of(phase: PhasePlan, process: Process) -> Loss:
    """Return the meaning of a process's loss.

    Only processes that take part in episodes can give up an episode. All others have more state, and recover. A program
    that acts is never replayed: a brain's messages to it are not sent twice.
    """
    said = phase.recovery_of(process).on_loss
    if said == RESTART and process.role in (Role.ENVIRONMENT, Role.MUSCLE):
        return Loss.EPISODE
    if said == FAIL:
        return Loss.FAILS
    if process.program is None:
        return Loss.RETURNS
    return Loss.REPLAYED if process.environment is not None and is_replayed(phase, process.environment) else Loss.FAILS


def is_replayed(phase: PhasePlan, environment: EnvironmentPlan) -> bool:
    """Say whether a program's successor is replayed by its controller to the state of the lost program.

    Programs keep no journal. With `sync: async` updates are in order of arrival, which cannot be repeated. If bodies
    have episodes of their own, or environments run independently, there is no common begin to replay from.
    """
    said, own = (environment.recovery or phase).on_loss, environment.episode_end == "each" or phase.free
    return environment.program is not None and said == RECOVER and phase.sync != "async" and not own


def awaited(phase: PhasePlan, process: Process) -> bool:
    """Say whether processes that notice the loss of another one wait for its successor."""
    return loss_of(phase, process) in (Loss.REPLAYED, Loss.EPISODE)


def mended(phase: PhasePlan, process: Process) -> bool:
    """Say whether the supervisor starts the successor of a lost process."""
    return not process.attached and loss_of(phase, process) is not Loss.FAILS


def ours(process: Process) -> bool:
    """Say whether a process runs our own program, not an external one."""
    return process.program is None


def recovers(plan: Plan) -> bool:
    """Say whether a run replaces any lost process; if so, each of our processes keeps a journal."""
    return any(part.on_loss != FAIL for phase in plan.phases for part in phase.parts())


def unrepeatable(plan: Plan) -> int | None:
    """Return the index of the first phase whose repetition may differ, None if there is none.

    Later phases may begin with its models, so they are no more repeatable than this phase.
    """
    for phase in plan.phases:
        if phase.sync == "async" or not all(part.deterministic for part in phase.parts()):
            return phase.index
    return None
