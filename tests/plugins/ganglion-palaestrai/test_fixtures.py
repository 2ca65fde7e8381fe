"""The documents that palaestrAI tests itself with, theirs and ours side by side: a table of what came of each.

They are fetched from the package index, with the classes of their folder. `python test_fixtures.py` prints the table.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("palaestrai", reason="palaestrAI is not installed: scripts/setup --with palaestrai")
pytestmark = pytest.mark.long

BIN = Path(sys.executable).parent
VERSION = "3.5.18"
SPAN_S = 300.0
QUERY = """
select p.number, a.name, count(*), count(distinct m.rollout_worker_uid || '/' || m.episode), sum(m.objective)
from muscle_actions m join agents a on a.id = m.agent_id
join experiment_run_phases p on p.id = a.experiment_run_phase_id
where p.mode is null or lower(p.mode) <> 'evaluate'
group by p.number, a.name order by p.number, a.name
"""
# Those whose rows have been found equal, side by side.
EQUAL = ("dummy_run", "dummy_run-agent_performance_tc-envstop", "dummy_run_multiworker", "dummy_run_taking_turns")
# Document -> exit status here, and what each agent of each phase comes to, as PHASE.DECISIONS/EPISODES:OBJECTIVES, or a
# part of what is said. Where palaestrAI's system tests look at a document, it is what they ask for, but for the second
# one. In the order in which they need each other's models.
HERE = {
    "dummy_run": (0, "0.10/1:45 0.10/1:45 1.10/1:45 1.10/1:45"),
    # There it has 14 decisions, in each worker 6 and 1: one that ends an episode counts twice, and the window of the
    # condition reaches back into the episode before. Here it has 5 and 5.
    "dummy_run_agent_performance_tc": (0, "0.20/4:60"),
    "dummy_run-agent_performance_tc-envstop": (0, "0.50/10:100"),
    "dummy_run-phases_modes": (0, "0.50/5:225 1.10/1:45"),
    "dummy_run_evaluation_objective_tc": (0, "0.4/2:2"),
    "dummy_run_multi-train-phase_eval": (0, "0.10/1:45 1.10/1:45"),
    "dummy_run_multiworker": (0, "0.40/4:180"),
    "dummy_run_multiworker_eval": (0, "0.40/4:180"),
    "dummy_run_otel": (0, "0.10/1:45"),
    "dummy_run_sensor_order": (0, "0.10/1:45 0.10/1:45 1.5/1:20 1.5/1:25"),
    "dummy_run_taking_turns": (0, "0.10/2:50 0.10/2:40 1.10/2:50 1.10/2:40 2.5/1:25 2.5/1:20"),
    "dummy_run_tt_multiworker": (0, "0.30/6:120 0.30/6:150 1.5/1:20 1.5/1:25"),
    "dummy_run_with_state_transformer": (0, "0.10/1:45 0.10/1:45 1.10/1:45 1.10/1:45"),
    "dummy_replay_run": (0, "0.10/1:45 1.10/1:45 2.10/1:45"),
    "end_to_end_test_run": (0, "0.10/1:1505 0.10/1:1505"),
    "test_raw_actuators": (0, "0.20/2:90"),
    "three_phases_four_agents_run": (0, "0.50/5:225 1.10/2:40 1.10/2:50 2.6/3:36 2.6/3:30 2.9/3:24 2.9/3:45"),
    "crashing_env_dummy_run": (1, "RuntimeError: Mwaaaahhhrgh!!"),
    # These name classes that palaestrai-agents has no longer.
    "tictactoe_run": (2, "No module named 'harl.dqn'"),
    "gym-td3-mcc_run": (2, "module 'harl' has no attribute 'TD3Muscle'"),
    "tictactoe-sac_experiment_run": (0, "/4:"),
    "action_time_shift_filter_test": (0, "0.200/1:"),
}


@dataclass
class Outcome:
    """What a document came to: exit status, seconds, and (phase, agent) -> decisions, episodes, sum of objectives."""

    status: int
    took_s: float
    rows: dict[tuple[int, str], tuple[int, int, float]] = field(default_factory=dict)
    said: str = ""

    def __str__(self) -> str:
        if not self.rows:
            return f"exit {self.status}: {self.said}"
        cells = [f"{phase}.{n}/{e}:{value:g}" for (phase, _), (n, e, value) in self.rows.items()]
        return f"{' '.join(cells)} ({self.took_s:.0f} s)"


def fetched(folder: Path) -> Path:
    """Return the folder `tests` of palaestrAI's source distribution, fetched by name."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
    subprocess.run([*pip, "-d", str(folder), f"palaestrai=={VERSION}"], check=True, timeout=300, capture_output=True)
    (archive,) = folder.glob("palaestrai-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return archive.with_name(archive.name.removesuffix(".tar.gz")) / "tests"


def documents(tests: Path) -> list[Path]:
    """Return the run documents that need no package beside palaestrai, -environments and -agents."""
    others = re.compile(r"palaestrai_mosaik|midas|^user_id", re.MULTILINE)
    return [it for it in sorted((tests / "fixtures").glob("*.yml")) if not others.search(it.read_text())]


def _run(command: list[str], tests: Path, folder: Path) -> tuple[int, float, str]:
    began_s = time.monotonic()
    variables = {**os.environ, "PYTHONPATH": str(tests)}
    with (folder / "out.txt").open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out, env=variables, start_new_session=True)
        try:
            status = process.wait(timeout=SPAN_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)  # theirs may hang
            status = process.wait()
    lines = (folder / "out.txt").read_text(errors="replace").strip().splitlines() or [""]
    return status, time.monotonic() - began_s, lines[-1][:100]


