"""Live runs: what the page tells of them, and what it asks of them."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from databases import Server, served
from system.command import Command

DOCUMENT = Path(__file__).with_name("live.yml").read_text()
LENGTH = 40
"""Steps of an episode of that document."""


class Stream:
    """The news of a page, read as they come."""

    def __init__(self, page: Any) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=60.0)
        self._connection.request("GET", "/api/events", headers={"authorization": f"Bearer {page.token}"})
        self._answer = self._connection.getresponse()
        self._read: deque[dict[str, Any]] = deque()
        assert "text/event-stream" in str(self._answer.getheader("content-type"))

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            while self._read:
                if wanted(one := self._read.popleft()):
                    return one
            line = self._answer.readline().decode()
            assert line, "the stream has ended"
            if line.startswith("data: "):
                self._read.extend(json.loads(line.removeprefix("data: ")).get("news", ()))

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


@pytest.fixture
def stream(page: Any) -> Iterator[Stream]:
    """Return the news of the page from now on."""
    found = Stream(page)
    yield found
    found.close()


def test_a_live_run_is_seen_and_commanded(page: Any, stream: Stream, live: Command) -> None:
    """It shows its processes and messages, stands when it is paused, makes one step, and is stopped."""
    run = live.until("run.started")["run"]
    shown = stream.until(
        lambda one: (
            one["kind"] == "processes" and any("muscle" in to for row in one["processes"] for to in row.get("sent", ()))
        )
    )
    roles = {row["role"] for row in shown["processes"]}
    live.until("phase.started")

    assert {"broker", "governor", "store", "brain", "controller", "environment", "muscle"} == roles
    edges = page.ask(f"/api/runs/{run}/topology").value["edges"]
    assert any(edge["messages"] > 0 and "muscle" in edge["to"] for edge in edges)

    assert 202 == page.ask(f"/api/runs/{run}/pause", "POST").status
    stream.until(lambda one: one["kind"] == "status" and one["status"] == "paused")
    before = page.ask(f"/api/runs/{run}/continue", "POST", '{"steps": 1}')
    after = page.ask(f"/api/runs/{run}/continue", "POST", '{"steps": 1}')
    found = [re.search(r"paused after step (\d+) of episode (\d+)", answer.value["text"]) for answer in (before, after)]
    at = [int(one[2]) * LENGTH + int(one[1]) for one in found if one]
    assert at == [at[0], at[0] + 1], (before.text, after.text)

    assert 422 == page.ask(f"/api/runs/{run}/continue", "POST", '{"steps": "one"}').status
    assert 409 == page.ask(f"/api/runs/{run}", "DELETE").status
    assert 202 == page.ask(f"/api/runs/{run}/stop", "POST", '{"now": true}').status
    stream.until(lambda one: one["kind"] == "event" and one["event"] == "run.ended")
    assert 130 == live.end()[0]
    assert "interrupted" == page.ask(f"/api/runs/{run}").value["status"]


def test_a_killed_process_is_told(page: Any, stream: Stream, live: Command) -> None:
    """Who looks on is told that a process is lost, and that another one is in its place."""
    run = live.until("run.started")["run"]
    live.until("phase.started")
    stream.until(lambda one: one["kind"] == "event" and one["run"] == run)  # from now on it is listened to
    shown = stream.until(
        lambda one: (
            one["kind"] == "processes"
            and one["run"] == run
            and any(row["role"] == "muscle" and row["pid"] for row in one["processes"])
        )
    )
    [pid] = [row["pid"] for row in shown["processes"] if row["role"] == "muscle"]
    os.kill(pid, signal.SIGKILL)

    lost = stream.until(lambda one: one["kind"] == "event" and one["event"] == "peer.lost")
    assert "muscle" in lost["fields"]["name"]
    stream.until(
        lambda one: (
            one["kind"] == "processes"
            and any(row["role"] == "muscle" and row["pid"] not in (pid, None) for row in one["processes"])
        )
    )


@pytest.fixture
def server() -> Iterator[Server]:
    """Give a server of PostgreSQL."""
    with served() as running:
        yield running


@pytest.mark.long
def test_a_live_run_in_postgresql_is_seen(server: Server, pages: Any, tmp_path: Path) -> None:
    """Its curve grows, its tables are shown, it stands and ends; while the server is away the page says so by name."""
    (tmp_path / "live.yml").write_text(DOCUMENT)
    store = ("--store", server.uri)
    page = pages(tmp_path, "--port", "0", *store)
    assert [] == page.ask("/api/runs").value["runs"]
    stream = Stream(page)
    live = Command(tmp_path, "run", "live.yml", *store, span_s=170.0)
    run = live.until("run.started")["run"]
    counts = []
    for _ in range(2):
        count = 0
        while count <= sum(counts):
            stream.until(lambda one: one["kind"] == "event" and one["event"] == "episode.ended")
            curves = page.ask(f"/api/runs/{run}/curves").value["curves"]
            count = sum(sum(curve["count"]) for curve in curves)
        counts.append(count)
    assert 202 == page.ask(f"/api/runs/{run}/pause", "POST").status
    stream.until(lambda one: one["kind"] == "status" and one["status"] == "paused")
    [row] = page.ask("/api/runs").value["runs"]
    assert (run, "paused") == (row["run"], row["status"])
    assert row["episodes"] >= counts[1]
    shown = page.ask(f"/api/runs/{run}/results/episodes?limit=2&columns=episode,steps").value
    assert [{"episode": 0, "steps": LENGTH}, {"episode": 1, "steps": LENGTH}] == shown

    assert 202 == page.ask(f"/api/runs/{run}/stop", "POST", '{"now": true}').status
    assert 130 == live.end()[0]
    assert "interrupted" == page.ask(f"/api/runs/{run}").value["status"]
    server.kill()
    told = page.ask("/api/runs?limit=3")
    assert (503, True) == (told.status, "postgresql" in told.value["error"]), told.text
    server.start()
    assert [run] == [row["run"] for row in page.ask("/api/runs?limit=4").value["runs"]]
    stream.close()
    page.close()
