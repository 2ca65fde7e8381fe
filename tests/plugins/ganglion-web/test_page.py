"""The page: each answer is what the command line says, and whoever may not ask is refused."""

from __future__ import annotations

import csv
import io
import json
import stat
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


ATTACKS: dict[str, tuple[int, str, dict[str, Any]]] = {
    "no token": (401, "/api/runs", {"bare": True}),
    "no token for the page": (401, "/", {"bare": True}),
    "no token for its files": (401, "/page/page.js", {"bare": True}),
    "another token": (401, "/api/runs", {"authorization": "Bearer " + "x" * 43}),
    "a token of another kind": (401, "/api/runs", {"authorization": "Basic eDp5"}),
    "a broken cookie": (401, "/api/runs", {"bare": True, "cookie": "ganglion-1=;;;=\x7f"}),
    "a token in the address of a route": (401, "/api/runs?token=x", {"bare": True}),
    "a foreign Host": (421, "/api/runs", {"host": "evil.example:80"}),
    "a Host that begins like ours": (421, "/api/runs", {"host": "127.0.0.1.evil.example"}),
    "a foreign Origin": (403, "/api/runs", {"origin": "http://evil.example"}),
    "an Origin of a file": (403, "/api/runs", {"origin": "null"}),
    "a script of another site": (403, "/api/runs", {"sec_fetch_site": "cross-site"}),
    "a form": (403, "/api/runs/one-1/stop", {"method": "POST", "body": "now=1", "x_ganglion": None}),
    "a query without end": (414, "/api/runs?uid=" + "a" * 5_000, {}),
    "a body without end": (413, "/api/check", {"method": "POST", "body": "a" * 1_100_000}),
    "a path as a run": (404, "/api/runs/..%2F..%2Fetc/document", {}),
    "a folder above": (404, "/api/runs/%2e%2e/document", {}),
    "a hidden folder": (404, "/api/runs/.web/document", {}),
    "a quote in a run": (404, "/api/runs/x'%20OR%20'1'='1/curves", {}),
    "a file beside the page": (404, "/page/..%2Fapp.py", {}),
    "a path as the name of a document": (404, "/api/documents/..%2Fx", {"method": "PUT", "body": "a: 1"}),
    "SQL in a condition": (422, "/api/runs/one-1/results/episodes?where=1%3B%20DROP%20TABLE%20stored_runs", {}),
    "a table of the store itself": (404, "/api/runs/one-1/results/stored_runs", {}),
    "a number without end": (422, "/api/runs?limit=" + "9" * 40, {}),
    "a document where none is taken": (403, "/api/runs", {"method": "POST", "body": "uid: x"}),
    "an experiment where none is taken": (403, "/api/sweeps", {"method": "POST", "body": "uid: x"}),
    "a form for an experiment": (403, "/api/sweeps", {"method": "POST", "body": "uid=x", "x_ganglion": None}),
    "a quote in an experiment": (404, "/api/sweeps/x'%20OR%20'1'='1", {}),
    "a path as an experiment": (404, "/api/sweeps/..%2Fx", {}),
    "a huge path": (404, "/api/runs/" + "a" * 30_000 + "/curves", {}),
    "points without end": (200, "/api/runs/one-1/curves?points=999999999", {}),
}


@pytest.mark.parametrize(("status", "path", "how"), ATTACKS.values(), ids=ATTACKS.keys())
def test_attack_is_refused(page: Any, status: int, path: str, how: dict[str, Any]) -> None:
    """The answer has the status and a sentence, or nothing of use; no policy is lacking."""
    found = page.ask(path, **how)

    assert status == found.status
    assert "default-src 'none'" in found.headers["content-security-policy"]
    assert "Traceback" not in found.text


def test_printed_address_becomes_a_cookie(page: Any) -> None:
    """The address leads to the page with a cookie that no script reads and no other site sends."""
    found = page.ask("/?token=" + page.token, bare=True)
    cookie = found.headers["set-cookie"]

    assert (303, "/") == (found.status, found.headers["location"])
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert 200 == page.ask("/", bare=True, cookie=cookie.partition(";")[0]).status


def test_token_is_ours_alone(page: Any) -> None:
    """The file that keeps the token over restarts can be read by its owner only."""
    path = page.folder / "results" / ".web" / "token"

    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert page.token == path.read_text()


def test_token_that_others_can_read_is_refused(page: Any, tmp_path: Any) -> None:
    """A file with another mode is no token: the command says so and ends with 2."""
    from system.command import ganglion

    path = tmp_path / "results" / ".web" / "token"
    path.parent.mkdir(parents=True)
    path.write_text("x" * 43)
    path.chmod(0o644)
    done = ganglion(tmp_path, "serve", "--port", "0")

    assert (2, True) == (done.returncode, "mode 0600" in done.stderr)


def test_port_that_is_taken_is_told(page: Any, tmp_path: Any) -> None:
    """A second page at the same port ends with 2 and names the port."""
    from system.command import ganglion

    done = ganglion(tmp_path, "serve", "--port", str(page.port))

    assert (2, True) == (done.returncode, str(page.port) in done.stderr)
