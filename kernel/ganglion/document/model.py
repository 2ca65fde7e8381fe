"""The keys of a run document as pydantic models; what they refuse is said in our words, at its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from ganglion.document.fault import Fault, nearest
from ganglion.document.marks import Node
from ganglion.document.spelling import PLACES
from ganglion.limits import (
    CHECKPOINT_S,
    DOCUMENT_FAULTS,
    LOSSES_AT_ONE_STEP,
    RESTARTS_PER_NAME,
    RESTARTS_WITHIN_S,
    UID_BYTES,
)
from ganglion.run.plan import ON_LOSS

Location = tuple[str | int, ...]


@dataclass(frozen=True)
class Expect:
    """Take what passes `test`, and otherwise say `expected <words>` once; `schema` describes it to others."""

    words: str
    test: Callable[[Any], bool]
    schema: dict[str, Any]

    def check(self, value: Any) -> Any:
        """Return the value, or refuse it."""
        if self.test(value):
            return value
        raise PydanticCustomError("expected", "{words}", {"words": self.words})

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return dict(self.schema)


def _or_null(words: str, test: Callable[[Any], bool], schema: dict[str, Any]) -> Expect:
    return Expect(f"{words} or null", lambda v: v is None or test(v), {"anyOf": [schema, {"type": "null"}]})


def _choice(*words: str) -> Expect:
    return Expect(f"one of {', '.join(words)}", lambda v: v in words, {"enum": list(words)})


def _choice_or_null(*words: str) -> Expect:
    found = _choice(*words)
    schema = {"anyOf": [found.schema, {"type": "null"}]}
    return Expect(f"{found.words} or null", lambda v: v is None or v in words, schema)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_directory(value: Any) -> bool:
    return isinstance(value, str) and value != "store" and "://" not in value


def _is_integer(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and value >= least


def is_name(value: Any) -> bool:
    """Say whether a value may be a uid or a name: text without control characters, `/`, `[` and `]`."""
    if not isinstance(value, str) or not 0 < len(value.encode()) <= UID_BYTES:
        return False
    return value.isprintable() and not set(value) & set("/[]")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) and part for part in value)


def _is_maps(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, dict) for part in value)


def _is_map_of_text(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(part, str) for part in value.values())


def _is_deadline(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (number and 0 < value < float("inf"))


_ABSENT: Any = None  # the default of a key that, when it is given, may not be null

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 1}
_TEXTS = {"type": "array", "items": _TEXT}
_MAP = {"type": "object"}
NAME_WORDS = f"text of 1 to {UID_BYTES} bytes without / [ ] and control characters"

Text = Annotated[str, Expect("text", _is_text, _TEXT)]
Directory = Annotated[
    str | None, _or_null("a directory (`./store` for one of that name; stores keep no models)", _is_directory, _TEXT)
]
TextOrNull = Annotated[str | None, _or_null("text", _is_text, _TEXT)]
PluginName = Annotated[
    str, Expect("the name of a plugin", lambda v: _is_text(v) and bool(v), {**_TEXT, "minLength": 1})
]
Name = Annotated[str, Expect(NAME_WORDS, is_name, {**_TEXT, "minLength": 1, "pattern": r"^[^/\[\]]+$"})]
Flag = Annotated[bool, Expect("true or false", lambda v: isinstance(v, bool), {"type": "boolean"})]
Seed = Annotated[int, Expect("an integer >= 0", _is_integer(0), {"type": "integer", "minimum": 0})]
Count = Annotated[int, Expect("an integer >= 1", _is_integer(1), _COUNT)]
CountOrNull = Annotated[int | None, _or_null("an integer >= 1", _is_integer(1), _COUNT)]
WorkerOrNull = Annotated[int | None, _or_null("an integer >= 0", _is_integer(0), {"type": "integer", "minimum": 0})]
Params = Annotated[dict[str, Any], Expect("a map", lambda v: isinstance(v, dict), _MAP)]
Maps = Annotated[list[Any], Expect("a list of maps", _is_maps, {"type": "array", "items": _MAP})]
Id = Annotated[str, Expect("a full id", lambda v: _is_text(v) and bool(v), {**_TEXT, "minLength": 1})]
Variables = Annotated[dict[str, str], Expect("a map of text", _is_map_of_text, {**_MAP, "additionalProperties": _TEXT})]
Command = Annotated[
    list[str], Expect("a list of text, not empty", lambda v: _is_texts(v) and bool(v), {**_TEXTS, "minItems": 1})
]
Version = Annotated[
    str, Expect("text", lambda v: type(v) in (str, int, float), {"type": ["string", "number"]})  # of a number is warned
]
Deadline = Annotated[
    float | None, _or_null("a number of seconds > 0", _is_deadline, {"type": "number", "exclusiveMinimum": 0})
]
Span = Annotated[
    float,
    Expect(
        "a number of seconds > 0",
        lambda v: v is not None and _is_deadline(v),
        {"type": "number", "exclusiveMinimum": 0},
    ),
]
User = Annotated[
    str | None, _or_null("the name of a user", lambda v: _is_text(v) and bool(v), {**_TEXT, "minLength": 1})
]
PhaseReference = Annotated[
    Any,
    _or_null(
        "an index or the name of a phase", lambda v: _is_text(v) or _is_integer(0)(v), {"type": ["string", "integer"]}
    ),
]
Speaks = Annotated[str, _choice("bus", "lines")]
OnError = Annotated[str, _choice("fail", "continue")]


class Form(BaseModel):
    """Be a map of a document: no key beyond the declared ones."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class Plugin(Form):
    """Name a plugin: a short name, or an import path `module:Class`. Text alone stands for the name."""

    name: PluginName = Field(_ABSENT, description="short name of the plugin, or `module:Class`")
    params: Params = Field({}, description="arguments of its constructor")
    on_error: OnError = Field(
        "fail", description="`continue`: exceptions of its code are noted and the run goes on; not of conditions"
    )


