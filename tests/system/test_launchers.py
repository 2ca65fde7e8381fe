from __future__ import annotations

from pathlib import Path

import pytest
from system.command import ganglion
from system.results import table

PLAIN = '''
import asyncio, os
from ganglion.sdk import Launched, Launcher

class Plain(Launcher):
    """Start each process by exec, as an engine of another machine would; it sees no stops, and places nothing."""

    shares_files = True

    async def start(self, spec, watch):
        print(spec.role, spec.worker, file=open(os.environ["STARTED"], "a"))
        variables, pipe = {**os.environ, **spec.variables}, asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *spec.command, env=variables, cwd=spec.cwd, stdout=pipe, stderr=pipe, start_new_session=True
        )
        self.tasks = [*getattr(self, "tasks", []), asyncio.ensure_future(self._watch(process, watch))]
        return Started(process)

    async def _watch(self, process, watch):
        for stream in (process.stdout, process.stderr):
            watch.printed(await stream.read())
        watch.exited(await process.wait())

    async def close(self):
        await asyncio.gather(*self.tasks)
        return []

class Started(Launched):
    host = "elsewhere"

    def __init__(self, process):
        self.process = process

    def signal(self, signum):
        if self.process.returncode is None:
            self.process.send_signal(signum)
'''
DOCUMENT = """
uid: farm
seed: 5
version: "0.1"
run_config: {condition: vanilla}
schedule:
  - first:
      environments: [environment: {uid: hut, name: counting}]
      agents: [{name: ada, muscle: dummy, brain: dummy, sensors: ["hut.*"], actuators: ["hut.*"]}]
      phase_config: {mode: train, worker: 2, episodes: 4}
"""


@pytest.fixture
def plain(tmp_path: Path) -> dict[str, str]:
    """Return variables with which a distribution is installed that offers the launcher `plain`."""
    (tmp_path / "site" / "plain-1.0.dist-info").mkdir(parents=True)
    (tmp_path / "site" / "plain_launcher.py").write_text(PLAIN)
    (tmp_path / "site" / "plain-1.0.dist-info" / "METADATA").write_text("Name: plain\nVersion: 1.0\n")
    points = "[ganglion.launchers]\nplain = plain_launcher:Plain\n"
    (tmp_path / "site" / "plain-1.0.dist-info" / "entry_points.txt").write_text(points)
    return {"PYTHONPATH": str(tmp_path / "site"), "STARTED": str(tmp_path / "started")}


@pytest.mark.long
def test_a_launcher_of_a_plugin_gives_the_same_run(tmp_path: Path, plain: dict[str, str]) -> None:
    """A run whose participants another launcher starts has the digest of a local one, and nothing is left of it."""
    (tmp_path / "farm.yml").write_text(DOCUMENT)
    words = [["run", "farm.yml"], ["run", "farm.yml", "--launcher", "plain"]]
    done = [ganglion(tmp_path, *one, more=plain) for one in words]
    digests = [ganglion(tmp_path, "verify", run, "--digest").stdout for run in ("farm-1", "farm-2")]
    started = sorted(Path(plain["STARTED"]).read_text().splitlines())

    assert [0, 0] == [one.returncode for one in done], done[1].stderr
    assert 1 == len(set(digests))
    both = [f"{role} {worker}" for role in ("controller", "environment", "muscle") for worker in (0, 1)]
    assert ["brain None", *both] == started
    assert ["finished"] * 2 == [row["status"] for run in ("farm-1", "farm-2") for row in table(tmp_path, "runs", run)]


def test_a_launcher_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A launcher that no plugin offers is an error before anything is started, with the nearest name."""
    done = ganglion(tmp_path, "run", "--launcher", "locl")

    assert (2, "ganglion: launcher: there is no launcher `locl`; did you mean `local`?\n") == (
        done.returncode,
        done.stderr,
    )
