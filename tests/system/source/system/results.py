"""What came of runs: the rows of their tables, and the stories of those that failed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from system.command import SPAN_S, ganglion

Rows = list[dict[str, Any]]


def table(folder: Path, name: str, run: str = "last", where: str | None = None, span_s: float = SPAN_S) -> Rows:
    """Return the rows of a table of a run whose results are in a folder, all of them or those of a condition."""
    words = ("results", "--table", name, run, "--format", "json", *(("--where", where) if where else ()))
    done = ganglion(folder, *words, span_s=span_s)
    assert (0, "") == (done.returncode, done.stderr)
    found: Rows = json.loads(done.stdout)
    return found


def unnamed(rows: Iterable[Mapping[str, Any]]) -> Rows:
    """Return rows without the name of their run, as they are compared with those of another one."""
    return [{key: value for key, value in row.items() if key != "run"} for row in rows]


@dataclass(frozen=True)
class Failed:
    """Hold what came of runs that have failed: folder, and the lines of the story of each, by its uid."""

    folder: Path
    stories: Mapping[str, list[str]]


def fail(folder: Path, documents: Iterable[Path]) -> Failed:
    """Run documents by one command, two at a time; all of them have to fail, soon after they were started."""
    words = ("run", *map(str, documents), "--json", "--parallel", "2")
    done = ganglion(folder, *words, span_s=3 * SPAN_S)
    assert 1 == done.returncode, done.stdout + done.stderr
    ended = [event for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "run.ended"]
    assert {(1, "failed")} == {(event["exit_status"], event["status"]) for event in ended}
    return Failed(folder, {event["run"].removesuffix("-1"): event["story"] for event in ended})
