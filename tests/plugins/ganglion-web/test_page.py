"""The routes: each answers what the command line says of the same run."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
from system.command import ganglion
from system.results import table


def test_runs_and_one_run(page: Any) -> None:
    """A run that has ended has its status, its phases, and how many episodes each has of how many."""
    found = {row["run"]: row for row in page.ask("/api/runs").value["runs"]}
    one = page.ask("/api/runs/one-1").value
    keys = ("name", "mode", "status", "episodes", "limit", "steps")

    assert ("one", "finished") == (found["one-1"]["uid"], found["one-1"]["status"])
    assert [["train", "train", "finished", 3, 3, 12]] == [[phase[key] for key in keys] for phase in one["phases"]]
    assert page.ask("/api/runs?status=failed").value["runs"] == []


def test_curves_are_the_returns(page: Any) -> None:
    """With room for all, a point is an episode; with room for one, it is their mean."""
    returns = [row["return"] for row in table(page.folder, "returns", "one-1")]
    [full] = page.ask("/api/runs/one-1/curves?points=500").value["curves"]
    [one] = page.ask("/api/runs/one-1/curves?points=1").value["curves"]

    assert [returns, [0, 1, 2], [4, 8, 12]] == [full["mean"], full["episode"], full["step"]]
    assert [[3], [sum(returns) / 3], [min(returns)], [max(returns)]] == [
        one[key] for key in ("count", "mean", "low", "high")
    ]


def test_tables_in_each_form(page: Any) -> None:
    """A table is what `ganglion results` prints, narrowed by condition, columns and limit."""
    path = "/api/runs/one-1/results/episodes?columns=episode,steps&where=episode%3E0"
    rows = [{"episode": 1, "steps": 4}, {"episode": 2, "steps": 4}]

    assert rows == page.ask(path).value
    assert rows == [json.loads(line) for line in page.ask(path + "&format=jsonl").text.splitlines()]
    assert [{k: str(v) for k, v in row.items()} for row in rows] == list(
        csv.DictReader(io.StringIO(page.ask(path + "&format=csv").text))
    )
    assert rows[:1] == page.ask(path + "&limit=1").value


EXPERIMENT = """
uid: pair
seed: 1
version: "0.1"
run:
  schedule:
    - train:
        environments: [{{environment: {{uid: net, name: {name}, params: {{max_iter: 3}}}}}}]
        agents: [{{name: ada, muscle: dummy, brain: dummy, sensors: [net.0], actuators: [net.0]}}]
        phase_config: {{mode: train, episodes: 2}}
  run_config: {{condition: vanilla}}
factors:
  length: {{set: schedule.train.environments.net.params.max_iter, levels: [3, 4]}}
