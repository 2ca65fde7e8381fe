"""Points: the runs of an experiment, with their documents, in order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ganglion.cli.extension import (
    DocumentError,
    Fault,
    Node,
    Plan,
    Tree,
    UsageError,
    is_name,
    load_tree,
    registry,
    settle,
    written,
)
from ganglion_sweep.design import Coordinates, full, size, thinned
from ganglion_sweep.experiment import RUNS_MAX, SIZED, Experiment, raised
from ganglion_sweep.factor import Level

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True)
class Point:
    """One run of an experiment: `number` is i of `<uid>-<i>`, `root` its document in our spelling."""

    experiment: Experiment
    number: int
    row: int
    repetition: int
    seed: int
    levels: tuple[Level, ...]
    base: Node

    @property
    def uid(self) -> str:
        """Return the run's uid."""
        return f"{self.experiment.uid}-{self.number}"

    @cached_property
    def factors(self) -> dict[str, Any]:
        """Return the value of each factor, by name."""
        return {f.name: level.label for f, level in zip(self.experiment.factors, self.levels, strict=True)}

    @cached_property
    def root(self) -> Node:
        """Return the run document: that of the row, with the names and the seed of this run."""
        own: dict[str, str | int] = {"uid": self.uid, "experiment_uid": self.experiment.uid, "seed": self.seed}
        entries = {key: self.base.like(value, {}) for key, value in own.items()}
        for key, node in entries.items():
            node.path = key
        keys = {key: node.like(key, {}) for key, node in entries.items()}
        return self.base.like(
            {**entries, **{k: v for k, v in self.base.map.items() if k not in own}}, {**self.base.keys, **keys}
        )

    @cached_property
    def digest(self) -> str:
        """Return the digest of the document: SHA-256 of it as JSON with sorted keys."""
        text = json.dumps(self.root.plain(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def text(self) -> str:
        """Return the run document as a file."""
        head = f"# run {self.number} of experiment {self.experiment.uid}: row {self.row}, repetition {self.repetition}"
        return f"{head}\n{written(self.root.plain())}"

    def plan(self) -> tuple[Plan, list[Fault]]:
        """Return the plan of the run, and its warnings; DocumentError with its faults."""
        tree = Tree(self.root, [], self.experiment.source, self.experiment.folder, self.text)
        return load_tree(tree, plugins=registry)

    def record(self) -> dict[str, Any]:
        """Return the point as the store keeps it."""
        return {
            "point": self.number,
            "row": self.row,
            "repetition": self.repetition,
            "seed": str(self.seed),
            "factors": self.factors,
            "digest": self.digest,
        }


def seed_of(experiment: Experiment, repetition: int, row: int) -> int:
    """Return the seed of a run: one for each repetition, without pairing one for each run."""
    from ganglion.sdk.seed import integer_from_words, words

    if experiment.seeds:
        return experiment.seeds[repetition]
    path: list[str | int] = ["experiment", experiment.uid, "repetition", repetition]
    return integer_from_words(words(experiment.seed, path if experiment.pairing else [*path, "row", row]))


def rows_of(experiment: Experiment) -> Coordinates:
    """Return the points of the design, in order."""
    import numpy as np

    axes = [factor.axis for factor in experiment.factors]
    if experiment.design == "list":
        return np.array(experiment.rows, dtype=np.float64).reshape(len(experiment.rows), len(axes))
    if experiment.design == "full":
        levels = [axis or 1 for axis in axes]
        points = size(levels)
        if experiment.max_runs is not None and points * experiment.repetitions > experiment.max_runs:
            return thinned(levels, experiment.max_runs // experiment.repetitions, _generator(experiment))
        return full(levels)
    design = registry.load("design", experiment.design, experiment.folder)
    rows = np.asarray(design(axes, experiment.samples, _generator(experiment), **experiment.params), dtype=np.float64)
    _check_rows(experiment, rows)
    return rows


def _generator(experiment: Experiment) -> Generator:
    import numpy as np

    from ganglion.sdk.seed import stream

    return np.random.default_rng(stream(experiment.seed, ["experiment", experiment.uid, "design"]))


def _check_rows(experiment: Experiment, rows: Coordinates) -> None:
    """Check what a design returned: it may be a plugin's."""
    import numpy as np

    sized = experiment.design in SIZED and rows.ndim == 2 and len(rows)
    shape = (len(rows) if sized else experiment.samples, len(experiment.factors))
    ends = [not sized or factor.axis is not None for factor in experiment.factors]  # whether the top is left out
    tops = [factor.axis or 1 for factor in experiment.factors]
    runs, most = shape[0] * experiment.repetitions, experiment.max_runs or RUNS_MAX
    if runs > most:
        raise UsageError(f"design `{experiment.design}`: expected at most {most} runs, found {runs}; see `max_runs`")
    if rows.shape != shape or not ((rows >= 0) & ((rows < tops) | ((rows == tops) & ~np.array(ends)))).all():
        raise UsageError(
            f"the design `{experiment.design}`: expected {shape[0]} rows of {shape[1]} coordinates, each the number of "
            f"a level or in [0, 1), found an array of shape {rows.shape}"
        )


def points_of(experiment: Experiment) -> list[Point]:
    """Return all points: run i is row `i mod rows` of repetition `i div rows`; DocumentError with what fits no run."""
    rows = rows_of(experiment)
    faults: list[Fault] = []
    bases: list[tuple[tuple[Level, ...], Node]] = []
    for row in rows:
        levels = tuple(f.level(float(place)) for f, place in zip(experiment.factors, row, strict=True))
        base, found = experiment.assemble(levels)
        bases.append((levels, base))
        faults += found
    if faults:
        raise raised(faults)
    return list(_numbered(experiment, bases))


def _numbered(experiment: Experiment, bases: Sequence[tuple[tuple[Level, ...], Node]]) -> Iterator[Point]:
    for repetition in range(experiment.repetitions):
        for row, (levels, base) in enumerate(bases):
            number = repetition * len(bases) + row
            yield Point(experiment, number, row, repetition, seed_of(experiment, repetition, row), levels, base)


def check_points(points: Sequence[Point]) -> list[Fault]:
    """Return the warnings of all run documents, each once; DocumentError with the faults of all of them."""
    faults: list[Fault] = []
    warnings: list[Fault] = []
    for point in points:
        if not is_name(point.uid):
            faults.append(point.base.fault(f"the uid `{point.uid}` of a run is too long"))
        if point.repetition:
            continue  # it differs from its row in the seed only
        try:
            warnings += point.plan()[1]
        except DocumentError as error:
            faults += error.faults
    if any(fault.severity == "error" for fault in faults):
        raise raised(faults)
    return settle(warnings)
