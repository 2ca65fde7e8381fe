"""The keys of a run document as pydantic models; their refusals become faults with places."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from ganglion import limits
from ganglion.document.fault import Fault
from ganglion.document.marks import Node
from ganglion.run.plan import ON_LOSS
from ganglion.sdk.naming import nearest

Location = tuple[str | int, ...]


@dataclass(frozen=True)
class Expect:
    """Refuse values of a type by `expected <words>`."""

    words: str
    test: Callable[[Any], bool] | None = None  # replaces the type
    schema: dict[str, Any] = field(default_factory=dict)  # the type in the JSON Schema

    def check(self, value: Any) -> Any:
        """Return a valid value; refuse any other."""
        if self.test is None or self.test(value):
            return value
        raise PydanticCustomError("expected", "{words}", {"words": self.words})

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        if self.test is not None:
            return core_schema.no_info_plain_validator_function(self.check)
        said: dict[str, Any] = {"custom_error_message": "{words}", "custom_error_context": {"words": self.words}}
        return core_schema.custom_error_schema(handler(source), "expected", **said)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return dict(self.schema) if self.schema else dict(handler(schema))


def is_name(value: Any) -> bool:
    """Return whether a value may be a uid or a name: text without control characters, `/`, `[` and `]`."""
    if not isinstance(value, str) or not 0 < len(value.encode()) <= limits.UID_BYTES:
        return False
    return value.isprintable() and not set(value) & set("/[]")


def _is_directory(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value != "store" and "://" not in value)


def _nothing(value: Any) -> Any:
    if value in (None, [], {}):
        return value
    raise PydanticCustomError("unbuilt", "unbuilt")


def _are_names(value: Any) -> bool:
    return all(map(is_name, value)) and bool(value) if isinstance(value, list) else is_name(value)


def _are_numbers(value: Any) -> bool:
    return all(type(one) is int for one in value) if isinstance(value, list) else type(value) is int


_ONE_OR_MORE = {"description": "one, or a list"}
_ABSENT: Any = None  # the default of a key that may be missing and may not be null

NAME_WORDS = f"text of 1 to {limits.UID_BYTES} bytes without / [ ] and control characters"
_NAME = {"type": "string", "minLength": 1, "pattern": r"^[^/\[\]]+$"}
_NULLABLE_TEXT = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_FOLDER = "a directory (`./store` for one of that name; stores keep no models) or null"
_SOME = _SECONDS = Field(gt=0, allow_inf_nan=False)

Text = Annotated[str, Expect("text")]
TextOrNull = Annotated[str | None, Expect("text or null")]
Flag = Annotated[bool, Expect("true or false")]
Seed = Annotated[int, Field(ge=0), Expect("an integer >= 0")]
Count = Annotated[int, Field(ge=1), Expect("an integer >= 1")]
CountOrNull = Annotated[Annotated[int, Field(ge=1)] | None, Expect("an integer >= 1 or null")]
WorkerOrNull = Annotated[Annotated[int, Field(ge=0)] | None, Expect("an integer >= 0 or null")]
Span = Annotated[float, _SECONDS, Expect("a number of seconds > 0")]
Deadline = Annotated[Annotated[float, _SECONDS] | None, Expect("a number of seconds > 0 or null")]
Name = Annotated[str, Expect(NAME_WORDS, is_name, _NAME)]
PluginName = Annotated[str, Field(min_length=1), Expect("the name of a plugin")]
User = Annotated[Annotated[str, Field(min_length=1)] | None, Expect("the name of a user or null")]
Id = Annotated[str, Field(min_length=1), Expect("a full id")]
Directory = Annotated[str | None, Expect(_FOLDER, _is_directory, _NULLABLE_TEXT)]
PhaseReference = Annotated[str | Annotated[int, Field(ge=0)] | None, Expect("an index or the name of a phase or null")]
Version = Annotated[str | int | float, Expect("text")]  # a number gives a warning
Number = Annotated[float, Field(allow_inf_nan=False), Expect("a number")]
Params = dict[str, Any]
Unbuilt = Annotated[Any, PlainValidator(_nothing, json_schema_input_type=Any)]  # null or an empty value
Maps = Annotated[list[dict[str, Any]], Expect("a list of maps")]
Variables = Annotated[dict[str, str], Expect("a map of text")]
Command = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1), Expect("a list of text, not empty")]
Speaks = Literal["bus", "lines"]
OnError = Literal["fail", "continue"]
Mode = Literal["train", "test", "evaluate"]


class Form(BaseModel):
    """A map of a document that refuses undeclared keys."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
    spellings: ClassVar[dict[str, str]] = {}  # other names of keys
    kinds: ClassVar[dict[str, str]] = {}  # key -> kind of the plugin that the key names
    short: ClassVar[bool] = False  # whether text means `{name: text}`


