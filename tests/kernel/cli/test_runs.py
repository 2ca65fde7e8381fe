from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from ganglion.cli.stores import default_uri
from ganglion.wire.messages import RunRequest, Runs

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def runs(write_run: Callable[..., str]) -> None:
    """Write runs of two documents."""
    write_run("demo-1", started="2030-01-01T00:00:00Z")
    write_run("demo-2", started="2031-01-01T00:00:00Z")
    write_run("journal-1", status="failed", reward=2.0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["demo-1", "demo-2", "journal-1"]),
        (["--status", "failed"], ["journal-1"]),
        (["--uid", "demo"], ["demo-1", "demo-2"]),
        (["--limit", "2"], ["demo-2", "journal-1"]),
        (["--limit", "0"], []),
    ],
)
def test_runs_are_listed(ganglion: Command, options: list[str], expected: list[str]) -> None:
    """Runs come in order of start, by status, by uid, the newest of them; as a table and as JSON."""
    assert expected == [row["run"] for row in json.loads(ganglion("runs", *options, "--json")[1])]
    assert expected == [line.split()[0] for line in ganglion("runs", *options)[1].splitlines()[1:]]


def test_a_run_of_which_nothing_was_stored_is_listed(ganglion: Command, tmp_path: Path) -> None:
    """Its folder tells its status: as sealed, else lost; runs of other stores are not listed. It can be removed."""
    own = {"store": default_uri(tmp_path), "uid": "early", "seed": "7", "started": "2030-06-01T00:00:00Z"}
    ended = {"status": "interrupted", "reason": "interrupted: operator", "ended": "2030-06-01T00:00:01Z"}
    for run, more in {"early-1": ended, "early-2": {}, "early-3": {"store": None}}.items():
        (tmp_path / run).mkdir()
        (tmp_path / run / "manifest.json").write_text(json.dumps({"run": run, **own, **more}))
    listed = [(row["run"], row["status"]) for row in json.loads(ganglion("runs", "--json")[1])]
    assert [("early-1", "interrupted"), ("early-2", "lost")] == listed[2:4]  # in order of start

    assert 0 == ganglion("runs", "rm", "early-1", "demo-1", "--yes")[0]
    assert ["journal-1", "early-2", "demo-2"] == [row["run"] for row in json.loads(ganglion("runs", "--json")[1])]


def test_a_difference_is_exit_1(ganglion: Command) -> None:
    """`diff` names the first difference and ends with 1; equal results are exit 0, an unknown run is exit 2."""
    assert (0, "no difference\n", "") == ganglion("runs", "diff", "demo-1", "demo-2")
    assert {"difference": None} == json.loads(ganglion("runs", "diff", "demo-1", "demo-2", "--json")[1])
    status, out, _ = ganglion("runs", "diff", "demo", "journal")
    assert (1, "phases, row 0 (phase 0, mode train): status finished against failed\n") == (status, out)
    assert 2 == ganglion("runs", "diff", "demo", "nonsense")[0]


def test_a_pipe_needs_yes(ganglion: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal nothing is removed unasked."""
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        status, _, err = ganglion("runs", "rm", "demo-1")

    assert (2, True) == (status, "expected --yes" in err)
    assert (tmp_path / "demo-1").is_dir()


def _live(write_run: Callable[..., str], results: Path) -> Path:
    """Write a run that a living kernel carries out; return the connection file of that."""
    write_run("live-1", status="running")
    path = results / "live-1" / "connection.json"
    tokens = dict.fromkeys(("operator_token", "observer_token", "attach_token"), "")
    place = {"version": 1, "pid": os.getpid(), "endpoint": "ipc://x", "tcp": None, "run": "live-1", "results": ""}
    path.write_text(json.dumps({**place, **tokens}))
    path.chmod(0o600)
    return path


class _Operator:
    """Stand for an operator whose kernel has one run, which is paused."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, call: str, request: RunRequest) -> Runs:
        assert ("kernel.runs", "live-1") == (call, request.run)
        return Runs([{"run": "live-1", "status": "paused"}])


def test_a_live_run_has_the_status_that_its_kernel_tells(
    ganglion: Command, write_run: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store knows that it runs; whether it is paused is asked of its kernel."""
    _live(write_run, tmp_path)
    monkeypatch.setattr("ganglion.cli.extension.find_run", lambda *_: _Operator())

    paused = json.loads(ganglion("runs", "--status", "paused", "--json")[1])
    assert [("live-1", "paused")] == [(row["run"], row["status"]) for row in paused]
    assert [] == json.loads(ganglion("runs", "--status", "running", "--json")[1])


def test_a_live_run_is_not_removed(ganglion: Command, write_run: Callable[..., str], tmp_path: Path) -> None:
    """A run that a living kernel carries out is refused; one that nobody carries out any more is not."""
    path = _live(write_run, tmp_path)
    status, _, err = ganglion("runs", "rm", "live-1", "--yes")
    assert (2, True) == (status, "run live-1 is running" in err)

    path.unlink()
    assert 0 == ganglion("runs", "rm", "live-1", "--yes")[0]


def test_an_id_that_leads_elsewhere_removes_no_folder(
    ganglion: Command, write_run: Callable[..., str], tmp_path: Path
) -> None:
    """A run whose id is no plain name of a folder loses its rows, never a folder outside the results."""
    write_run("sub/../../escape-1")
    outside = (tmp_path / "sub/../../escape-1").resolve()
    assert outside.is_dir()
    status, _, err = ganglion("runs", "rm", "sub/../../escape-1", "--yes")

    assert (2, True) == (status, "its folder was left alone" in err)
    assert outside.is_dir()
