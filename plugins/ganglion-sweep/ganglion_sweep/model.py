"""The keys of an experiment document, and of the older form with `definitions`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from ganglion.cli.extension import Count, Expect, Flag, Form, Name, Seed, Version

_ABSENT: Any = None  # the default of a key that, when it is given, may not be null


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _is_seed(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_bound(value: Any) -> bool:
    return value is None or (type(value) is int and value >= 1)


def _is_old_bound(value: Any) -> bool:
    return _is_bound(value) or (type(value) is int and value == -1)


def _list_of(is_item: Callable[[Any], bool] = lambda value: True) -> Callable[[Any], bool]:
    """Return what says whether a value is a list of such items, not empty."""
    return lambda value: isinstance(value, list) and bool(value) and all(map(is_item, value))


def _is_paths(value: Any) -> bool:
    return _is_text(value) or _list_of(_is_text)(value)


_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_NUMBER: dict[str, Any] = {"type": "number"}
_LIST: dict[str, Any] = {"type": "array", "minItems": 1}
_MAP: dict[str, Any] = {"type": "object"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 1}
_SEED: dict[str, Any] = {"type": "integer", "minimum": 0}

Number = Annotated[float, Expect("a finite number", _is_number, _NUMBER)]
Spread = Annotated[float, Expect("a number > 0", lambda v: _is_number(v) and v > 0, {**_NUMBER, "exclusiveMinimum": 0})]
Paths = Annotated[
    Any,
    Expect(
        "a path or a list of paths",
        lambda v: _is_text(v) or _list_of(_is_text)(v),
        {"anyOf": [_TEXT, {**_LIST, "items": _TEXT}]},
    ),
]
Levels = Annotated[list[Any], Expect("a list of values, not empty", _list_of(), _LIST)]
Rows = Annotated[list[Any], Expect("a list of maps, not empty", _list_of(_is_map), {**_LIST, "items": _MAP})]
Seeds = Annotated[
    list[int], Expect("a list of integers >= 0, not empty", _list_of(_is_seed), {**_LIST, "items": _SEED})
]
Run = Annotated[
    Any, Expect("a run document or the path of one", lambda v: _is_map(v) or _is_text(v), {"anyOf": [_MAP, _TEXT]})
]
Bound = Annotated[Any, Expect("an integer >= 1 or null", _is_bound, {"anyOf": [_COUNT, {"type": "null"}]})]
OldBound = Annotated[Any, Expect("an integer >= 1, or -1 for none", _is_old_bound, {"type": "integer"})]
DesignName = Annotated[str, Expect("the name of a design", _is_text, _TEXT)]
Map = Annotated[dict[str, Any], Expect("a map", _is_map, _MAP)]


class Range(Form):
    """Give a range of numbers."""

    low: Number = Field(description="its smallest number")
    high: Number = Field(description="its largest number")
    log: Flag = Field(False, description="spread evenly over the logarithm")
    int: Flag = Field(False, description="whole numbers only")
    points: Count = Field(_ABSENT, description="how many numbers of it a full design takes, both ends included")


class Normal(Form):
    """Give a normal distribution."""

    mean: Number = Field(description="its mean")
    std: Spread = Field(description="its standard deviation")


class FactorForm(Form):
    """Give what varies, and where in the run document it stands."""

    set: Paths = Field(_ABSENT, description="where the value is set; without it levels are maps path -> value")
    levels: Levels = Field(_ABSENT, description="the values")
    range: Range = Field(_ABSENT, description="values from an interval")
    normal: Normal = Field(_ABSENT, description="values from a normal distribution")


class DesignForm(Form):
    """Name a design. Text alone stands for the name."""

    name: DesignName = Field("full", description="full, list, random, lhs, sobol, halton or that of a plugin")
    rows: Rows = Field(_ABSENT, description="of `list`: the points, each a map factor -> value")
    params: Map = Field({}, description="arguments of a plugin's design")


class ExperimentForm(Form):
    """Describe many runs by one document."""

    uid: Name = Field(description="names the experiment; run i is `<uid>-<i>`")
    seed: Seed = Field(description="the one source of randomness: of the design and of the runs")
    version: Version = Field(_ABSENT, description="the version of Ganglion for which the document was written")
    run: Run = Field(description="a run document, or its path; its `uid` and `seed` may be missing")
    factors: dict[str, FactorForm] = Field({}, description="what varies, by name")
    design: DesignForm = Field(_ABSENT, description="which combinations become runs")
    rows: Rows = Field(_ABSENT, description="of the design `list`: the points, each a map factor -> value")
    samples: Count = Field(_ABSENT, description="number of points of a sampled design")
    repetitions: Count = Field(_ABSENT, description="runs of each point, which differ in their seed only; default 1")
    seeds: Seeds = Field(_ABSENT, description="instead of `repetitions`: their seeds")
    pairing: Flag = Field(True, description="whether a repetition has one seed at all points")
    max_runs: Bound = Field(None, description="bound on points times repetitions; above it a full design is thinned")


OLD_SECTIONS = ("environments", "agents", "sensors", "actuators", "simulation", "phase_config")


class Definitions(Form):
    """Give by name what the levels of the schedule are made of."""

    environments: dict[str, Map] = Field(description="environments with reward and state transformer")
    agents: dict[str, Map] = Field(description="agents")
    sensors: dict[str, Map] = Field({}, description="sets of sensors: environment -> ids")
    actuators: dict[str, Map] = Field({}, description="sets of actuators: environment -> ids")
    simulation: dict[str, Map] = Field({}, description="controllers")
    phase_config: dict[str, Map] = Field({}, description="phase configurations")
    run_config: Map = Field(description="the phase-level conditions")


class OldForm(Form):
    """Describe many runs in the form of arsenAI."""

    uid: Name = Field(description="names the experiment")
    seed: Seed = Field(description="the one source of randomness")
    version: Version = Field(_ABSENT, description="the version for which the document was written")
    output: Any = Field(None, description="without effect: documents lie with the results")
    repetitions: Count = Field(1, description="runs of each point")
    max_runs: OldBound = Field(-1, description="bound on points times repetitions, -1: none")
    definitions: Definitions = Field(description="what the levels are made of")
    schedule: Levels = Field(description="phases with lists of levels")
