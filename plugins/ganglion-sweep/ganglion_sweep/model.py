"""The keys of an experiment document, and of the older form with `definitions`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ganglion.cli.extension import Count, Expect, Flag, Form, Name, Seed, Version

_ABSENT: Any = None  # the default of a key that, when it is given, may not be null

_FINITE, _SOME = Field(allow_inf_nan=False), Field(min_length=1)
_TEXT = Annotated[str, _SOME]
_MAP = dict[str, Any]

Number = Annotated[float, _FINITE, Expect("a finite number")]
Spread = Annotated[float, _FINITE, Field(gt=0), Expect("a number > 0")]
Paths = Annotated[_TEXT | Annotated[list[_TEXT], _SOME], Expect("a path or a list of paths")]
Levels = Annotated[list[Any], _SOME, Expect("a list of values, not empty")]
Rows = Annotated[list[_MAP], _SOME, Expect("a list of maps, not empty")]
Seeds = Annotated[list[Annotated[int, Field(ge=0)]], _SOME, Expect("a list of integers >= 0, not empty")]
Run = Annotated[_MAP | _TEXT, Expect("a run document or the path of one")]
Bound = Annotated[Annotated[int, Field(ge=1)] | None, Expect("an integer >= 1 or null")]
OldBound = Annotated[Annotated[int, Field(ge=1)] | Literal[-1] | None, Expect("an integer >= 1, or -1 for none")]
DesignName = Annotated[_TEXT, Expect("the name of a design")]
Map = Annotated[_MAP, Expect("a map")]


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


class SearchForm(Form):
    """Say what is searched for, and how."""

    objective: _TEXT = Field(description="`return.<agent>`: its mean return in the last phase, over the repetitions")
    trials: Count = Field(description="how many points are tried")
    direction: Literal["maximize", "minimize"] = Field("maximize", description="which way is better")
    sampler: Literal["tpe", "random"] = Field(
        "tpe", description="what proposes points: a model of those before, or chance"
    )
    startup: Count = Field(10, description="trials by chance before the sampler, and before the pruner, begin")
    batch: Count = Field(1, description="trials that are proposed, and may be carried out, together")
    pruner: Literal["median"] | None = Field(None, description="what cuts runs that do badly on their way")
    warmup: Annotated[int, Field(ge=0)] = Field(0, description="of `median`: episodes before which no run is cut")


class ExperimentForm(Form):
    """Describe many runs by one document."""

    uid: Name = Field(description="names the experiment; run i is `<uid>-<i>`")
    seed: Seed = Field(description="the one source of randomness: of the design and of the runs")
    version: Version = Field(_ABSENT, description="the version of Ganglion for which the document was written")
    run: Run = Field(description="a run document, or its path; its `uid` and `seed` may be missing")
    factors: dict[str, FactorForm] = Field({}, description="what varies, by name")
    design: DesignForm = Field(_ABSENT, description="which combinations become runs")
    rows: Rows = Field(_ABSENT, description="of the design `list`: the points, each a map factor -> value")
    search: SearchForm = Field(_ABSENT, description="instead of a design: points that follow from results")
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
