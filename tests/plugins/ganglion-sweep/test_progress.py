from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ganglion.cli.extension import Outcome, RunEvent, Settings, store_class
from ganglion_sweep.experiment import Experiment
from ganglion_sweep.point import points_of
from ganglion_sweep.progress import Mean, Progress, returns_of, table_rows, table_text

Read = Callable[..., Experiment]

ROWS = [{"row": 0, "factors": {"length": 3}, "done": 1, "runs": 2, "returns": {"ada": Mean(3.0, None, 1)}}]
FAILED = [{"run": "grid-1-1", "uid": "grid-1", "reason": "it broke", "show": "ganglion a", "repeat": "ganglion b"}]


def shown(read: Read, grid: str, settings: Settings) -> tuple[str, str]:
    """Return what is said on stdout and stderr of one run that goes well and one that fails."""
    out, err = io.StringIO(), io.StringIO()
    progress = Progress(settings, out, err)
    points = points_of(read(grid))
    progress.begin("grid", 7, len(points), len({point.row for point in points}), len(points) - 2, "results/sweeps/grid")
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
    progress.begin("grid", 7, len(points), len({point.row for point in points}), len(points) - 2, "results/sweeps/grid")
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


class Rows:
    """Answer as a store does, from rows that are given; conditions are those of one phase and mode."""

    def __init__(self, phases: Sequence[dict[str, Any]], returns: Sequence[dict[str, Any]]) -> None:
        self.tables = {"phases": phases, "returns": returns}

    def rows(self, table: str, runs: Sequence[str], where: str | None, columns: Sequence[str]) -> Iterator[Any]:
        """Yield rows for which the condition holds."""
        for row in self.tables[table]:
            mode = "mode != 'evaluate'" if row["mode"] != "evaluate" else "mode = 'evaluate'"
            wanted = where is None or (mode in where and ("phase" not in where or f"phase = {row['phase']}" in where))
            if wanted:
                yield {name: row[name] for name in columns}


def row(phase: int, mode: str, value: float | None, agent: str = "a") -> dict[str, Any]:
    """Return a row of `returns`."""
    return {"phase": phase, "mode": mode, "agent": agent, "return": value}


def test_returns_are_those_of_the_last_phase() -> None:
    """Evaluations and earlier phases do not count, unless the last phase is one of evaluation; unknown is left out."""
    phases = [row(0, "train", None), row(1, "train", None), row(1, "evaluate", None)]
    returns = [row(0, "train", 100.0), row(1, "train", 1.0), row(1, "train", 3.0), row(1, "train", None)]
    returns += [row(1, "evaluate", 50.0), row(1, "train", 7.0, "b")]

    assert {"a": 2.0, "b": 7.0} == returns_of(Rows(phases, returns), "x")  # type: ignore[arg-type]
    assert {"a": 50.0} == returns_of(Rows([row(1, "evaluate", None)], returns[4:5]), "x")  # type: ignore[arg-type]
    assert {} == returns_of(Rows([], []), "x")  # type: ignore[arg-type]


def test_the_table(read: Read, grid: str, tmp_path: Path) -> None:
    """A row of the design has its factors, how many of its runs are done, and the means over them."""
    uri = f"sqlite:///{tmp_path}/s.db"
    points = points_of(read(f"{grid}repetitions: 2\n"))
    for number in (0, 4):
        with store_class(uri).writer(uri, f"grid-{number}-1") as writer:
            head = {"uid": f"grid-{number}", "experiment": "grid", "seed": "1", "started": "2030-01-01T00:00:00Z"}
            writer.apply("governor", [["run", head], ["phase", 0, "train", "train", "finished", None]])
    with store_class(uri).reader(uri) as reader:
        rows = table_rows(points, {0: "grid-0-1", 4: "grid-4-1"}, reader)

    assert [(2, 2), (0, 2), (0, 2), (0, 2)] == [(r["done"], r["runs"]) for r in rows]
    assert {"length": 3, "workers": 2} == rows[1]["factors"]
    rows[0]["returns"] = {"ada": Mean(1.5, 0.25, 2)}
    text = table_text(rows)
    assert {"row": "0", "length": "3", "workers": "1", "runs done": "2/2", "return.ada": "1.5 ± 0.25"} == text[0]
    assert "" == text[1]["return.ada"]