repetitions: {repetitions}
"""


@pytest.mark.long
def test_sweep_is_taken_and_shown(pages: Any, tmp_path: Path) -> None:
    """An experiment is carried out by a process of its own; its points and a band over its runs are told."""
    page = pages(tmp_path, "--port", "0", "--allow-submit")
    try:
        taken = page.ask("/api/sweeps", "POST", EXPERIMENT.format(name="dummy", repetitions=2))
        assert (202, "pair", ["pair-0", "pair-1", "pair-2", "pair-3"]) == (taken.status, *taken.value.values())
        until_s = time.monotonic() + 100.0
        while not (found := page.ask("/api/sweeps")).value or found.value[0].get("done") != 4:
            assert time.monotonic() < until_s, found.text
            time.sleep(0.2)
        sweep = page.ask("/api/sweeps/pair").value

        assert [(0, 3, 2), (1, 4, 2)] == [
            (one["row"], one["factors"]["length"], one["runs"]) for one in sweep["curves"]
        ]
        assert {"done"} == {point["state"] for point in sweep["points"]}
        again = page.ask("/api/sweeps", "POST", EXPERIMENT.format(name="dummy", repetitions=2))
        assert 409 == again.status
    finally:
        page.close()


WRONG = {
    "a path as the run document": "uid: pair\nseed: 1\nversion: '0.1'\nrun: /etc/passwd\n",
    "code as an environment": EXPERIMENT.format(name="'os:system'", repetitions=1),
    "code as a design": EXPERIMENT.format(name="dummy", repetitions=1) + "design: 'os:system'\n",
    "a fault in a factor": EXPERIMENT.format(name="dummy", repetitions="none"),
}


@pytest.mark.long
def test_faulty_experiments_are_refused(pages: Any, tmp_path: Path) -> None:
    """A page names plugins by their short names only; faults are told, and nothing is left of what was refused."""
    page = pages(tmp_path, "--port", "0", "--allow-submit")
    try:
        found = {name: page.ask("/api/sweeps", "POST", text) for name, text in WRONG.items()}
    finally:
        page.close()

    assert dict.fromkeys(WRONG, 422) == {name: answer.status for name, answer in found.items()}
    assert 14 == found["a fault in a factor"].value["faults"][0]["line"]
    assert not (tmp_path / "results" / "sweeps").exists()


def test_document_and_logs(page: Any) -> None:
    """The document comes as it was given; logs by level and process, the newest last."""
    document = page.ask("/api/runs/one-1/document").value
    logs = page.ask("/api/runs/one-1/logs?process=one-1/governor").value

    assert (page.folder / "one.yml").read_text() == document["document"]
    assert "max_iter: 4" in document["resolved"]
    assert {"one-1/governor"} == {line["process"] for line in logs["lines"]}
    assert page.ask("/api/runs/one-1/logs?level=error").value["lines"] == []


def test_unknown_things_are_named(page: Any) -> None:
    """What is not there is 404, a wrong question 422, a wrong moment 409; each with a sentence."""
    asked = {
        "/api/runs/two-1": 404,
        "/api/runs/one-1/results/episods": 404,
        "/api/runs/one-1/results/episodes?where=episod%3D1": 422,
        "/api/runs/one-1/results/episodes?format=xml": 422,
        "/api/runs/one-1/logs?level=loud": 422,
        "/api/documents/none": 404,
    }
    found = {path: page.ask(path) for path in asked}
    stop = page.ask("/api/runs/one-1/stop", "POST", "{}")
    resume = page.ask("/api/runs/one-1/resume", "POST", "{}")

    assert asked == {path: answer.status for path, answer in found.items()}
    assert all(answer.value["error"] for answer in found.values())
    assert [409, 409] == [stop.status, resume.status]
    assert "finished" in stop.value["error"]


def test_check_says_what_the_command_says(page: Any) -> None:
    """Faults come with line and column; import paths and commands are refused: nobody names code from a page."""
    good = (page.folder / "one.yml").read_text()
    wrong = good.replace("max_iter", "max_iter").replace("schedule", "schedul")
    code = good.replace("name: dummy", "name: os:system")

    assert {"faults": [], "warnings": []} == page.ask("/api/check", "POST", good).value
    [fault, *_] = page.ask("/api/check", "POST", wrong).value["faults"]
    assert (5, True) == (fault["line"], "schedul" in fault["text"])
    assert page.ask("/api/check", "POST", code).value["faults"]


def test_kept_documents_are_never_replaced(page: Any) -> None:
    """PUT keeps a document once; then it is read, and removed."""
    answers = [page.ask("/api/documents/mine", "PUT", text) for text in ("a: 1", "a: 2")]

    assert [201, 409] == [answer.status for answer in answers]
    assert ("a: 1", ["mine"]) == (page.ask("/api/documents/mine").text, page.ask("/api/documents").value)
    assert [204, 404] == [page.ask("/api/documents/mine", "DELETE").status for _ in range(2)]


def test_schema_and_plugins(page: Any) -> None:
    """The schema is that of `ganglion schema`, and plugins have a kind and a name."""
    assert json.loads(ganglion(page.folder, "schema").stdout) == page.ask("/api/schema").value
    assert {"kind": "environment", "name": "dummy", "distribution": "ganglion-toys"} in page.ask("/api/plugins").value


def test_removed_run_is_gone(page: Any) -> None:
    """DELETE removes rows and folder of a run that has ended."""
    assert ganglion(page.folder, "run", "-q", "--name", "two-1", "one.yml").returncode == 0
    found = page.ask("/api/runs/two-1", "DELETE")

    assert (204, 404) == (found.status, page.ask("/api/runs/two-1").status)
    assert not (page.folder / "results" / "two-1").exists()


def test_metrics_are_for_who_has_the_token(page: Any) -> None:
    """Prometheus is answered in its form, with the token as all others are."""
    pytest.importorskip("prometheus_client", reason="needs it: pip install 'ganglion-observers[metrics]'")

    assert 401 == page.ask("/metrics", bare=True).status
    answer = page.ask("/metrics")
    assert (200, True) == (answer.status, "# TYPE ganglion_last_heard_seconds gauge" in answer.text)