_PARAMS = {"parameters": "params"}
_CONDITIONS = {"condition": "conditions"}
_OF_CONDITIONS = {"conditions": "condition"}


class Plugin(Form):
    """Name a plugin: a short name, or an import path `module:Class`. Text alone is the name."""

    spellings, short = _PARAMS, True

    name: PluginName = Field(_ABSENT, description="short name of the plugin, or `module:Class`")
    params: Params = Field({}, description="arguments of its constructor")
    on_error: OnError = Field(
        "fail", description="`continue`: exceptions of its code are recorded and the run goes on; not of conditions"
    )


class _Program(Form):
    """Describe a program that is started in place of a plugin."""

    cwd: Text = Field(_ABSENT, description="working folder of `command`, relative to the document")
    variables: Variables = Field(_ABSENT, description="environment variables of `command`")
    speaks: Speaks = Field(
        _ABSENT, description="`bus`: `command` joins the bus by itself; `lines`: it exchanges one JSON object per line"
    )


class Muscle(_Program, Plugin):
    """Choose the actor, by exactly one of `name`, `command` and `attach`. Text alone is the name."""

    params: Params = Field({}, description="arguments of its constructor; sent to a program with the set-up")
    on_error: OnError = Field(
        "fail",
        description="`continue`: exceptions of its code are recorded and the run goes on; without effect on a program",
    )
    command: Command = Field(
        _ABSENT,
        description="program and arguments, one process per worker, in place of a plugin; its loss ends the run, or "
        "with `on_loss: restart` costs the open episode; `{connection}` is replaced by the address of the bus",
    )
    attach: Flag = Field(False, description="a program that is started from outside; awaited under the agent's name")


class Restarts(Form):
    """Bound how often a lost process is replaced."""

    max: Count = Field(limits.RESTARTS_PER_NAME, description="losses of one name that are repaired within the window")
    within_s: Span = Field(limits.RESTARTS_WITHIN_S, description="the window, seconds")
    poison: Count = Field(
        limits.LOSSES_AT_ONE_STEP,
        description="losses at one position after which the run fails; kills of an idle process do not count",
    )


class Recovery(Form):
    """Set how long calls may take and what follows from the loss of a process."""

    on_loss: Literal["recover", "restart", "fail"] = Field(
        ON_LOSS,
        description="what the loss of a process means: `recover`: the run goes on with equal results; `restart`: the "
        "open episode is lost, the next one follows; `fail`: the run ends",
    )
    deterministic: Flag = Field(True, description="whether a process repeats its replies when its calls are repeated")
    restarts: Restarts = Field(_ABSENT, description="how often a lost process is replaced")
    checkpoint_s: Span = Field(limits.CHECKPOINT_S, description="least time between two checkpoints, seconds")
    deadlines_s: dict[str, Deadline] = Field(
        _ABSENT, description="last word of a call -> how long the call may take, seconds; null: no limit"
    )
    run_as: User = Field(None, description="user under whose name environments, muscles, brains and controllers run")


class Environment(_Program):
    """Define an environment by exactly one of `name`, `command` and `attach`, or change an inherited one."""

    spellings = _PARAMS

    uid: Name = Field(description="names the environment")
    name: PluginName = Field(_ABSENT, description="plugin class; started by Ganglion")
    command: Command = Field(
        _ABSENT, description="program and arguments; `{connection}` is replaced by the address of the bus"
    )
    attach: Flag = Field(False, description="a process that is started from outside; awaited under the uid")
    params: Params = Field({}, description="arguments of the constructor; sent to other programs with the setup")
    on_error: OnError = Field("fail", description="without effect: an environment that raises fails the run")
    per_worker: Maps = Field([], description="worker w gets entry `w mod length` merged over `params`")


