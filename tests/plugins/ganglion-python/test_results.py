"""Results, documents and drawings for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from commandline import write_run as write_run

from ganglion.cli.extension import DocumentError, Pace
from ganglion.sdk import StoreError, UsageError
from ganglion.sdk.models import save_arrays
from ganglion_python.drawing import run_html, table_html
from ganglion_python.face import check
from ganglion_python.face import results as results_of


@pytest.fixture
def folder(tmp_path: Path, write_run: Callable[..., str]) -> Path:
    """Return a results folder with two runs of one episode each, of 3 and 5 steps."""
    write_run("demo-1")
    write_run("demo-2", steps=5, reward=2.0)
    return tmp_path


@pytest.mark.parametrize(
    ("runs", "narrowing", "expected"),
    [
        ((), {}, [("demo-1", 3), ("demo-2", 5)]),
        (("demo-1",), {}, [("demo-1", 3)]),
        (("last",), {}, [("demo-2", 5)]),
        (("demo-1", "demo-2"), {"where": "steps > 3"}, [("demo-2", 5)]),
        ((), {"steps": 3, "mode": "train"}, [("demo-1", 3)]),
        ((), {"steps": [3, 5], "where": "terminated or steps = 1"}, [("demo-1", 3), ("demo-2", 5)]),
        ((), {"environment": None, "run": ["it's", "demo-2"]}, [("demo-2", 5)]),
        ((), {"order": ["-steps"], "limit": 1}, [("demo-2", 5)]),
        ((), {"steps": 4}, []),
    ],
)
def test_rows_are_narrowed_by_runs_conditions_and_columns(
    folder: Path, runs: tuple[str, ...], narrowing: dict[str, Any], expected: list[tuple[str, int]]
) -> None:
    """Several runs, a condition, values of columns, an order and a limit; counted are the rows that come."""
    query = results_of(folder).episodes(*runs, **narrowing)

    assert expected == [(row["run"], row["steps"]) for row in query]
    assert len(expected) == query.count()


def test_a_folder_a_store_and_a_run_are_places(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are found by folder, store file and URI, the folder of a run, and its id where the folder is set."""
    (folder / "demo-1" / "manifest.json").write_text("{}")
    monkeypatch.setenv("GANGLION_RESULTS", str(folder))
    monkeypatch.delenv("GANGLION_STORE", raising=False)
    store = folder / "ganglion.db"

    assert [2, 2, 2, 2] == [results_of(it).runs().count() for it in (None, folder, store, f"sqlite:///{store}")]
    assert [3, 3, 3] == [results_of(it).steps().count() for it in ("demo-1", folder / "demo-1", "demo-1")]


def test_value_lists_are_maps_or_columns(folder: Path) -> None:
    """Rows have maps of full ids; wide ones a column of each, for Arrow, pandas and polars alike."""
    pytest.importorskip("pyarrow")
    results = results_of(folder)
    assert {"grid.a": 0.5} == next(iter(results.steps("demo-1").rows()))["sensors"]
    query = results.steps("demo-2", wide=True, columns=["step", "sensors", "rewards"])
    table = query.to_arrow()

    assert ["step", "sensors.grid.a", "rewards.grid.r"] == table.column_names
    assert [2.0] * 5 == table["rewards.grid.r"].to_pylist()
    assert [2, 2, 1] == [batch.num_rows for batch in query.batches(2)]
    assert table.to_pydict() == query.to_pandas().to_dict("list")
    assert table.column_names == query.results.steps(step=9, wide=True, columns=query.columns).to_arrow().column_names


