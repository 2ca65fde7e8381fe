from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ganglion.cli.run import Options, load
from ganglion.cli.session import processors
from ganglion.errors import DocumentError, UsageError

GANGLION = str(Path(sys.executable).with_name("ganglion"))
FAULTY = "uid: x\nsead: 4\n"


def test_faults_of_all_documents_come_together(tmp_path: Path) -> None:
    """Each faulty document adds its faults; nothing is run, not even the good one."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.yml").write_text(FAULTY)
    with pytest.raises(DocumentError) as error:
        load([str(tmp_path / "a.yml"), str(tmp_path / "b.yml")], Options())

    files = {Path(fault.file).name for fault in error.value.faults}
    assert {"a.yml", "b.yml"} == files


def test_faults_of_plugins_show_their_line(ganglion: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """What only a class can tell is shown at the line of the document that names it; no run is begun."""
    document = str(Path(__file__).parents[2] / "documents" / "dummy.yml")
    wrong = ["--set", "schedule.train.environments.myenv.params={max_inter: 3}"]
    status, _, err = ganglion("run", "--store", "none", *wrong, document)

    assert (2, []) == (status, list(tmp_path.iterdir()))
    assert f"{document}:" in err
    assert "max_inter" in err


@pytest.mark.parametrize(("uri", "expected"), [("/tmp/x.db", "expected a store URI"), ("nothing://x", "`nothing`")])
def test_a_store_that_nothing_can_open_is_refused_at_once(
    ganglion: Callable[..., tuple[int, str, str]], tmp_path: Path, uri: str, expected: str
) -> None:
    """What `--store` names is looked at before anything starts."""
    status, _, err = ganglion("run", "--store", uri)

    assert (2, []) == (status, list(tmp_path.iterdir()))
    assert expected in err


def test_run_imports_no_arrays_and_no_plugin(tmp_path: Path) -> None:
    """The process of `ganglion run` holds neither numpy nor a store, whatever its participants import."""
    script = (
        "import sys\nfrom ganglion.cli.main import main\nstatus = main(sys.argv[1:])\n"
        "print(sorted({'numpy', 'sqlalchemy', 'rich', 'zmq', 'structlog'} & set(sys.modules)), status)"
    )
    words = ["run", "--store", "none", "--quiet", "--set", "schedule.train.phase_config.episodes=1"]
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, cwd=tmp_path, check=False, timeout=60
    )

    assert done.stdout.splitlines()[-1] == "[] 0", done.stdout + done.stderr


def test_plan_is_printed_both_ways(ganglion: Callable[..., tuple[int, str, str]]) -> None:
    """`--plan` prints phases and processes with their seeds and starts nothing, as text and as one JSON value."""
    document = str(Path(__file__).parents[2] / "documents" / "dummy.yml")
    status, shown, _ = ganglion("run", "--plan", "--seed", "42", document)
    head, phase, ours, *more = shown.splitlines()
    assert (0, f"dummy · seed 42 · {document}", "  broker, governor, store") == (status, head, ours)
    assert phase.startswith("phase 0 train: train, lockstep, 1 worker, episodes ")

    [plan] = json.loads(ganglion("run", "--plan", "--seed", "42", "--json", document)[1])
    rows = plan["phases"][0]["processes"]
    processes = more[: len(rows)]
    assert {"controller", "environment", "muscle", "brain"} == {row["role"] for row in rows}
    assert [[row["name"], "seed", row["seed"]] for row in rows] == [line.split()[:3] for line in processes]
    assert all(line.endswith(row["starts"]) for row, line in zip(rows, processes, strict=True))
    assert ["dummy", "42", len(rows)] == [plan["uid"], plan["seed"], len({row["seed"] for row in rows})]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected auto, free or a list of processors"),
        ("zero", "expected auto, free or a list of processors"),
        ("0-", "expected auto, free or a list of processors"),
        ("0-999999999999", "expected processors up to 3, found 999999999999"),
        ("1", r"expected some of \[0, 3\], found 1"),
        ("3-0", r"expected some of \[0, 3\], found '3-0'"),
    ],
)
def test_others_are_refused(text: str, sentence: str) -> None:
    """A list has numbers and ranges, both ends included; others, and a processor that is not there, are refused."""
    assert [{0}, {0, 2}, {0, 2, 3}] == [processors(good, {0, 1, 2, 3}) for good in ("0", "0,2", "0,2-3")]
    with pytest.raises(UsageError, match=sentence):
        processors(text, {0, 3})


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system keeps no process anywhere")
def test_a_run_is_kept_on_its_processors(tmp_path: Path) -> None:
    """Author's code runs on the processors of the option only; a wrong one starts nothing."""
    last = max(os.sched_getaffinity(0))
    (tmp_path / "shy.py").write_text(
        "import os\nfrom ganglion.sdk import Muscle\n"
        "class Shy(Muscle):\n"
        "    def propose_actions(self, sensors, actuators_available):\n"
        "        raise RuntimeError(f'kept on {sorted(os.sched_getaffinity(0))}')\n"
    )
    (tmp_path / "shy.yml").write_text(
        "uid: shy\nseed: 1\nversion: '0.1'\nschedule:\n  - test:\n"
        "      environments: [{environment: {uid: rod, name: pendulum}}]\n"
        "      agents: [{name: a, muscle: 'shy:Shy', sensors: ['rod.*'], actuators: ['rod.*']}]\n"
        "      phase_config: {mode: test, episodes: 1}\nrun_config: {condition: vanilla}\n"
    )
    command = [GANGLION, "run", "-q", "--store", "none", "shy.yml"]
    kept = subprocess.run([*command, "--cpus", str(last)], cwd=tmp_path, capture_output=True, text=True)
    wrong = subprocess.run([*command, "--cpus", "9999"], cwd=tmp_path, capture_output=True, text=True)

    assert f"kept on [{last}]" in kept.stderr
    assert (2, f"ganglion: cpus: expected processors up to {last}, found 9999\n") == (wrong.returncode, wrong.stderr)