class Muscle(Plugin):
    """Choose the actor, by exactly one of `name`, `command` and `attach`. Text alone stands for the name."""

    params: Params = Field({}, description="arguments of its constructor; sent to a program with the set-up")
    on_error: OnError = Field(
        "fail",
        description="`continue`: exceptions of its code are noted and the run goes on; without effect on a program",
    )
    command: Command = Field(
        _ABSENT,
        description="program and arguments, one process per worker, in place of a plugin; its loss ends the run, or "
        "with `on_loss: restart` costs the open episode; `{connection}` is replaced by the address of the bus",
    )
    attach: Flag = Field(False, description="a program that somebody else starts; awaited under the agent's name")
    cwd: Text = Field(_ABSENT, description="working folder of `command`, relative to the document")
    variables: Variables = Field(_ABSENT, description="environment variables of `command`")
    speaks: Speaks = Field(
        _ABSENT,
        description="`bus`: `command` joins the bus by itself; `lines`: it reads and writes one JSON object per line",
    )


class Restarts(Form):
    """Bound how often a lost process is replaced."""

    max: Count = Field(RESTARTS_PER_NAME, description="losses of one name that are made good within the window")
    within_s: Span = Field(RESTARTS_WITHIN_S, description="the window, seconds")
    poison: Count = Field(
        LOSSES_AT_ONE_STEP,
        description="equal losses at one position, but for kills of who is idle, after which the run fails",
    )


class Recovery(Form):
    """Say how long calls may take and what a lost process means."""

    on_loss: Annotated[str, _choice("recover", "restart", "fail")] = Field(
        ON_LOSS,
        description="what a lost process means: `recover`: the run goes on as if nothing had happened; `restart`: the "
        "open episode is lost, the next one follows; `fail`: the run ends",
    )
    deterministic: Flag = Field(True, description="whether a process that is driven again gives the same answers")
    restarts: Restarts = Field(_ABSENT, description="how often a lost process is replaced")
    checkpoint_s: Span = Field(CHECKPOINT_S, description="least time between two checkpoints, seconds")
    deadlines_s: dict[str, Deadline] = Field(
        _ABSENT, description="how long a call may take by its last word, seconds; null: for ever"
    )
    run_as: User = Field(None, description="user under whose name environments, muscles, brains and controllers run")


