"""Factors: what varies from point to point, and what a place on its axis means."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeAlias

from ganglion.cli.extension import Fault, Node, path_of

Path: TypeAlias = tuple[str, ...]
Setting: TypeAlias = "tuple[Path, Node]"

OURS = ("uid", "seed", "experiment_uid")  # of a run: given by the experiment
_TINY, _BELOW_ONE = 1e-12, math.nextafter(1.0, 0.0)


@dataclass(frozen=True)
class Level:
    """One value of a factor: how it is shown, and what it sets in the run document.

    `key` is given instead of `settings` by who makes the document from choices: the number of a level.
    """

    label: Any
    settings: tuple[Setting, ...] = ()
    key: int = 0


@dataclass(frozen=True)
class Factor:
    """Hold a factor. `levels` None: it is continuous, from `low` to `high`, or normal with `mean` and `std`."""

    name: str
    mark: Node
    paths: tuple[Path, ...] = ()
    levels: tuple[Level, ...] | None = None
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    whole: bool = False
    points: int | None = None
    normal: tuple[float, float] | None = None

    @property
    def axis(self) -> int | None:
        """Return the number of levels, None for a continuous factor."""
        return None if self.levels is None else len(self.levels)

    def level(self, place: float) -> Level:
        """Return what a place on the axis means: the number of a level, or a place in [0, 1)."""
        if self.levels is not None:
            return self.levels[int(place)]
        return self.numbered(self._number(place))

    def stepped(self) -> Factor:
        """Return the factor with its range cut into `points` levels, both ends included, none twice."""
        if self.levels is not None:
            return self
        assert self.points is not None, "faults of `points` are found before"
        steps = max(self.points - 1, 1)
        numbers = dict.fromkeys(self._between(step / steps) for step in range(self.points))
        return Factor(self.name, self.mark, self.paths, tuple(self.numbered(number) for number in numbers))

    def numbered(self, number: float) -> Level:
        """Return the level of a number of the range."""
        node = self.mark.like(number, {})
        return Level(number, tuple((path, node) for path in self.paths))

    def _number(self, place: float) -> float:
        if self.normal is not None:
            mean, std = self.normal
            return NormalDist(mean, std).inv_cdf(min(max(place, _TINY), _BELOW_ONE))
        if not self.whole:
            return self._between(place)
        low, high = int(self.low), int(self.high)
        if not self.log:
            return min(low + math.floor(place * (high - low + 1)), high)
        return min(max(math.floor(math.exp(_mixed(math.log(low), math.log(high + 1), place))), low), high)

    def _between(self, place: float) -> float:
        """Return the number at a part of the range, 0 its low and 1 its high end."""
        if place in (0.0, 1.0):
            number = self.high if place else self.low
        elif self.log:
            number = math.exp(_mixed(math.log(self.low), math.log(self.high), place))
        else:
            number = _mixed(self.low, self.high, place)
        number = min(max(number, self.low), self.high)
        return round(number) if self.whole else float(number)


def _mixed(low: float, high: float, place: float) -> float:
    return low + (high - low) * place


def same(value: Any) -> str:
    """Return a text that two plain values have in common if they are the same; 1, 1.0 and true are not."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def read_factor(name: str, mark: Node, node: Node, full: bool) -> tuple[Factor | None, list[Fault]]:
    """Return the factor that stands at a node of sound form, and what is wrong with it.

    `full` says whether the design needs levels: then a range needs `points`, and a normal distribution has none.
    """
    faults: list[Fault] = []
    paths = _paths(node.map.get("set"), faults)
    kinds = [key for key in ("levels", "range", "normal") if key in node.map]
    if len(kinds) != 1:
        shown = " and ".join(f"`{kind}`" for kind in kinds) or "none"
        where = node.keys[kinds[1]] if kinds else mark
        return None, [*faults, where.fault(f"expected one of `levels`, `range`, `normal`, found {shown}")]
    kind = kinds[0]
    value = node.map[kind]
    if kind != "levels" and "set" not in node.map:
        faults.append(node.fault("missing key `set`: where does the value stand in the run document?"))
    if kind == "levels":
        factor = Factor(name, mark, tuple(paths), _levels(value, paths, "set" in node.map, faults))
    elif kind == "range":
        factor = _range(name, value, paths, full, faults)
    else:
        if full:
            faults.append(
                node.keys[kind].fault(
                    "a full design needs levels: give `levels` or a range with `points`, or a "
                    "sampled design (random, lhs, sobol)"
                )
            )
        numbers = float(value.map["mean"].plain()), float(value.map["std"].plain())
        factor = Factor(name, value, tuple(paths), normal=numbers)
    return factor, faults


def _range(name: str, node: Node, paths: Sequence[Path], full: bool, faults: list[Fault]) -> Factor:
    plain = node.plain()
    low, high = plain["low"], plain["high"]
    log, whole = plain.get("log", False), plain.get("int", False)
    if high <= low:
        faults.append(node.map["high"].fault(f"expected more than `low`, which is {low}, found {high}"))
    if log and low <= 0:
        faults.append(node.map["low"].fault(f"expected a number > 0 for a logarithmic range, found {low}"))
    for key in ("low", "high"):
        if whole and plain[key] != int(plain[key]):
            faults.append(node.map[key].fault(f"expected a whole number beside `int: true`, found {plain[key]}"))
    if full and "points" not in plain:
        faults.append(node.fault("missing key `points`: how many numbers of the range does a full design take?"))
    return Factor(name, node, tuple(paths), None, low, high, log, whole, plain.get("points"))


def _paths(node: Node | None, faults: list[Fault]) -> list[Path]:
    """Return the paths of `set`; what is no path is a fault."""
    if node is None:
        return []
    found = (_path(part, part, faults) for part in node.items or [node])
    return [path for path in found if path is not None]


def _path(node: Node, mark: Node, faults: list[Fault]) -> Path | None:
    try:
        path = tuple(path_of(str(node.value)))
    except ValueError as error:
        faults.append(mark.fault(str(error)))
        return None
    if path[0] in OURS:
        faults.append(mark.fault(f"`{path[0]}` of a run is given by the experiment and is no factor"))
        return None
    return path


def _levels(node: Node, paths: Sequence[Path], has_set: bool, faults: list[Fault]) -> tuple[Level, ...]:
    """Return the levels of a list; each differs from the others."""
    levels: list[Level] = []
    seen: dict[str, Node] = {}
    for item in node.items:
        key = same(item.plain())
        if key in seen:
            faults.append(item.fault(f"the level of line {seen[key].line + 1} comes twice"))
            continue
        seen[key] = item
        if has_set:
            levels.append(Level(item.plain(), tuple((path, item) for path in paths)))
        elif not item.map:
            faults.append(item.fault(f"expected a map path -> value, or `set` beside `levels`; found {item.found()}"))
        else:
            given = [(_path(mark, mark, faults), item.map[name]) for name, mark in item.keys.items()]
            settings = tuple((path, value) for path, value in given if path is not None)
            levels.append(Level(item.plain(), settings))
    return tuple(levels)
