from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ganglion.cli.extension import store_class
from ganglion_sweep.experiment import Experiment
from ganglion_sweep.point import points_of
from ganglion_sweep.summary import Mean, means_of, returns_of, table_rows, table_text

Read = Callable[..., Experiment]


def test_agents_are_kept_apart() -> None:
    """Each agent has its mean over the runs in which it took part."""
    means = means_of([{"a": 1.0, "b": 5.0}, {"a": 3.0}])

    assert [("a", 2.0, 2), ("b", 5.0, 1)] == [(name, m.mean, m.runs) for name, m in means.items()]


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