def test_sql_is_asked_read_only(folder: Path) -> None:
    """A query in SQL has rows and frames as any other, and can change nothing."""
    results = results_of(folder)
    query = results.sql("SELECT run, max(step) AS last FROM steps GROUP BY run ORDER BY run")

    assert [{"run": "demo-1", "last": 3}, {"run": "demo-2", "last": 5}] == list(query)
    assert 2 == query.count()
    with pytest.raises(UsageError, match="it may only read"):
        list(results.sql("DELETE FROM stored_runs"))


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda results: results.episodes("demo-9").count(), "there is no run `demo-9`"),
        (lambda results: list(results.episodes(color="red")), "there is no column `color`"),
        (lambda results: list(results.episodes(steps=object())), "expected a number, a text or a boolean"),
        (lambda results: list(results.episodes(columns=["stepps"])), "did you mean `steps`"),
        (lambda results: results.brain("demo-1", "nobody"), "expected a model of demo-1, agent 'nobody', found none"),
        (lambda results: results.brain("demo-1"), "expected the file of a model"),
    ],
)
def test_what_there_is_not_is_refused_by_name(folder: Path, ask: Callable[[Any], Any], said: str) -> None:
    """A run, a column, a value that cannot be compared, a model: what was expected, and the nearest."""
    with pytest.raises(UsageError, match=said):
        ask(results_of(folder))


def test_a_table_that_there_is_not_is_no_attribute(folder: Path, tmp_path: Path) -> None:
    """Tables are attributes; others are not, and a place without a store is told when it is asked."""
    results = results_of(folder)

    assert {"episodes", "actions"} <= set(dir(results))
    with pytest.raises(AttributeError, match="there is no table 'episode'"):
        _ = results.episode
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="found nothing"):
        results_of(tmp_path / "empty").tables()


def test_a_model_that_is_not_the_stored_one_is_refused(folder: Path) -> None:
    """A file with another digest than the store has is no model of the run."""
    save_arrays(folder / "demo-1" / "brain.npz", {"w": np.arange(3.0)})

    with pytest.raises((StoreError, ValueError), match=r"sha256|SHA-256|digest"):
        results_of(folder).brain("demo-1")


DOCUMENT: dict[str, Any] = {
    "uid": "talk",
    "seed": 5,
    "version": "0.1",
    "schedule": [
        {
            "train": {
                "environments": [{"environment": {"uid": "net", "name": "dummy"}}],
                "agents": [
                    {"name": "ada", "muscle": "dummy", "brain": "dummy", "objective": "dummy"}
                    | {"sensors": ["net.0"], "actuators": ["net.0"]}
                ],
                "phase_config": {"mode": "train", "episodes": 2},
            }
        }
    ],
    "run_config": {"condition": "vanilla"},
}


@pytest.mark.parametrize(
    "form", [lambda it: it, json.dumps, lambda it: json.dumps(it, indent=1)], ids=["map", "line", "text"]
)
def test_a_document_is_a_map_or_text(form: Any) -> None:
    """Maps and text are checked as files are; overrides have dots or double underscores in their paths."""
    document = form(DOCUMENT)
    if isinstance(document, str) and "\n" not in document:
        document += "\n"

    assert [] == check(document)
    assert [] == check(document, seed=3, schedule__train__phase_config__episodes=4)
    with pytest.raises(DocumentError, match="episodes") as caught:
        check(document, **{"schedule.train.phase_config.episodes": -4})
    assert 1 == len(caught.value.faults)


def test_a_drawing_is_text_whatever_names_are() -> None:
    """Names of runs, phases, agents and values are shown and never obeyed; there is no script in it."""
    pace = Pace.of({"name": "<img src=x>", "episodes": 4, "workers": 1}, 0.0)
    for n in range(3):
        fields = {"worker": 0, "episode": n, "steps": 10, "returns": {"<i>ada": float(n)}}
        pace.take("episode.ended", fields, float(n + 1))
    said = {"status": "failed", "reason": "<script>alert(1)</script>", "story": ["<b>x</b>"], "paces": {0: pace}}
    drawn = run_html(SimpleNamespace(**said), "<u>", 65.0) + table_html("<u>", [{"<script>": "<script>"}])

    assert [] == [tag for tag in ("<script", "<img", "<i>", "<u>", "<b>x") if tag in drawn]
    assert "0:01:05" in drawn
    assert "3/4 episodes · 30 steps" in drawn
    assert "<polyline" in drawn
