"""The command, how far it is, and searches."""

from __future__ import annotations

import asyncio
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgpack
import pytest

from ganglion.cli.extension import DocumentError, Local, Outcome, RunEvent, Session, Settings, store_class, store_uri
from ganglion.cli.stores import default_uri
from ganglion_sweep.experiment import Experiment
from ganglion_sweep.folder import Folder
from ganglion_sweep.point import Point, points_of
from ganglion_sweep.progress import Mean, Progress, returns_of, table_rows, table_text
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


ROWS = [{"row": 0, "factors": {"length": 3}, "done": 1, "runs": 2, "returns": {"ada": Mean(3.0, None, 1)}}]
FAILED = [{"run": "grid-1-1", "uid": "grid-1", "reason": "it broke", "show": "ganglion a", "repeat": "ganglion b"}]


def shown(read: Read, grid: str, settings: Settings) -> tuple[str, str]:
    """Return what is said on stdout and stderr of one run that goes well and one that fails."""
    out, err = io.StringIO(), io.StringIO()
    progress = Progress(settings, out, err)
    points = points_of(read(grid))
    progress.begin("grid", 7, len(points), len({point.row for point in points}), len(points) - 2, "results/sweeps/grid")
    progress.started(points[2], "grid-2-1")
    progress.ended(points[2], "grid-2-1", "done", Outcome("grid-2-1", "finished", "completed", 0, [], 1.5))
    progress.ended(points[3], "grid-3-1", "failed", Outcome("grid-3-1", "failed", "x", 1, ["it broke", "here"], 2.0))
    progress.event("grid-3-1", RunEvent("waiting", {"text": "waiting 4 s for b"}, 0.0))
    progress.end({"done": 3, "failed": 1, "planned": 0}, ROWS, FAILED)
    return out.getvalue(), err.getvalue()


class _Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_bar(read: Read, grid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a bar shows runs, elapsed time, what is left of it, and how far a run is within an episode."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    out = _Terminal()
    progress = Progress(Settings(), out, io.StringIO())
    points = points_of(read(grid))
    progress.begin("grid", 7, len(points), len({point.row for point in points}), len(points) - 2, "results/sweeps/grid")
    progress.started(points[2], "grid-2-1")
    progress.event("grid-2-1", RunEvent("steps.taken", {"episode": 3, "steps": 40}, 0.0))
    progress.ended(points[3], "grid-3-1", "done", Outcome("grid-3-1", "finished", "completed", 0, [], 1.5))
    progress.end({"done": 3, "failed": 0, "planned": 1}, ROWS, [])
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())

    assert re.search(r"2/4 runs 0:00:0\d ETA .* grid-2-1 episode 3 step 40", text)
    assert re.search(r"3/4 runs 0:00:0\d ETA 0:00:0\d", text)
    assert "3/4  grid-3-1  done in 1.5 s" in text


def test_quiet_says_what_failed_only(read: Read, grid: str) -> None:
    """With -q nothing is written to stdout; failures are told."""
    out, err = shown(read, grid, Settings(verbosity=-1))

    assert "" == out
    assert "grid-3-1: it broke" in err


def test_json_lines(read: Read, grid: str) -> None:
    """With --json each event is an object with stable keys, the table among them."""
    out, _ = shown(read, grid, Settings(json=True))
    events = [json.loads(line) for line in out.splitlines()]

    assert ["sweep.started", "point.started", "point.ended", "point.ended", "sweep.ended"] == [
        e["event"] for e in events
    ]
    assert (4, 4, 2) == tuple(events[0][key] for key in ("runs", "points", "todo"))
    assert {"length": 5, "workers": 1} == events[2]["factors"]
    assert ("failed", ["it broke", "here"]) == (events[3]["state"], events[3]["story"])
    assert {"mean": 3.0, "half": None, "runs": 1} == events[4]["rows"][0]["returns"]["ada"]


class Rows:
    """Answer as a store does, from rows that are given; conditions are those of one phase and mode."""

    def __init__(self, phases: Sequence[dict[str, Any]], returns: Sequence[dict[str, Any]]) -> None:
        self.tables = {"phases": phases, "returns": returns}

    def rows(self, table: str, runs: Sequence[str], where: str | None, columns: Sequence[str]) -> Iterator[Any]:
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
