"""Resumption: which points are still to be done, and whether those that are done are those that are meant now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ganglion.cli.extension import UsageError
from ganglion_sweep.factor import same
from ganglion_sweep.folder import cell
from ganglion_sweep.point import Point

Row = Mapping[str, Any]


def settled(known: Sequence[Row], finished: Mapping[str, str]) -> dict[int, str]:
    """Return what really became of points that were left running when their command was killed.

    `finished` maps runs to their status in the store. A run that had finished is done; any other has to be repeated.
    """
    running = [row for row in known if row["state"] == "running"]
    return {row["point"]: "done" if finished.get(row["run"]) == "finished" else "planned" for row in running}


def changed(point: Point | None, row: Row) -> str | None:
    """Return why a point that is done would be another one now, None if it would not."""
    where = f"point {row['point']} is done (run {row['run']})"
    if point is None:
        names = ", ".join(f"`{name}` = {cell(value)}" for name, value in row["factors"].items())
        return f"{where}, and the design has no such point any more; it had {names or 'no factors'}"
    if point.digest == row["digest"]:
        return None
    for name, value in row["factors"].items():
        if name not in point.factors:
            return f"factor `{name}`: {where} with {cell(value)}, and there is no such factor any more"
        if same(point.factors[name]) != same(value):
            return f"factor `{name}`: {where} with {cell(value)} and would have {cell(point.factors[name])} now"
    fresh = [name for name in point.factors if name not in row["factors"]]
    if fresh:
        return f"factor `{fresh[0]}`: {where} without it"
    if str(point.seed) != row["seed"]:
        return f"seed: {where} with {row['seed']} and would have {point.seed} now"
    return f"run: {where} with another run document, although its factors are the same"


def check_begun(uid: str, points: Sequence[Point], known: Sequence[Row], resume: bool) -> None:
    """Refuse to begin an experiment again, or to go on with another one; UsageError says which factor differs."""
    by_number = {point.number: point for point in points}
    done = [row for row in known if row["state"] == "done"]
    for row in done:
        why = changed(by_number.get(row["point"]), row)
        if why is not None:
            raise UsageError(f"experiment {uid} cannot go on: {why}; give the experiment another uid")
    begun = [row for row in known if row["state"] != "planned" or row["run"] is not None]
    if begun and not resume:
        raise UsageError(
            f"experiment {uid} was begun: {len(done)} of {len(points)} points are done; "
            "--resume goes on with those that are not"
        )


def todo(points: Sequence[Point], known: Sequence[Row], retry_failed: bool) -> list[Point]:
    """Return the points to carry out, in order: all but those that are done, or failed and not to be retried."""
    over = {"done"} if retry_failed else {"done", "failed"}
    states = {row["point"]: row["state"] for row in known}
    return [point for point in points if states.get(point.number) not in over]