def ours(document: Path, tests: Path, folder: Path) -> Outcome:
    """Return what a document comes to here; all share one folder of results, since some load models of others."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--allow", "fixtures", "--set", "cascade=replace"]  # phases inherit as they do there
    outcome = Outcome(*_run([str(BIN / "ganglion"), "run", *options, str(document)], tests, folder)[:2])
    outcome.said = (folder / "out.txt").read_text(errors="replace")[-300:]
    if outcome.status == 2:
        return outcome
    told = [str(BIN / "ganglion"), "results", "actions", "last", "--format", "json"]
    found = subprocess.run(told, cwd=folder, capture_output=True, text=True, check=True)
    grouped: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for row in json.loads(found.stdout):
        if row["mode"] != "evaluate":
            grouped.setdefault((row["phase"], row["agent"]), []).append(row)
    for key, rows in sorted(grouped.items()):
        episodes = {(row["worker"], row["episode"]) for row in rows}
        outcome.rows[key] = (len(rows), len(episodes), sum(row["objective"] or 0.0 for row in rows))
    return outcome


def theirs(document: Path, tests: Path, folder: Path) -> Outcome:
    """Return what a document comes to there."""
    folder.mkdir(parents=True)
    config, store = folder / "palaestrai.yml", folder / "palaestrai.db"
    config.write_text(f"store_uri: sqlite:///{store}\nbroker_uri: ipc://*\nlogger_port: 0\n")
    command = [str(BIN / "palaestrai"), "-c", str(config)]
    _run([*command, "database-create"], tests, folder)
    status, took_s, said = _run([*command, "experiment-start", str(document)], tests, folder)
    outcome = Outcome(status, took_s, said=said)
    with sqlite3.connect(store) as database:
        for phase, agent, count, episodes, value in database.execute(QUERY):
            outcome.rows[phase, agent] = (count, episodes, float(value or 0.0))
    return outcome


def table(tests: Path, folder: Path, names: list[str]) -> Iterator[tuple[str, Outcome, Outcome]]:
    """Yield name, theirs, ours of each document, one after the other."""
    for document in documents(tests):
        if not names or document.stem in names:
            other = theirs(document, tests, folder / document.stem / "theirs")
            yield document.stem, other, ours(document, tests, folder / "ours")


@pytest.fixture(scope="module")
def tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return palaestrAI's own folder of tests."""
    return fetched(tmp_path_factory.mktemp("palaestrai"))


@pytest.mark.parametrize("name", EQUAL)
def test_documents_come_out_as_theirs(tests: Path, tmp_path: Path, name: str) -> None:
    """Each agent of each phase makes as many decisions in as many episodes, with the same sum of objectives."""
    ((_, other, own),) = table(tests, tmp_path, [name])

    assert own.status == 0, own.said
    assert own.rows == other.rows


def test_all_documents_come_out_as_their_system_tests_say(tests: Path, tmp_path: Path) -> None:
    """Each document has the decisions, episodes and objectives, or the failure, that the table above has for it."""
    found = {name: ours(tests / "fixtures" / f"{name}.yml", tests, tmp_path) for name in HERE}

    status = {name: it.status for name, it in found.items()}
    assert status == {name: status for name, (status, _) in HERE.items()}
    assert {name: str(it) for name, it in found.items() if HERE[name][1] not in str(it)} == {}


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    given = next(iter(place.glob("palaestrai-*/tests")), None) or fetched(place)
    for name, other, own in table(given, place / "runs", sys.argv[2:]):
        sys.stdout.write(f"{name}\n    theirs {other}\n    ours   {own}\n")