class Clock(Form):
    """Set the ticks at which an environment steps: `phase`, then every `period` ticks."""

    period: Count = Field(1, description="ticks from step to step")
    phase: Seed = Field(0, description="the first tick, less than the period")


class Budget(Form):
    """Bound the steps or episodes of an environment in a worker, or with `episode_end: each` of every body."""

    steps: Count = Field(_ABSENT, description="exactly so many steps")
    episodes: Count = Field(_ABSENT, description="exactly so many episodes")


_ENDS = ("all", "any", "each", "environment")
EpisodeEnd = Annotated[
    Any,
    Expect(
        "all, any, each, environment or {body: <agent>/<b>}",
        lambda value: value in _ENDS or (type(value) is dict and [*value] == ["body"] and type(value["body"]) is str),
        {"anyOf": [{"enum": list(_ENDS)}, {"type": "object", "required": ["body"]}]},
    ),
]


def _is_setting(value: Any) -> bool:
    """Return whether a value can be sent, or is a map that describes how a value is drawn."""
    if type(value) is dict:
        return len(value) == 1 and _is_drawn(*next(iter(value.items())))
    parts = value if type(value) is list else [value]
    return all(type(part) in (type(None), bool, int, str) or _are_finite([part]) for part in parts)


def _is_drawn(how: str, given: Any) -> bool:
    pairs = given if how == "multirange" and type(given) is list else [given]
    if how not in ("uniform", "gaussian", "multirange") or not pairs:
        return False
    if not all(type(pair) is list and len(pair) == 2 and _are_finite(pair) for pair in pairs):
        return False
    return all(pair[1] >= (0 if how == "gaussian" else pair[0]) for pair in pairs)


def _are_finite(numbers: list[Any]) -> bool:
    return all(type(number) in (int, float) and math.isfinite(number) for number in numbers)


Setting = Annotated[
    Any,
    Expect(
        "a number, text, a boolean, a list of these, or one of {uniform: [low, high]}, {gaussian: [mean, deviation]}, "
        "{multirange: [[low, high], ...]}",
        _is_setting,
        {"type": ["number", "string", "boolean", "array", "null", "object"], "maxProperties": 1},
    ),
]


class Topics(Form):
    """Set the values in a participant's topics; drawn values are drawn for each episode, from the seed."""

    parameters: dict[str, Setting] = Field({}, description="properties of the world: key -> value, or how to draw it")
    engine: dict[str, Setting] = Field({}, description="how the world is run: key -> value, or how to draw it")


class Entry(Form):
    """Describe an environment with its reward, state transformer, clock and budget."""

    kinds = {"environment": "environment", "reward": "reward", "state_transformer": "transformer"}

    environment: Environment = Field(description="what runs")
    reward: Plugin | None = Field(None, description="replaces the rewards of the environment")
    state_transformer: Plugin | None = Field(None, description="changes each state, after the reward")
    remove: Flag = Field(False, description="remove an inherited environment from this phase on")
    recovery: Recovery = Field(_ABSENT, description="deadlines and recovery of this environment")
    topics: Topics = Field(_ABSENT, description="parameters of this environment")
    clock: Clock = Field(_ABSENT, description="in a phase with bodies: when the environment steps")
    budget: Budget = Field(_ABSENT, description="in a phase with bodies, per worker; default: `phase_config.episodes`")
    max_steps: CountOrNull = Field(
        None, description="in a phase with bodies: steps after which an episode is truncated"
    )
    episode_end: EpisodeEnd = Field(
        "all",
        description="in a phase with bodies, whose end ends an episode: `all` bodies, `any` body, `each` its own, the "
        "`environment` itself, or the body `{body: <agent>/<b>}`",
    )


def _none_if_false(value: Any) -> Any:
    return None if value is False else value


class _Kept(Form):
    """Name what an agent left in a phase of this run or another."""

    spellings = {"agent_name": "agent", "experiment_id": "experiment_run", "phase_name": "phase"}

    agent: TextOrNull = Field(None, description="the agent; default: this one")
    experiment_run: TextOrNull = Field(None, description="uid of the run (its newest finished one); default: this run")
    instance: TextOrNull = Field(None, description="id of the run")
    phase: PhaseReference = Field(
        None, description="index or name of a phase; default: the last one with that agent, here an earlier one"
    )
    base: TextOrNull = Field(None, description="directory or store to search first")


