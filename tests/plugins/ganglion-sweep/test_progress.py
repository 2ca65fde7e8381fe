from __future__ import annotations

import io
import json
import re
from collections.abc import Callable

import pytest

from ganglion.cli.extension import Outcome, RunEvent, Settings
from ganglion_sweep.experiment import Experiment
from ganglion_sweep.point import points_of
from ganglion_sweep.progress import Progress
from ganglion_sweep.summary import Mean

Read = Callable[..., Experiment]

ROWS = [{"row": 0, "factors": {"length": 3}, "done": 1, "runs": 2, "returns": {"ada": Mean(3.0, None, 1)}}]
FAILED = [{"run": "grid-1-1", "uid": "grid-1", "reason": "it broke", "show": "ganglion a", "repeat": "ganglion b"}]


def shown(read: Read, grid: str, settings: Settings) -> tuple[str, str]:
    """Return what is said on stdout and stderr of one run that goes well and one that fails."""
    out, err = io.StringIO(), io.StringIO()
    progress = Progress(settings, out, err)
    points = points_of(read(grid))
    progress.begin("grid", 7, points, points[2:], "results/sweeps/grid")
    progress.started(points[2], "grid-2-1")
    progress.ended(points[2], "grid-2-1", "done", Outcome("grid-2-1", "finished", "completed", 0, [], 1.5))
    progress.ended(points[3], "grid-3-1", "failed", Outcome("grid-3-1", "failed", "x", 1, ["it broke", "here"], 2.0))
    progress.event("grid-3-1", RunEvent("waiting", {"text": "waiting 4 s for b"}, 0.0))
    progress.end({"done": 3, "failed": 1, "planned": 0}, ROWS, FAILED)
    return out.getvalue(), err.getvalue()


class _Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_a_terminal_has_a_bar(read: Read, grid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a bar shows runs, elapsed time, what is left of it, and how far a run is within an episode."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    out = _Terminal()
    progress = Progress(Settings(), out, io.StringIO())
    points = points_of(read(grid))
    progress.begin("grid", 7, points, points[2:], "results/sweeps/grid")
    progress.started(points[2], "grid-2-1")
    progress.event("grid-2-1", RunEvent("steps.taken", {"episode": 3, "steps": 40}, 0.0))
    progress.ended(points[3], "grid-3-1", "done", Outcome("grid-3-1", "finished", "completed", 0, [], 1.5))
    progress.end({"done": 3, "failed": 0, "planned": 1}, ROWS, [])
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())

    assert re.search(r"2/4 runs 0:00:0\d ETA .* grid-2-1 episode 3 step 40", text)
    assert re.search(r"3/4 runs 0:00:0\d ETA 0:00:0\d", text)
    assert "3/4  grid-3-1  done in 1.5 s" in text


def test_quiet_says_what_failed_only(read: Read, grid: str) -> None:
    """With -q nothing is written to stdout; failures are told."""
    out, err = shown(read, grid, Settings(verbosity=-1))

    assert "" == out
    assert "grid-3-1: it broke" in err


def test_json_lines(read: Read, grid: str) -> None:
    """With --json each event is an object with stable keys, the table among them."""
    out, _ = shown(read, grid, Settings(json=True))
    events = [json.loads(line) for line in out.splitlines()]

    assert ["sweep.started", "point.started", "point.ended", "point.ended", "sweep.ended"] == [
        e["event"] for e in events
    ]
    assert (4, 4, 2) == tuple(events[0][key] for key in ("runs", "points", "todo"))
    assert {"length": 5, "workers": 1} == events[2]["factors"]
    assert ("failed", ["it broke", "here"]) == (events[3]["state"], events[3]["story"])
    assert {"mean": 3.0, "half": None, "runs": 1} == events[4]["rows"][0]["returns"]["ada"]