class Environment(Form):
    """Define an environment, by exactly one of `name`, `command` and `attach`, or change one that is inherited."""

    uid: Name = Field(description="names the environment")
    name: PluginName = Field(_ABSENT, description="plugin class; started by Ganglion")
    command: Command = Field(
        _ABSENT, description="program and arguments; `{connection}` is replaced by the address of the bus"
    )
    attach: Flag = Field(False, description="a process that somebody else starts; awaited under the uid")
    cwd: Text = Field(_ABSENT, description="working folder of `command`, relative to the document")
    variables: Variables = Field(_ABSENT, description="environment variables of `command`")
    speaks: Speaks = Field(
        _ABSENT,
        description="`bus`: `command` joins the bus by itself; `lines`: it reads and writes one JSON object per line",
    )
    params: Params = Field({}, description="arguments of the constructor; sent to other programs with the setup")
    on_error: OnError = Field("fail", description="without effect: an environment that raises fails the run")
    per_worker: Maps = Field([], description="worker w gets entry `w mod length` merged over `params`")


class Entry(Form):
    """Give an environment and what stands between it and the agents."""

    environment: Environment = Field(description="what runs")
    reward: Plugin | None = Field(None, description="replaces the rewards of the environment")
    state_transformer: Plugin | None = Field(None, description="has the last word on each state")
    remove: Flag = Field(False, description="take an inherited environment out from this phase on")
    recovery: Recovery = Field(_ABSENT, description="deadlines and recovery of this environment")
    clock: Any = Field(None, description="decision clock of the environment")
    budget: Any = Field(None, description="episodes or steps of the environment")
    max_steps: Any = Field(None, description="bound on one episode of this environment")
    episode_end: Any = Field(None, description="which bodies end an episode")


def _none_if_false(value: Any) -> Any:
    return None if value is False else value


class Load(Form):
    """Say where an agent's model comes from when a phase begins."""

    agent: TextOrNull = Field(None, description="agent whose model it is")
    experiment_run: TextOrNull = Field(None, description="uid of the run: the newest finished one")
    instance: TextOrNull = Field(None, description="id of the run")
    phase: PhaseReference = Field(None, description="index or name of an earlier phase")
    base: TextOrNull = Field(None, description="directory or store that is searched first")
    optional: Flag = Field(False, description="start fresh where no model is found")


class Replay(Form):
    """Name recorded episodes from which an agent's brain learns before the first step of a train phase."""

    agent: TextOrNull = Field(None, description="agent whose episodes they are; default: this one")
    experiment_run: TextOrNull = Field(None, description="uid of the run: the newest finished one; default: this run")
    instance: TextOrNull = Field(None, description="id of the run")
    phase: PhaseReference = Field(
        None, description="index or name of a phase; default: the last one with that agent, here an earlier one"
    )
    base: TextOrNull = Field(None, description="directory or store that is searched first")
    environment: TextOrNull = Field(None, description="only if the agent was in this environment alone")
    mode: Annotated[str | None, _choice_or_null("train", "test", "evaluate")] = Field(
        None, description="only episodes of this mode; default: the mode of the phase, without its evaluations"
    )
    worker: WorkerOrNull = Field(None, description="only episodes of this worker; default: of all")
    repeat: Count = Field(1, description="how often they are shown")
    strict: Flag = Field(
        True,
        description="ids, spaces and whole episodes have to fit what the agent sees and sets; `false`: what fits is "
        "taken, the rest is a warning",
    )
    path: TextOrNull = Field(None, description="a file of recorded episodes")
    format: TextOrNull = Field(None, description="format of `path`")
    table: TextOrNull = Field(None, description="a table that serves recorded episodes")