class Load(_Kept):
    """Choose where an agent's model comes from when a phase begins."""

    optional: Flag = Field(False, description="start fresh where no model is found")


class Replay(_Kept):
    """Name recorded episodes from which an agent's brain learns before the first step of a train phase."""

    run: TextOrNull = Field(None, description="id or uid of the run")
    store: TextOrNull = Field(None, description="the only directory or store to search")
    environment: TextOrNull = Field(None, description="only recordings of an agent that was in this environment alone")
    mode: Annotated[Mode | None, Expect("one of train, test, evaluate or null")] = Field(
        None, description="only episodes of this mode; default: the mode of the phase, without its evaluations"
    )
    worker: WorkerOrNull = Field(None, description="only episodes of this worker; default: of all")
    repeat: Count = Field(1, description="how many times the brain learns from them")
    strict: Flag = Field(
        True,
        description="whether all ids, spaces and episodes must fit the agent; `false`: those that fit are "
        "taken, the rest is a warning",
    )
    path: TextOrNull = Field(None, description="files of sessions instead of a run: a dataset, or a folder of datasets")
    format: TextOrNull = Field(None, description="minari, parquet or arrow; default: recognised from the files")
    table: TextOrNull = Field(None, description="the recorded episodes of a table of this phase, instead of a run")


class Agent(Form):
    """Describe an agent: its muscle, its brain, its sensors and its actuators."""

    kinds = {"muscle": "muscle", "brain": "brain", "objective": "objective", "filters": "filter"}

    name: Name = Field(description="names the agent")
    muscle: Muscle = Field(_ABSENT, description="the actor: a plugin or a program")
    brain: Plugin | None = Field(None, description="the learner; `none`: the agent never learns")
    objective: Plugin | None = Field(None, description="converts rewards to one number; the default sums them")
    sensors: list[Id] | None = Field(
        [], description="full ids, or `<uid>.*`, in the order in which the agent sees them"
    )
    actuators: list[Id] | None = Field(
        [], description="full ids, or `<uid>.*`, in the order in which the agent sets them"
    )
    rewards: list[Id] | None = Field(
        None, description="full ids or uids; default: all rewards of the agent's environments"
    )
    filters: list[Plugin] | None = Field(None, description="filters between the agent and the bus")
    replay: list[Replay] | None = Field(
        None,
        description="recorded episodes from which the brain learns before the first step of this phase (train only), "
        "by `pretrain` or else by `thinking`; not inherited",
    )
    models: Directory = Field(None, description="a second directory for its models")
    load: Annotated[Load | None, BeforeValidator(_none_if_false)] = Field(
        None, description="where its model comes from; not inherited"
    )
    remove: Flag = Field(False, description="remove an inherited agent from this phase on")
    recovery: Recovery = Field(_ABSENT, description="deadlines and recovery of this agent")
    topics: Topics = Field(_ABSENT, description="parameters of its muscles")
    opponents: Unbuilt = Field(None, description="opponents")


class Simulation(Form):
    """Choose the controller and the conditions of an episode."""

    spellings, kinds, short = {**_PARAMS, **_CONDITIONS}, _OF_CONDITIONS, True

    name: PluginName = Field(_ABSENT, description="the controller")
    params: Params = Field({}, description="arguments of its constructor")
    conditions: list[Plugin] | None = Field(None, description="episode-level conditions; one suffices")
    on_error: OnError = Field("fail", description="without effect: a controller that raises fails the run")


class PhaseConfig(Form):
    """Set a phase's mode, workers, length and conditions."""

    spellings, kinds = {"workers": "worker", **_CONDITIONS}, _OF_CONDITIONS

    mode: Mode = Field("train", description="`test`, `evaluate`: no brain is called")
    worker: Count = Field(1, description="parallel copies of all environments and muscles; brains are shared")
    episodes: CountOrNull = Field(None, description="limit per worker, read by the condition `max_episodes`")
    evaluate_every: CountOrNull = Field(None, description="train episodes between two evaluations")
    evaluate_episodes: Count = Field(1, description="episodes of an evaluation per worker")
    sync: Literal["lockstep", "pipelined", "async"] = Field("lockstep", description="when the brain thinks")
    conditions: list[Plugin] | None = Field(None, description="phase-level conditions instead of those of `run_config`")
    store_raw_actuators: Any = Field(None, description="without effect: proposals are always stored")


