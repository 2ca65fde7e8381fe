from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.cli.extension import UsageError
from ganglion_sweep.experiment import Experiment
from ganglion_sweep.point import Point, points_of
from ganglion_sweep.resumption import changed, check_begun, settled, todo

Read = Callable[..., Experiment]


def rows(points: list[Point], *states: str) -> list[dict[str, Any]]:
    """Return what the store knows of the first points."""
    return [
        {**point.record(), "state": state, "run": None if state == "planned" else f"{point.uid}-1", "reason": None}
        for point, state in zip(points, states, strict=False)
    ]


def test_what_was_running_is_found_out() -> None:
    """A run that the store knows as finished is done; any other that was running is to be repeated."""
    known = [{"point": n, "state": s, "run": f"r-{n}"} for n, s in enumerate(["running", "running", "done", "running"])]

    assert {0: "done", 1: "planned", 3: "planned"} == settled(known, {"r-0": "finished", "r-1": "running"})


def test_begun_experiments_want_to_be_resumed(read: Read, grid: str) -> None:
    """What was only planned may begin; what was begun goes on by --resume only."""
    points = points_of(read(grid))
    check_begun("grid", points, rows(points, "planned", "planned"), resume=False)
    check_begun("grid", points, rows(points, "done", "failed"), resume=True)
    with pytest.raises(UsageError, match="was begun: 1 of 4 points are done; --resume goes on"):
        check_begun("grid", points, rows(points, "done", "failed"), resume=False)


CHANGES = [
    (("factors.length.levels=[4, 5]",), "factor `length`: point 0 is done (run grid-0-1) with 3 and would have 4 now"),
    (("factors.workers.levels=[3]",), "factor `workers`: point 0 is done (run grid-0-1) with 1 and would have 3 now"),
    (("factors.other={set: run_config.x, levels: [1]}",), "factor `other`: point 0 is done (run grid-0-1) without it"),
    (("seed=8",), "seed: point 0 is done (run grid-0-1) with "),
    (("schedule.train.phase_config.episodes=3",), "run: point 0 is done (run grid-0-1) with another run document"),
]


@pytest.mark.parametrize(("settings", "expected"), CHANGES)
def test_another_point_is_refused_by_name(read: Read, grid: str, settings: tuple[str, ...], expected: str) -> None:
    """A point that is done and would be another one now is told with the factor that differs."""
    known = rows(points_of(read(grid)), "done")
    now = points_of(read(grid, *settings))

    why = changed(now[0], known[0])
    assert why is not None
    assert why.startswith(expected)
    with pytest.raises(UsageError, match="experiment grid cannot go on"):
        check_begun("grid", now, known, resume=True)


def test_factors_that_are_gone(read: Read, grid: str, head: str) -> None:
    """A factor, or a whole point, that there is no longer is named."""
    points = points_of(read(grid))
    known = rows(points, "done", "done", "done", "done")
    [alone] = points_of(read(head))

    assert "factor `length`" in str(changed(alone, known[0]))
    assert "no such point any more; it had `length` = 5, `workers` = 2" in str(changed(None, known[3]))
    assert changed(points[0], known[0]) is None


def test_points_that_are_not_done_may_change(read: Read, grid: str) -> None:
    """More repetitions leave the first ones as they are: an experiment can grow."""
    known = rows(points_of(read(grid)), "done", "done", "done", "done")
    more = points_of(read(grid, "repetitions=2"))
    check_begun("grid", more, known, resume=True)

    assert [4, 5, 6, 7] == [point.number for point in todo(more, known, retry_failed=False)]
