from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion.cli.extension import DocumentError, Local, Session, Settings, store_class, store_uri
from ganglion_sweep.experiment import Experiment
from ganglion_sweep.folder import Folder
from ganglion_sweep.point import points_of
from ganglion_sweep.progress import Progress
from ganglion_sweep.runner import Runner

Ganglion = Callable[..., subprocess.CompletedProcess[str]]

TINY = """
uid: tiny
seed: 3
version: "0.1"
run: base.yml
factors:
  length: {set: schedule.train.environments.net.params.max_iter, levels: [3, 5]}
repetitions: 2
"""
BASE = """
schedule:
  - train:
      environments: [{environment: {uid: net, name: dummy, params: {max_iter: 4}}}]
      agents: [{name: ada, muscle: dummy, brain: dummy, objective: dummy, sensors: [net.0], actuators: [net.0]}]
      phase_config: {mode: train, episodes: 1}
run_config: {condition: vanilla}
"""


def write(folder: Path, text: str = TINY, base: str = BASE) -> None:
    """Write an experiment and its run document."""
    (folder / "tiny.yml").write_text(text)
    (folder / "base.yml").write_text(base)


def table(folder: Path, name: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of a table of the store."""
    uri = f"sqlite:///{folder}/results/ganglion.db"
    with store_class(uri).reader(uri) as reader:
        return [tuple(row.values()) for row in reader.rows(name, columns=list(columns))]


def test_plan_writes_and_starts_nothing(ganglion: Ganglion, tmp_path: Path) -> None:
    """--plan leaves documents and design, twice the same, and no store; a changed document is refused."""
    write(tmp_path)
    first, again = ganglion("sweep", "tiny.yml", "--plan"), ganglion("sweep", "tiny.yml", "--plan")

    assert (0, 0, first.stdout) == (first.returncode, again.returncode, again.stdout)
    assert 5 == len(first.stdout.splitlines())
    assert all((tmp_path / line).is_file() for line in first.stdout.splitlines())
    assert not (tmp_path / "results" / "ganglion.db").exists()
    changed = ganglion("sweep", "tiny.yml", "--plan", "--set", "seed=4")
    assert 2 == changed.returncode
    assert "tiny_run-0.yml is there with another content (and 4 more files)" in changed.stderr


def test_faults_start_nothing(ganglion: Ganglion, tmp_path: Path) -> None:
    """A faulty document is exit 2 with file, line and column; nothing is made."""
    write(tmp_path, TINY.replace("max_iter,", "max_iter, level: 1,"))
    done = ganglion("sweep", "tiny.yml")

    assert 2 == done.returncode
    assert "tiny.yml:7:66: factors.length.level: unknown key; did you mean `levels`?" in done.stderr
    assert not (tmp_path / "results").exists()
    assert 2 == ganglion("sweep", "nowhere.yml").returncode


def test_states_need_a_store(ganglion: Ganglion, tmp_path: Path) -> None:
    """Without a store nothing would be known of what is done: refused."""
    write(tmp_path)

    assert "found --store none" in ganglion("sweep", "tiny.yml", "--store", "none").stderr


def _kill_after(words: list[str], folder: Path, lines: int, number: int) -> int:
    """Start a sweep, send it a signal after some runs have ended; return its exit status."""
    program = str(Path(sys.executable).with_name("ganglion"))
    with subprocess.Popen([program, *words], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines -= '"point.ended"' in line
            if lines == 0:
                os.kill(process.pid, number)
                break
        process.stdout.read()
        return process.wait(60)


@pytest.mark.long
@pytest.mark.parametrize(("number", "status"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
@pytest.mark.parametrize("lines", [1, 3])
def test_interrupted_and_resumed(ganglion: Ganglion, tmp_path: Path, number: int, status: int, lines: int) -> None:
    """A sweep that is killed or interrupted midway and resumed carries out each point exactly once."""
    write(tmp_path, TINY.replace("repetitions: 2", "repetitions: 3"), BASE.replace("episodes: 1", "episodes: 40"))
    assert status == _kill_after(["sweep", "tiny.yml", "--json"], tmp_path, lines, number)
    before = {row[0]: row[1:] for row in table(tmp_path, "points", "point", "state", "run")}
    done = ganglion("sweep", "tiny.yml", "--resume", "--json")

    assert 0 == done.returncode, done.stderr
    after = {row[0]: row[1:] for row in table(tmp_path, "points", "point", "state", "run")}
    assert ["done"] * 6 == [state for state, _ in after.values()]
    assert all(after[point] == found for point, found in before.items() if found[0] == "done")
    finished = Counter(uid for uid, status in table(tmp_path, "runs", "uid", "status") if status == "finished")
    assert {f"tiny-{n}": 1 for n in range(6)} == finished
    assert {row[0] for row in table(tmp_path, "runs", "status")} <= {"finished", "interrupted", "lost"}


Read = Callable[..., Experiment]


def test_points_are_carried_out_and_noted(read: Read, grid: str, tmp_path: Path) -> None:
    """Real runs: each point ends as done, with its run; one that fails stops no other; nothing is left behind."""
    settings = Settings(results=tmp_path, verbosity=-1)
    text = grid.replace("muscle: dummy", "muscle: {name: 'brittle:Brittle'}").replace(
        "phase_config.worker, levels: [1, 2]", "agents.ada.muscle.params.breaks, levels: [false, true]"
    )
    (tmp_path / "brittle.py").write_text(
        "from ganglion.sdk import Muscle\n"
        "class Brittle(Muscle):\n"
        "    def __init__(self, breaks):\n"
        "        super().__init__()\n"
        "        self.breaks = breaks\n"
        "    def propose_actions(self, sensors, actuators):\n"
        "        if self.breaks:\n"
        "            raise RuntimeError('it broke')\n"
        "        for actuator in actuators:\n"
        "            actuator(actuator.space.sample())\n"
        "        return actuators\n"
    )
    points = points_of(read(text))[1:3]
    runner = Runner(settings, Folder(tmp_path, "grid"), Progress(settings), parallel=2, stop_on_failure=False)
    uri = store_uri(settings)
    with store_class(uri).point_book(uri, "grid") as book:
        book.plan([point.record() for point in points])

        async def main() -> Session:
            async with runner.session(points, Local()) as session:
                assert not [f for f in await runner.check(session, points) if f.severity == "error"]
                await runner.carry_out(session, book, points)
            return session

        session = asyncio.run(main())
        found = [(row["point"], row["state"], row["run"]) for row in book.points()]
    assert [(1, "failed", "grid-1-1"), (2, "done", "grid-2-1")] == found
    assert [] == session.found
    assert not runner.interrupted


def test_what_only_plugins_know_is_a_fault_of_the_experiment(read: Read, grid: str, tmp_path: Path) -> None:
    """A parameter that a constructor does not take is told at its place in the experiment document, once."""
    settings = Settings(results=tmp_path, verbosity=-1)
    points = points_of(read(grid.replace("params.max_iter", "params.max_inter") + "repetitions: 2\n"))
    runner = Runner(settings, Folder(tmp_path, "grid"), Progress(settings), parallel=1, stop_on_failure=False)

    async def main() -> None:
        async with runner.session(points, Local()) as session:
            await runner.check(session, points)

    with pytest.raises(DocumentError, match="max_inter") as error:
        asyncio.run(main())
    assert [str(tmp_path / "e.yml")] == [fault.file for fault in error.value.faults]
