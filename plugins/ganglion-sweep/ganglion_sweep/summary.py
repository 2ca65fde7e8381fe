"""The table at the end: per row of the design the mean return of each agent over the repetitions, with an interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import TYPE_CHECKING, Any

from ganglion_sweep.folder import cell
from ganglion_sweep.point import Point

if TYPE_CHECKING:
    from ganglion.sdk.store import StoreReader


# Two-sided 95 % points of Student's t for 1 to 30 degrees of freedom; beyond them the normal distribution is near
# enough (2.042 against 1.960, and closing).
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True)
class Mean:
    """Hold the mean of a number over runs; `half` is half of its 95 % interval, None with fewer than two runs."""

    mean: float
    half: float | None
    runs: int

    def __str__(self) -> str:
        """Return the mean, with its interval where there is one."""
        return f"{self.mean:.6g}" + ("" if self.half is None else f" ± {self.half:.3g}")


def mean_of(values: Sequence[float]) -> Mean:
    """Return the mean of at least one number, with its interval by Student's t."""
    count = len(values)
    if count < 2:
        return Mean(fmean(values), None, count)
    t = _T95[count - 2] if count - 2 < len(_T95) else NormalDist().inv_cdf(0.975)
    return Mean(fmean(values), t * stdev(values) / math.sqrt(count), count)


def returns_of(reader: StoreReader, run: str) -> dict[str, float]:
    """Return the mean return of each agent over the episodes of a run's last phase, evaluations left out."""
    phases = list(reader.rows("phases", [run], "mode != 'evaluate'", ["phase"])) or list(
        reader.rows("phases", [run], None, ["phase"])
    )
    if not phases:
        return {}
    last = max(row["phase"] for row in phases)
    values: dict[str, list[float]] = {}
    for mode in ("mode != 'evaluate'", "mode = 'evaluate'"):  # a phase of mode evaluate has no others
        where = f"phase = {last} and {mode}"
        for row in reader.rows("returns", [run], where, ["agent", "return"]):
            if row["return"] is not None and math.isfinite(row["return"]):
                values.setdefault(row["agent"], []).append(row["return"])
        if values:
            break
    return {agent: fmean(numbers) for agent, numbers in values.items()}


def means_of(returns: Sequence[Mapping[str, float]]) -> dict[str, Mean]:
    """Return the mean over runs of each agent's return, agents in the order in which they first come."""
    agents = dict.fromkeys(agent for run in returns for agent in run)
    return {agent: mean_of([run[agent] for run in returns if agent in run]) for agent in agents}


def table_rows(points: Sequence[Point], runs: Mapping[int, str], reader: StoreReader) -> list[dict[str, Any]]:
    """Return a row per row of the design: its factors, how many runs are done, and the means of each agent.

    `runs` maps numbers of points that are done to their runs.
    """
    rows: dict[int, dict[str, Any]] = {}
    returns: dict[int, list[dict[str, float]]] = {}
    for point in points:
        rows.setdefault(point.row, {"row": point.row, "factors": point.factors, "done": 0, "runs": 0})
        rows[point.row]["runs"] += 1
        if point.number in runs:
            rows[point.row]["done"] += 1
            returns.setdefault(point.row, []).append(returns_of(reader, runs[point.number]))
    for number, row in rows.items():
        row["returns"] = means_of(returns.get(number, []))
    return list(rows.values())


def table_text(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the table as text, a map column -> cell per line."""
    agents = dict.fromkeys(agent for row in rows for agent in row["returns"])
    return [
        {"row": str(row["row"])}
        | {name: cell(value) for name, value in row["factors"].items()}
        | {"runs done": f"{row['done']}/{row['runs']}"}
        | {f"return.{agent}": str(row["returns"].get(agent, "")) for agent in agents}
        for row in rows
    ]