class Agent(Form):
    """Describe an agent: an actor, a learner, and what they see and set."""

    name: Name = Field(description="names the agent")
    muscle: Muscle = Field(_ABSENT, description="the actor: a plugin or a program")
    brain: Plugin | None = Field(None, description="the learner; `none` never learns")
    objective: Plugin | None = Field(None, description="rewards to one number; the default sums them")
    sensors: list[Id] | None = Field(
        [], description="full ids, or `<uid>.*`, in the order in which the agent sees them"
    )
    actuators: list[Id] | None = Field(
        [], description="full ids, or `<uid>.*`, in the order in which the agent sets them"
    )
    rewards: list[Id] | None = Field(
        None, description="full ids or uids; default: all of the environments that the agent touches"
    )
    filters: list[Plugin] | None = Field(None, description="what stands between the agent and the bus")
    replay: list[Replay] | None = Field(
        None,
        description="recorded episodes from which the brain learns before the first step of this phase (train only), "
        "by `pretrain` or else by `thinking`; not inherited",
    )
    models: Directory = Field(None, description="a second directory for its models")
    load: Annotated[Load | None, BeforeValidator(_none_if_false)] = Field(
        None, description="where its model comes from; not inherited"
    )
    remove: Flag = Field(False, description="take an inherited agent out from this phase on")
    recovery: Recovery = Field(_ABSENT, description="deadlines and recovery of this agent")
    opponents: Any = Field(None, description="self-play")


class Simulation(Form):
    """Choose the controller and the conditions of an episode."""

    name: PluginName = Field(_ABSENT, description="the controller")
    params: Params = Field({}, description="arguments of its constructor")
    conditions: list[Plugin] | None = Field(None, description="episode-level conditions; one suffices")
    on_error: OnError = Field("fail", description="without effect: a controller that raises fails the run")


class PhaseConfig(Form):
    """Say what is done in a phase, by how many workers and for how long."""

    mode: Annotated[str, _choice("train", "test", "evaluate")] = Field(
        "train", description="`test`, `evaluate`: no brain is asked"
    )
    worker: Count = Field(1, description="parallel copies of all environments and muscles; brains are shared")
    episodes: CountOrNull = Field(None, description="limit per worker, read by the condition `max_episodes`")
    evaluate_every: CountOrNull = Field(None, description="train episodes between two evaluations")
    evaluate_episodes: Count = Field(1, description="episodes of an evaluation per worker")
    sync: Annotated[str, _choice("lockstep", "pipelined", "async")] = Field(
        "lockstep", description="when the brain thinks"
    )
    conditions: list[Plugin] | None = Field(None, description="phase-level conditions instead of those of `run_config`")
    store_raw_actuators: Any = Field(None, description="without effect: proposals are always stored")


class Phase(Form):
    """Give what a phase adds to, or changes of, the phase before it."""

    environments: list[Entry] = Field(_ABSENT, description="merged with those of the phase before by uid")
    agents: list[Agent] = Field(_ABSENT, description="merged with those of the phase before by name")
    simulation: Simulation = Field(_ABSENT, description="the controller and the episode-level conditions")
    phase_config: PhaseConfig = Field(_ABSENT, description="mode, workers, episodes; merged key by key")
    recovery: Recovery = Field(_ABSENT, description="deadlines and recovery in this phase")
    bodies: Any = Field(None, description="bodies of agents in environments")


class RunConfig(Form):
    """Give the phase-level conditions of every phase."""

    conditions: list[Plugin] = Field(description="one suffices")


class Document(Form):
    """Describe one reproducible run."""

    uid: Name = Field(description="names the run")
    experiment_uid: Name = Field(_ABSENT, description="groups runs; default: the uid")
    seed: Seed = Field(description="the one source of randomness")
    version: Version = Field(_ABSENT, description="the version of Ganglion for which the document was written")
    schedule: list[dict[str, Phase]] = Field(description="phases in order, by name")
    run_config: RunConfig = Field(description="phase-level conditions")
    cascade: Annotated[str, _choice("merge", "replace")] = Field(
        "merge", description="what a phase does to what it inherits"
    )
    recovery: Recovery = Field(_ABSENT, description="deadlines and recovery of the run")