Names = Annotated[Any, Expect("a name or a list of names", _are_names, _ONE_OR_MORE)]
Numbers = Annotated[Any, Expect("an integer or a list of integers", _are_numbers, _ONE_OR_MORE)]


class Match(Form):
    """Select the bodies of a rule: a missing key means any, a list means any of its values."""

    agent: Names = Field(_ABSENT, description="name")
    environment: Names = Field(_ABSENT, description="uid")
    body: Numbers = Field(_ABSENT, description="number within agent and environment; excludes spawned bodies")
    dynamic: Flag = Field(_ABSENT, description="true: only spawned bodies; false: no spawned bodies")


class BodyReward(Form):
    """Change the rewards of bodies: by a reward plugin for each, then `scale`, `offset` and `clip`."""

    scale: Number = Field(_ABSENT, description="factor of a reward")
    offset: Number = Field(_ABSENT, description="added after `scale`")
    clip: list[Number] = Field(_ABSENT, description="[low, high]")
    name: PluginName = Field(_ABSENT, description="a reward plugin: short name, or `module:Class`")
    params: Params = Field(_ABSENT, description="arguments of its constructor")
    on_error: OnError = Field(_ABSENT, description="`continue`: where it fails, the environment's own reward counts")


class Decision(Form):
    """Set before which steps of an episode a body decides, and what is applied in other steps."""

    period: Count = Field(_ABSENT, description="steps from decision to decision")
    phase: Seed = Field(_ABSENT, description="the first step with a decision, less than the period")
    between: Literal["repeat", "noop", "zero"] = Field(_ABSENT, description="what is applied in other steps")


class Rating(Form):
    """Set how sides are rated (Elo)."""

    initial: Number = Field(1200.0, description="the first rating of a side")
    k: Annotated[float, _SOME, Expect("a number > 0")] = Field(16.0, description="weight of an episode")


class Policy(Form):
    """Choose the model by which bodies decide. Text alone is the source."""

    source: Literal["latest", "frozen", "pool"] = Field(
        "latest", description="`latest`: the current model; `frozen`: a stored one; `pool`: drawn opponents"
    )
    load: Load = Field(_ABSENT, description="of `frozen`: source of the model; default: the model at the begin")
    window: Count = Field(10, description="of `pool`: how many of the newest snapshots are kept")
    latest: Annotated[float, Field(ge=0, le=1), Expect("a number from 0 to 1")] = Field(
        0.5, description="of `pool`: probability of the current model instead of a snapshot"
    )
    snapshot_every: Count = Field(20_000, description="of `pool`: learned transitions between two snapshots")
    swap_every: Count = Field(10_000, description="of `pool`: decisions of the drawn bodies between two draws")
    rotate_every: CountOrNull = Field(
        None, description="of `pool`: decisions of the team that learns, by the current model, until the next one"
    )
    rating: Rating = Field(_ABSENT, description="of `pool`: how the sides of an environment are rated")
    agent: Annotated[str | None, Expect(NAME_WORDS, lambda name: name is None or is_name(name), _NULLABLE_TEXT)] = (
        Field(None, description="of `pool`: the agent whose snapshots are drawn; default: its own")
    )


