"""What came of a simulated run: how it ended, and its tables."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ganglion import registry
from ganglion.wire.messages import Ended, RunEvent, Signalled

Rows = list[dict[str, Any]]

_RESULTS = {  # as they lie in the file, without numbers of rows, run and wall clock
    "phases": "phase, mode, name, status, reason FROM stored_phases",
    "episodes": 'phase, mode, worker, environment, episode, steps, terminated, truncated, reason, round, "inner", '
    "digest, predecessor FROM stored_episodes",
    "signals": "phase, worker, episode, step, signal, issuer, reason, data FROM stored_signals",
    "evaluations": "phase, agent, number, episode, metrics FROM stored_evaluations",
    "brains": "phase, agent, tag, episode, updates, sha256 FROM stored_brains",
    "declarations": "phase, environment, agent, kind, position, id, space, shape FROM stored_declarations",
}

_OF_THIS_RUN = {"run", "started", "ended", "created", "completed"}
"""Columns that differ between equal runs: the run's id and the wall clock."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Say how a run ended.

    `tables` are rows by table, without the run's id and the wall clock. `messages` and `events` count what was
    delivered and scheduled; `virtual_s` is how long the run took by its own clock. `defects` are processes that did
    not end as they should, `answers` what the governor said to operators.
    """

    run: str
    seed: int
    ended: Ended
    tables: dict[str, Rows]
    news: list[RunEvent]
    answers: list[Signalled | str]
    defects: list[str]
    messages: int
    events: int
    virtual_s: float
    took_s: float
    story: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        """Return `finished`, `failed` or `interrupted`."""
        return self.ended.status

    @property
    def reason(self) -> str:
        """Return why, in a word or a sentence."""
        return self.ended.reason

    @property
    def exit_status(self) -> int:
        """Return what `ganglion run` would end with."""
        return self.ended.exit_status

    def check(self) -> None:
        """Assert that the tables belong together: whole episodes, dense numbers, no row twice."""
        _check_episodes(self.tables["episodes"])
        lengths = {_episode(row): row["steps"] for row in self.tables["episodes"]}
        assert len(lengths) == len(self.tables["episodes"]), "an episode stands there twice"
        _check_steps(self.tables["steps"], lengths)
        _check_actions(self.tables["actions"], lengths)


def read_tables(uri: str, run: str) -> dict[str, Rows]:
    """Return all tables of a run, but for the columns that differ between equal runs."""
    store = registry.load("store", uri.partition(":")[0])
    with store.reader(uri) as reader:
        names = [name for name in reader.tables() if name != "incidents"]
        if run not in {row["run"] for row in reader.rows("runs", columns=["run"])}:
            return {name: [] for name in names}  # it was lost before anything was written
        return {name: [plain(row, run) for row in reader.rows(name, [run])] for name in names}


def read_rows(uri: str, run: str) -> dict[str, list[Any]]:
    """Return the results of a run as they lie in its file, and how it ended; `digest` stands for the rows of episodes.

    This takes a tenth of the time of `read_tables`, and is equal where that is equal.
    """
    connection = sqlite3.connect(uri.removeprefix("sqlite:///"))
    try:
        runs = "SELECT number, status, reason FROM stored_runs WHERE run = ?"
        found = connection.execute(runs, (run,)).fetchone()
        if found is None:
            return {}
        tables: dict[str, list[Any]] = {"run": list(found[1:])}
        for name, columns in _RESULTS.items():
            rows = connection.execute(f"SELECT {columns} WHERE run = ?", found[:1])
            tables[name] = sorted(rows, key=repr)
        # What an operator says at some moment is recorded, and changes nothing else.
        tables["orders"] = [row for row in tables["signals"] if row[5] == "operator"]
        tables["signals"] = [row for row in tables["signals"] if row[5] != "operator"]
        return tables
    finally:
        connection.close()


def read_episodes(uri: str, run: str) -> list[tuple[Any, ...]]:
    """Return the rows of all episodes that are visible now."""
    if not Path(uri.removeprefix("sqlite:///")).exists():
        return []
    with contextlib.closing(sqlite3.connect(uri.removeprefix("sqlite:///"))) as connection:
        words = f"SELECT {_RESULTS['episodes']} WHERE run = (SELECT number FROM stored_runs WHERE run = ?)"
        try:
            return list(connection.execute(words, (run,)))
        except sqlite3.OperationalError:  # nobody has made the store yet
            return []


def plain(row: dict[str, Any], run: str) -> dict[str, Any]:
    """Return a row without what differs between equal runs; paths of models are below the run's folder."""
    found = {name: value for name, value in row.items() if name not in _OF_THIS_RUN}
    if "path" in found:
        assert f"/{run}/" in found["path"], row
        found["path"] = found["path"].rpartition(f"/{run}/")[2]
    return found


def _episode(row: dict[str, Any]) -> tuple[int, str, int, int]:
    return row["phase"], row["mode"], row["worker"], row["episode"]


def _check_episodes(rows: Rows) -> None:
    """Check that each worker's episodes count from 0, and that each has an end and a reason."""
    numbers = defaultdict(list)
    for row in rows:
        numbers[row["phase"], row["mode"], row["worker"]].append(row["episode"])
        assert row["steps"] >= 1, row
        assert row["terminated"] != row["truncated"], row
        assert row["reason"], row
    for place, found in numbers.items():
        # Two evaluations of workers that race may belong to one round: then their rows are mixed.
        shown = sorted(found) if place[1] == "evaluate" else found
        assert list(range(len(found))) == shown, f"episodes of {place}: {found}"


def _check_steps(rows: Rows, lengths: dict[tuple[int, str, int, int], int]) -> None:
    """Check that every sealed episode has each of its steps; some environment is stepped in each."""
    steps = defaultdict(list)
    for row in rows:
        steps[_episode(row), row["environment"]].append(row["step"])
    for (episode, environment), found in steps.items():
        assert list(range(1, len(found) + 1)) == found, f"steps of {environment} in {episode}: {found}"
    longest: dict[Any, int] = defaultdict(int)
    for (episode, _), found in steps.items():
        longest[episode] = max(longest[episode], len(found))
    assert lengths == dict(longest)


def _check_actions(rows: Rows, lengths: dict[tuple[int, str, int, int], int]) -> None:
    """Check that each agent's decisions count from 0, and that no agent has more than there are steps."""
    decisions: dict[Any, list[int]] = defaultdict(list)
    for row in rows:
        decisions[_episode(row), row["agent"]].append(row["step"])
    for (episode, agent), found in decisions.items():
        assert list(range(len(found))) == found, f"decisions of {agent} in {episode}: {found}"
        assert len(found) <= lengths[episode], f"{agent} decided more often than there are steps in {episode}"


def story_of(news: Sequence[RunEvent]) -> list[str]:
    """Return the events in words, for a failure's report."""
    return [f"{one.event} {one.fields}" for one in news]
