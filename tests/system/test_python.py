"""Runs from Python programs and notebooks, by real processes."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from system.farm import dummies

import ganglion

pytestmark = [pytest.mark.long, pytest.mark.skipif(sys.platform != "linux", reason="processes are those of Linux")]
NOTEBOOK = Path(__file__).parents[2] / "plugins" / "ganglion-python" / "runs-and-results.ipynb"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")


def test_a_run_ends_and_its_results_are_frames() -> None:
    """A run is waited for; its status, episodes and models are there; the same again is the same."""
    runs = [ganglion.run("demo", schedule__train__phase_config__episodes=3, seed=7) for _ in range(2)]
    frames = [run.results.actions(wide=True).to_pandas().drop(columns=["run"]) for run in runs]

    assert [("demo-1", "finished", 0), ("demo-2", "finished", 0)] == [(r.id, r.status, r.exit_status) for r in runs]
    assert [6, 6] == [run.results.episodes().count() for run in runs]
    assert frames[0].equals(frames[1])
    assert 12 == ganglion.results().episodes("demo-1", "demo-2").count()
    assert {"demo-1", "demo-2"} == set(ganglion.results().returns().to_pandas()["run"])
    assert all(array.size for array in runs[0].results.brain(agent="scout", phase=0).values())


def test_a_run_is_held_and_moved_where_a_loop_runs() -> None:
    """Pause, steps, a signal, and the end, from within a coroutine, by the run itself and through its kernel."""
    document = dummies("endless", 1_000_000)

    async def play() -> None:
        run = ganglion.run(document, wait=False)
        next(event for event in run.events() if event["event"] == "episode.ended")
        assert "is paused after step" in run.pause()
        assert "paused" == run.status
        other = ganglion.connect().run("endless")
        assert "is paused after step" in other.unpause(steps=2)
        other.unpause()
        assert run.signal("reset")
        assert "running" == other.status
        run.stop()
        assert ("interrupted", 130) == (run.wait().status, run.exit_status)
        assert "interrupted" == other.wait(60.0).status

    asyncio.run(play())


def test_a_cancelled_task_interrupts_its_run() -> None:
    """The twin for loops awaits the end; who cancels the waiting task has pressed Ctrl-C."""

    async def play() -> tuple[str, int]:
        run = await ganglion.arun(dummies("endless", 1_000_000), wait=False)
        async for event in run.events():
            if event["event"] == "phase.started":
                break
        waiting = asyncio.create_task(run.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return (await run.wait()).status, run.exit_status

    assert ("interrupted", 130) == asyncio.run(play())


def test_one_interruption_ends_the_run_in_order() -> None:
    """SIGINT while a program waits is one Ctrl-C of the run, which comes back as interrupted."""
    begun = threading.Timer(0.0, lambda: None)

    def interrupt() -> None:
        until_s = time.monotonic() + 60.0
        while not list(Path("results").glob("*/logs/governor.jsonl")) and time.monotonic() < until_s:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    begun.function = interrupt
    begun.start()
    run = ganglion.run(dummies("endless", 1_000_000))

    assert ("interrupted", 130) == (run.status, run.exit_status)


def test_a_failure_raises_only_where_it_is_asked_for() -> None:
    """A run that fails comes back as failed; with `check` it is an error that has its story."""
    Path("gone.py").write_text("import sys; sys.exit(3)")
    document = dummies("short", 3).replace("{uid: field, name: dummy}", "{uid: field, command: [python3, gone.py]}")
    assert document != dummies("short", 3)
    run = ganglion.run(document)

    assert ("failed", 1) == (run.status, run.exit_status)
    with pytest.raises(ganglion.errors.GanglionError, match=r"failed: .*exit status 3"):
        ganglion.run(document, check=True)


def test_no_run_outlives_its_program() -> None:
    """A program that is killed while its run goes on leaves an interrupted run, and no process."""
    Path("endless.yml").write_text(dummies("endless", 1_000_000))
    text = "import ganglion; run = ganglion.run('endless.yml', wait=False)\n"
    text += "next(event for event in run.events() if event['event'] == 'episode.ended')\n"
    text += "print(run.id, flush=True); run.wait()"
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert "endless-1\n" == program.stdout.readline()
        kernel = ganglion.connect()
        run = kernel.run("endless")
        program.kill()
    assert run.ended(60.0)

    assert ["interrupted"] == [row["status"] for row in ganglion.results().runs()]


def test_the_notebook_runs(tmp_path: Path) -> None:
    """The notebook that explains all this can be executed as it is, and was saved with what it printed."""
    for name in ("nbformat", "nbclient", "ipykernel"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}: pip install nbclient ipykernel")
    code = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in code if not "".join(cell["source"]).startswith("import"))
    text = "import nbclient, nbformat, sys\nbook = nbformat.read(sys.argv[1], as_version=4)\n"
    text += "nbclient.NotebookClient(book, timeout=600).execute()"  # raises where a cell does
    done = subprocess.run([sys.executable, "-c", text, str(NOTEBOOK)], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