def _source(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value in get_args(Policy.model_fields["source"].annotation):
        return {"source": value}
    raise PydanticCustomError("expected", "{words}", {"words": "one of latest, frozen, pool"})


class Rule(Form):
    """Set properties of the bodies that match; a later rule overrides key by key."""

    match: Match = Field(_ABSENT, description="which bodies; default: all")
    reward: BodyReward = Field(_ABSENT, description="changes of the bodies' rewards")
    decision: Decision = Field(_ABSENT, description="when the bodies decide")
    learn: Flag = Field(_ABSENT, description="whether the brain learns from the bodies' decisions")
    policy: Annotated[Policy, BeforeValidator(_source)] = Field(_ABSENT, description="the bodies' model")
    role: TextOrNull = Field(_ABSENT, description="a tag")
    team: TextOrNull = Field(_ABSENT, description="a tag")
    group: TextOrNull = Field(_ABSENT, description="a tag; an environment may give all bodies of a group one reward")


class Dynamic(Form):
    """Allow environments to spawn bodies of an agent; rules without a number match these bodies, too."""

    agent: Name = Field(description="whose bodies")
    environment: Name = Field(description="environments that may spawn the bodies")
    max: Count = Field(description="how many of the bodies may exist at a time")


class Bodies(Form):
    """Set which agents have how many bodies in which environments."""

    product: Literal["outer", "inner", "custom"] = Field("outer", description="how agents and environments are paired")
    num: Any = Field(1, description="a count, a list of one per environment, a map per pair, or with `custom` a list")
    rules: list[Rule] = Field([], description="properties of some bodies, applied in order")
    dynamic: list[Dynamic] = Field([], description="bodies that an environment may spawn")
    idle: list[Name] = Field([], description="agents and environments that deliberately have no body")


def _are_shares(value: Any) -> bool:
    sound = type(value) is dict and value and all(type(one) in (int, float) and one > 0 for one in value.values())
    return bool(sound) and abs(sum(value.values()) - 1) < _ROUNDING


_ROUNDING = 1e-9
Shares = Annotated[
    Any, Expect("a map from uids of tables to shares > 0 that sum to 1", _are_shares, {"type": "object"})
]


class Table(Plugin):
    """Describe a pool of decisions in a process of its own, or with `mix` a draw from several."""

    short = False

    uid: Name = Field(description="names the table")
    on_error: Literal["fail"] = Field("fail", description="a table that raises fails the run")
    feed: list[Name] = Field([], description="agents whose decisions the table keeps, as their brains receive them")
    serve: list[Name] = Field(_ABSENT, description="agents whose brains may draw from it; default: `feed`")
    mix: Shares = Field(_ABSENT, description="in place of a plugin: the share of each table in a draw")


class Phase(Form):
    """Describe a phase: what it adds to, or changes of, the previous phase."""

    kinds = {"simulation": "controller"}

    environments: list[Entry] = Field(_ABSENT, description="merged with those of the previous phase by uid")
    agents: list[Agent] = Field(_ABSENT, description="merged with those of the previous phase by name")
    simulation: Simulation = Field(_ABSENT, description="the controller and the episode-level conditions")
    phase_config: PhaseConfig = Field(_ABSENT, description="mode, workers, episodes; merged key by key")
    recovery: Recovery = Field(_ABSENT, description="deadlines and recovery in this phase")
    tables: list[Table] = Field(_ABSENT, description="pools that brains feed and draw from; replaces inherited ones")
    bodies: Bodies = Field(_ABSENT, description="bodies of agents in environments; replaces inherited ones")


class RunConfig(Form):
    """Choose the phase-level conditions of every phase."""

    spellings, kinds = _CONDITIONS, _OF_CONDITIONS

    conditions: list[Plugin] = Field(description="one suffices")


class Document(Form):
    """Describe one reproducible run."""

    spellings = {"experiment": "experiment_uid"}

    uid: Name = Field(description="names the run")
    experiment_uid: Name = Field(_ABSENT, description="groups runs; default: the uid")
    seed: Seed = Field(description="the one source of randomness")
    version: Version = Field(_ABSENT, description="the version of Ganglion for which the document was written")
    schedule: list[dict[str, Phase]] = Field(description="phases in order, by name")
    run_config: RunConfig = Field(_ABSENT, description="phase-level conditions; optional for phases with bodies")
    cascade: Literal["merge", "replace"] = Field("merge", description="how a phase changes what it inherits")
    recovery: Recovery = Field(_ABSENT, description="deadlines and recovery of the run")


_WORDS = {
    "model_type": "expected a map",
    "dict_type": "expected a map",
    "list_type": "expected a list",
    "literal_error": "expected one of {expected}",
    "expected": "expected {words}",
}
"""The text for an error of pydantic, by its type."""


def validate(root: Node, form: type[Form] = Document) -> list[Fault]:
    """Return the faults of form of a normalised document.

    A missing key is not reported beside an unknown key of a similar name.
    """
    try:
        form.model_validate(root.plain())
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
    else:
        return []
    details = [detail for detail in details if not _in_bad_entry(root, detail["loc"])]
    details = _around(details, form)[: limits.DOCUMENT_FAULTS]
    found = [(detail["type"] == "missing", *_fault(root, detail, form)) for detail in details]
    meant = {location for missing, location, _ in found if not missing}
    return [fault for missing, location, fault in found if not missing or location not in meant]


def _around(details: list[Any], form: type[Form]) -> list[Any]:
    """Join a missing key and unknown keys beside it that are to be within it: they are one fault."""
    found = list(details)
    for missing in (detail for detail in details if detail["type"] == "missing"):
        *place, key = missing["loc"]
        inner = forms_within(_model(place, form)).get(key)
        beside = [it for it in found if it["type"] == "extra_forbidden" and list(it["loc"][:-1]) == place]
        if inner is not None and beside and all(it["loc"][-1] in inner.model_fields for it in beside):
            missing["around"] = ", ".join(f"`{it['loc'][-1]}`" for it in beside)
            found = [it for it in found if it not in beside]
    return found


def _in_bad_entry(root: Node, location: Location) -> bool:
    """Return whether a location is in an entry of the schedule that is not one phase, which is a fault of its own."""
    if location[:1] != ("schedule",) or len(location) < 3:
        return False
    return len(_node(root, location[:2]).map) != 1


def _fault(root: Node, detail: Any, form: type[Form]) -> tuple[Location, Fault]:
    """Return the fault for an error of pydantic."""
    location: Location = detail["loc"]
    if detail["type"] == "missing":
        node = _node(root, location[:-1])
        around = f" around {detail['around']}" if "around" in detail else ""
        return location, node.fault(f"missing key `{location[-1]}`{around}")
    if detail["type"] == "extra_forbidden":
        return _unknown(root, location, form)
    node = _node(root, location)
    if detail["type"] == "unbuilt":
        words = _model(location[:-1], form).model_fields[str(location[-1])].description
        return location, node.fault(f"not built yet: {words}")
    said = _WORDS[detail["type"]].format_map(detail.get("ctx", {}))
    if detail["type"] == "literal_error":
        said = said.replace("'", "").replace(" or ", ", ")
    if location[-1:] == ("load",):
        said = "expected a map, false or null"
    choices = said.removeprefix("expected one of ").removesuffix(" or null").split(", ")
    like = nearest(node.value, choices) if choices[1:] and isinstance(node.value, str) else ""
    return location, node.fault(f"{said}, found {node.found()}{like}")


def _unknown(root: Node, location: Location, form: type[Form]) -> tuple[Location, Fault]:
    """Return the fault of an unknown key, located at the key in the document if possible."""
    key = str(location[-1])
    parent = _node(root, location[:-1])
    model = _model(location[:-1], form)
    homes = sorted(f"`{at}`" if at else "the document itself" for at in _homes(form).get(key, ()))
    known = [*model.model_fields, *model.spellings] if len(homes) not in (1, 2) else ()
    like = nearest(key, known) if known else ""
    mark = parent.keys[key]
    meant = like.split("`")[1] if like else key
    place = (*location[:-1], model.spellings.get(meant, meant))
    elsewhere = f"; it belongs to {' and '.join(homes).replace('`schedule`', 'a phase')}" if not known else ""
    return place, mark.fault(f"unknown key{like}{elsewhere}", path=mark.path or None)


@functools.cache
def _homes(form: type[Form]) -> dict[str, set[str]]:
    """Return for each key the maps that have it, by the keys of these."""
    found: dict[str, set[str]] = {}
    todo, seen = [("", form)], set[tuple[str, type[Form]]]()
    while todo:
        at, inner = todo.pop()
        for key in inner.model_fields:
            found.setdefault(key, set()).add(at)
        more = set(forms_within(inner).items()) - seen
        seen |= more
        todo += more
    return found


def _node(root: Node, location: Location) -> Node:
    """Return the node at a location."""
    for part in location:
        root = root.items[part] if isinstance(part, int) else root.map[part]
    return root


def _model(location: Sequence[int | str], form: type[Form]) -> type[Form]:
    """Return the model of the map at a location."""
    for part in location:
        form = forms_within(form).get(part, form) if isinstance(part, str) else form
    return form


@functools.cache
def forms_within(form: type[Form]) -> dict[str, type[Form]]:
    """Return the form at each key that holds one, a list of these, or the schedule."""
    found = {key: _within(field.annotation) for key, field in form.model_fields.items()}
    return {key: inner for key, inner in found.items() if inner is not None}


def _within(annotation: Any) -> type[Form] | None:
    """Return the model inside an annotation such as `list[Plugin] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Form):
        return annotation
    return next((model for part in get_args(annotation) if (model := _within(part))), None)