_WORDS = {"model_type": "a map", "dict_type": "a map", "list_type": "a list"}


def validate(root: Node, form: type[Form] = Document) -> list[tuple[Location, Fault]]:
    """Return what is wrong with the form of a normalised document, each fault with its location in the tree.

    The location of an unknown key that is like a known one is that of the known one: what is wrong with it is known,
    so nobody else need miss it.
    """
    try:
        form.model_validate(root.plain())
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
    else:
        return []
    details = [detail for detail in details if not _in_bad_entry(root, detail["loc"])][:DOCUMENT_FAULTS]
    found = [_fault(root, detail, form) for detail in details]
    meant = {location for detail, (location, _) in zip(details, found, strict=True) if detail["type"] != "missing"}
    return [
        (location, fault)
        for detail, (location, fault) in zip(details, found, strict=True)
        if detail["type"] != "missing" or location not in meant
    ]


def _in_bad_entry(root: Node, location: Location) -> bool:
    """Say whether a location lies in an entry of the schedule that is not one phase, a fault of its own."""
    if location[:1] != ("schedule",) or len(location) < 3:
        return False
    return len(_node(root, location[:2]).map) != 1


def _fault(root: Node, detail: Any, form: type[Form]) -> tuple[Location, Fault]:
    """Return one refusal of pydantic in our words."""
    location: Location = detail["loc"]
    if detail["type"] == "missing":
        node = _node(root, location[:-1])
        return location, node.fault(f"missing key `{location[-1]}`")
    if detail["type"] == "extra_forbidden":
        return _unknown(root, location, form)
    node = _node(root, location)
    words = detail["ctx"]["words"] if detail["type"] == "expected" else _WORDS.get(detail["type"])
    if location[-1:] == ("load",):
        words = "a map, false or null"
    assert words is not None, f"pydantic refused {location} by {detail['type']}, for which there are no words"
    like = ""
    if words.startswith("one of ") and isinstance(node.value, str):
        like = nearest(node.value, words.removeprefix("one of ").split(", "))
    return location, node.fault(f"expected {words}, found {node.found()}{like}")


def _unknown(root: Node, location: Location, form: type[Form]) -> tuple[Location, Fault]:
    """Return the fault of an unknown key; it is located at the key that was meant, if that can be told."""
    key = str(location[-1])
    parent = _node(root, location[:-1])
    model = _model(location[:-1], form)
    known = [*model.model_fields, *_spellings(model)]
    like = nearest(key, known)
    mark = parent.keys[key]
    meant = like.split("`")[1] if like else key
    place = (*location[:-1], _spellings(model).get(meant, meant))
    return place, mark.fault(f"unknown key{like}", path=mark.path or None)


def _spellings(model: type[BaseModel]) -> dict[str, str]:
    """Return the other names of a model's keys."""
    return PLACES[_PLACE_OF[model]].spellings if model in _PLACE_OF else {}


def _node(root: Node, location: Location) -> Node:
    """Return the node at a location."""
    for part in location:
        root = root.items[part] if isinstance(part, int) else root.map[part]
    return root


def _model(location: Location, form: type[Form]) -> type[BaseModel]:
    """Return the model of the map at a location."""
    model: type[BaseModel] = form
    for part in location:
        field = model.model_fields.get(part) if isinstance(part, str) else None
        if field is not None:
            model = _within(field.annotation) or model
    return model


def _within(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside an annotation such as `list[Plugin] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _within(part))), None)


_PLACE_OF: dict[type[BaseModel], str] = {
    Document: "document",
    RunConfig: "run_config",
    Phase: "phase",
    PhaseConfig: "phase_config",
    Simulation: "simulation",
    Entry: "entry",
    Environment: "environment",
    Agent: "agent",
    Plugin: "plugin",
    Muscle: "plugin",
    Load: "load",
    Replay: "replay",
}
