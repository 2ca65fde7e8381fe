"""A store with small runs, written through the plugin that is installed; a command line to read it with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

from ganglion.cli.main import main
from ganglion.cli.stores import default_uri, store_class

pack = msgpack.packb


def _write_run(
    results: Path, run: str, status: str = "finished", steps: int = 3, reward: float = 1.0, **more: Any
) -> str:
    """Write a run of one episode, and its folder; return the URI of the store."""
    uri = default_uri(results)
    (results / run / "logs").mkdir(parents=True)
    started = more.get("started", "2030-01-01T00:00:00Z")
    records: list[Any] = [["run", {"uid": run.rpartition("-")[0], "experiment": "e", "seed": "1", "started": started}]]
    for place in (("grid", None), (None, "ada")):
        for kind, name in (("sensor", "grid.a"), ("actuator", "grid.x"), ("reward", "grid.r")):
            records.append(["declare", 0, *place, kind, [[name, "Box", None, "<f8", []]]])
    records.append(["phase", 0, "first", "train", status, None])
    rows = [[n, n, n, None, pack([0.5]), pack([n]), pack([reward]), False, False] for n in range(1, steps + 1)]
    records.append(["steps", 0, "train", 0, "grid", 0, rows])
    records.append(["episode", 0, "train", 0, None, 0, steps, True, False, "environment", 0])
    if more.get("brains", True):
        records.append(["brain", 0, "ada", "last", 0, 3, more.get("created", started), 10, "00ff", f"{run}/brain.npz"])
    if status != "running":
        records.append(["end", status, "done", started])
    with store_class(uri).writer(uri, run) as writer:
        writer.apply("governor", records)
    return uri


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., str]:
    """Return what writes a run of one episode into the results folder `tmp_path`: `write_run("demo-1", ...)`."""
    return lambda run, **more: _write_run(tmp_path, run, **more)


@pytest.fixture
def ganglion(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return what carries out a command on the results folder `tmp_path`: exit status, stdout, stderr."""
    for name in ("GANGLION_RESULTS", "GANGLION_STORE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["--results", str(tmp_path), *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run
