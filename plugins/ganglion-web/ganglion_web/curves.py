"""Curves: the returns of runs in bins of neighbouring episodes, made by one query, merged to few points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ganglion.sdk import StoreReader

POINTS_MAX = 2_000
"""The most points of one curve: more than a screen has columns."""

Curve: TypeAlias = tuple[int, str, str]
"""The owner of returns: phase, mode, agent."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Sum up the episodes `first` to `last` of a curve, over all workers and bodies.

    `count` episodes have `steps` steps in sum; `returned` of them have a return, whose sum is `total`, between `low`
    and `high`; `judged` have an objective, whose sum is `objective`.
    """

    first: int
    last: int
    count: int
    steps: float
    total: float
    returned: int
    low: float | None
    high: float | None
    objective: float
    judged: int

    @property
    def mean(self) -> float | None:
        """Return the mean return; None without any."""
        return self.total / self.returned if self.returned else None


def binned(reader: StoreReader, run: str) -> dict[Curve, list[Bin]]:
    """Return the bins of a run's curves, at most `POINTS_MAX` of each; their width is a power of two of episodes.

    `steps` are those of a worker: the mean over the workers of the phase.
    """
    quoted = run.replace("'", "''")
    of_run = f"WHERE run = '{quoted}'"
    _, rows = reader.query(
        f"SELECT phase, mode, MAX(episode), COUNT(DISTINCT worker) FROM episodes {of_run} GROUP BY 1, 2"  # noqa: S608
    )
    spans = {(phase, mode): (last, workers) for phase, mode, last, workers in rows}
    width = _width(max((last + 1 for last, _ in spans.values()), default=1))
    _, rows = reader.query(
        f"SELECT phase, mode, agent, MIN(episode), MAX(episode), COUNT(*), SUM(steps), "  # noqa: S608 - quoted
        'SUM("return"), COUNT("return"), MIN("return"), MAX("return"), SUM(objective), COUNT(objective) '
        f"FROM returns {of_run} GROUP BY phase, mode, agent, episode / {width} ORDER BY 1, 2, 3, 4"
    )
    found: dict[Curve, list[Bin]] = {}
    for phase, mode, agent, first, last, count, steps, total, returned, low, high, objective, judged in rows:
        workers = spans.get((phase, mode), (0, 1))[1]
        taken = float(steps) / workers
        one = Bin(first, last, count, taken, total or 0.0, returned, low, high, objective or 0.0, judged)
        found.setdefault((phase, mode, agent), []).append(one)
    return found


def _width(episodes: int, points: int = POINTS_MAX) -> int:
    """Return the least power of two as a width that gives at most so many bins."""
    width = 1
    while -(-episodes // width) > points:
        width *= 2
    return width


def thinned(bins: Mapping[Curve, Sequence[Bin]], points: int) -> list[dict[str, Any]]:
    """Return curves of at most so many points, as plain values for the page."""
    return [_told(curve, merged) for curve, merged in _merged(bins, points).items()]


def over_runs(runs: Sequence[Mapping[Curve, Sequence[Bin]]], points: int) -> list[dict[str, Any]]:
    """Return the curves of equal runs: the mean of the runs' means, with the least and the greatest."""
    last = max((one.last for bins in runs for curve in bins.values() for one in curve), default=0)
    width = _width(last + 1, points)
    found: dict[Curve, dict[int, list[Bin]]] = {}
    for bins in runs:
        for curve, members in bins.items():
            groups = found.setdefault(curve, {})
            for number, one in _grouped(members, width).items():
                groups.setdefault(number, []).append(one)
    curves = []
    for curve, groups in sorted(found.items()):
        together = [_over(groups[number]) for number in sorted(groups)]
        curves.append(_told(curve, together) | {"runs": max(map(len, groups.values()))})
    return curves


def _over(members: Sequence[Bin]) -> Bin:
    """Return one bin for several runs, with equal weights, whatever their numbers of episodes."""
    means = [one.mean for one in members if one.mean is not None]
    judged = [one.objective / one.judged for one in members if one.judged]
    return Bin(
        min(one.first for one in members),
        max(one.last for one in members),
        sum(one.count for one in members),
        sum(one.steps for one in members) / len(members),
        sum(means),
        len(means),
        min(means, default=None),
        max(means, default=None),
        sum(judged),
        len(judged),
    )


def _merged(bins: Mapping[Curve, Sequence[Bin]], points: int) -> dict[Curve, list[Bin]]:
    last = max((curve[-1].last for curve in bins.values()), default=0)
    width = _width(last + 1, points)
    return {curve: list(_grouped(members, width).values()) for curve, members in bins.items()}


def _grouped(members: Sequence[Bin], width: int) -> dict[int, Bin]:
    """Merge neighbouring bins; return number -> bin."""
    found: dict[int, Bin] = {}
    for one in members:
        number = one.first // width
        found[number] = _joined(found[number], one) if number in found else one
    return found


def _joined(one: Bin, other: Bin) -> Bin:
    lows = [low for low in (one.low, other.low) if low is not None]
    highs = [high for high in (one.high, other.high) if high is not None]
    return Bin(
        one.first,
        other.last,
        one.count + other.count,
        one.steps + other.steps,
        one.total + other.total,
        one.returned + other.returned,
        min(lows, default=None),
        max(highs, default=None),
        one.objective + other.objective,
        one.judged + other.judged,
    )


def _told(curve: Curve, bins: Sequence[Bin]) -> dict[str, Any]:
    phase, mode, agent = curve
    steps, taken = [], 0.0
    for one in bins:
        taken += one.steps
        steps.append(taken)
    return {
        "phase": phase,
        "mode": mode,
        "agent": agent,
        "episode": [(one.first + one.last) / 2 for one in bins],
        "step": steps,
        "count": [one.count for one in bins],
        "mean": [one.mean for one in bins],
        "low": [one.low for one in bins],
        "high": [one.high for one in bins],
        "objective": [one.objective / one.judged if one.judged else None for one in bins],
    }
