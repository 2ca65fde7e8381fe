from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

from ganglion.cli.stores import default_uri, store_class
from ganglion_sweep.point import Point

needs_optuna = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="needs Optuna: pip install 'ganglion-sweep[optuna]'"
)
FACTORS = """
factors:
  length: {set: schedule.train.environments."net.1".params.max_iter, range: {low: 2, high: 60, int: true}}
  workers: {set: schedule.train.phase_config.worker, levels: [1, 2]}
"""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("search: {objective: return.ada, trials: 3}", "a search needs factors, found none"),
        (f"{FACTORS}search: {{trials: 3}}", "missing key `objective`"),
        (f"{FACTORS}search: {{objective: length, trials: 3}}", "expected `return.<agent>`"),
        (
            f"{FACTORS}design: lhs\nsearch: {{objective: return.ada, trials: 3}}",
            "`design` has no place beside `search`",
        ),
        (
            f"{FACTORS}repetitions: 2\nsearch: {{objective: return.ada, trials: 3, pruner: median}}",
            "each run is cut on its own",
        ),
        (f"{FACTORS}search: {{objective: return.ada, trials: 3, sampler: tpa}}", "tpa"),
    ],
)
def test_faults_of_a_search_have_their_place(
    head: str, faults: Callable[..., list[str]], text: str, fault: str
) -> None:
    """What a search lacks, and what has no place beside it, is told with line and column."""
    assert any(fault in line for line in faults(f"{head}{text}\n"))


def play(results: Path, points: list[Point], returns: Callable[[Point], list[float]]) -> dict[int, dict[str, Any]]:
    """Store a run of one episode per return for each point; return the rows of the points."""
    uri, pack = default_uri(results), msgpack.packb
    for point in points:
        about = {"uid": point.uid, "experiment": "e", "seed": "1", "started": "2030-01-01T00:00:00Z"}
        records: list[Any] = [["run", about]]
        for place in (("net", None), (None, "ada")):
            for kind in ("sensor", "actuator", "reward"):
                records.append(["declare", 0, *place, kind, [["net.a", "Box", None, "<f8", []]]])
        records.append(["phase", 0, "train", "train", "finished", None])
        for episode, value in enumerate(returns(point)):
            for worker in range(point.factors["workers"]):
                row = [0, 0, 0, pack([0.5]), pack([1.0]), None, pack([value]), None, True, False, None]
                records.append(["actions", 0, "train", worker, "ada", episode, [row]])
                records.append(["episode", 0, "train", worker, None, episode, 1, True, False, "environment", episode])
        with store_class(uri).writer(uri, point.uid) as writer:
            writer.apply("c", records)
    return {point.number: {"state": "done", "run": point.uid, "reason": "completed"} for point in points}


def good(point: Point) -> list[float]:
    """Return what is better the nearer the length is to 20."""
    return [float(-abs(point.factors["length"] - 20) * (episode + 1)) for episode in range(4)]


@pytest.mark.long
@needs_optuna
@pytest.mark.parametrize("pruner", ["", ", pruner: median"])
def test_points_follow_from_the_document_alone(
    head: str, read: Callable[..., Any], tmp_path: Path, pruner: str
) -> None:
    """A command that goes on, and an order in which runs end, change no point; bad trials are cut, and told so."""
    from ganglion_sweep.search import Search

    form = f"search: {{objective: return.ada, trials: 14, startup: 4, batch: 2{pruner}}}\n"
    experiment = read(f"{head}{FACTORS}{form}")
    found = []
    for name, again in (("a", False), ("b", True)):
        folder = tmp_path / name
        folder.mkdir()
        uri = default_uri(folder)
        store_class(uri).point_book(uri, "grid").close()
        search = Search(experiment, uri)
        while points := search.batch():
            rows = play(folder, points[::-1] if again else points, good)
            with store_class(uri).reader(uri) as reader:
                if again:  # as by a command that was killed before it could tell: points are the same ones
                    search = Search(experiment, uri)
                    assert [point.digest for point in points] == [point.digest for point in search.batch()]
                search.tell(rows, reader)
        states = [trial.state.name for trial in search._frozen()]
        found.append(([point.digest for point in search.known()], states, search.best()))

    assert found[0] == found[1]
    assert 14 == len(found[0][0])
    assert bool(pruner) == ("PRUNED" in found[0][1])
    assert {"COMPLETE", "PRUNED"} >= {*found[0][1]}


@pytest.mark.long
@needs_optuna
def test_a_killed_search_goes_on(tmp_path: Path, head: str) -> None:
    """Its command is killed in mid-run; what comes out behind `--resume` is what an undisturbed one finds."""
    form = "search: {objective: return.ada, trials: 4, startup: 2, batch: 2}\n"
    (tmp_path / "s.yml").write_text(f"{head}{FACTORS}{form}")
    program = str(Path(sys.executable).with_name("ganglion"))

    def sweep(results: str, *more: str) -> subprocess.CompletedProcess[str]:
        words = [program, "--results", results, "sweep", "s.yml", *more]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)

    calm = sweep("calm", "--parallel", "1")
    assert 0 == calm.returncode, calm.stdout + calm.stderr
    words = [program, "--results", "stormy", "sweep", "s.yml"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if line.startswith("1/4"))
        os.kill(process.pid, signal.SIGKILL)
    assert 2 == sweep("stormy").returncode
    stormy = sweep("stormy", "--resume")
    assert 0 == stormy.returncode, stormy.stdout + stormy.stderr

    def table(done: Any) -> list[str]:
        rows = done.stdout.partition("\nrow ")[2].splitlines()[1:]
        return [re.sub(r"\s+", " ", row) for row in rows if row[:1].isdigit() and "/" in row]

    assert table(calm) == table(stormy)
    assert 4 == len(table(calm))
    assert [line for line in calm.stderr.splitlines() if "best" in line]
