from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from system.command import Command, ganglion
from system.farm import counting
from system.results import table

PLAIN = '''
import asyncio, contextlib, os
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
            while data := await stream.read(65536):
                watch.printed(data)
        watch.exited(await process.wait())

    async def close(self):
        await asyncio.gather(*self.tasks)
        return []

class Started(Launched):
    host = "elsewhere"

    def __init__(self, process):
        self.process, self.pid = process, process.pid

    def signal(self, signum):
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            self.process.send_signal(signum)
'''
APART = """
import signal
from pathlib import Path

class Apart(Plain):
    '''Start each process where an empty folder stands in the place of results, as on another machine.'''

    shares_files, keeps_files, address = False, True, "127.0.0.1"

    async def start(self, spec, watch):
        hide = f"mount -t tmpfs none '{os.environ['RESULTS']}' && exec \\"$@\\""
        self.specs = {**getattr(self, "specs", {}), spec.name: spec}
        variables, pipe = {**os.environ, **spec.on_node(os.environ["NODE"])}, asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            "unshare", "-rm", "sh", "-c", hide, "sh", *spec.command,
            env=variables, cwd=spec.cwd, stdout=pipe, stderr=pipe, start_new_session=True,
        )
        self.tasks = [*getattr(self, "tasks", []), asyncio.ensure_future(self._watch(process, watch))]
        return Started(process)
"""
NODES = """
class Nodes(Plain):
    '''Have two nodes on this machine, each with a relay.'''

    address = "127.0.0.1"

    async def start(self, spec, watch):
        node = spec.place or f"node {(spec.worker or 0) % 2}"
        if not spec.place:
            spec.variables.update({**spec.near, "GANGLION_ENDPOINT": await self.relay(node)})
        started = await super().start(spec, watch)
        started.node = node
        return started
"""


@pytest.fixture
def apart(tmp_path: Path, plain: dict[str, str]) -> dict[str, str]:
    """Return variables with which `apart` is a launcher, too, whose processes do not see the folder of results."""
    (tmp_path / "results").mkdir()
    tried = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", tmp_path / "results"], check=False)
    if tried.returncode:
        pytest.skip("a folder cannot be hidden from a process here (unshare)")
    site = tmp_path / "site"
    (site / "plain_launcher.py").write_text(PLAIN + APART)
    (site / "plain-1.0.dist-info" / "entry_points.txt").write_text(
        "[ganglion.launchers]\nplain = plain_launcher:Plain\napart = plain_launcher:Apart\n"
    )
    more = {"RESULTS": str(tmp_path / "results"), "NODE": str(tmp_path / "node"), "GANGLION_AUDIT": ""}
    return {**plain, **more}


@pytest.fixture
def plain(tmp_path: Path) -> dict[str, str]:
    """Return variables with which a distribution is installed that offers the launcher `plain`."""
    (tmp_path / "site" / "plain-1.0.dist-info").mkdir(parents=True)
    (tmp_path / "site" / "plain_launcher.py").write_text(PLAIN + NODES)
    (tmp_path / "site" / "plain-1.0.dist-info" / "METADATA").write_text("Name: plain\nVersion: 1.0\n")
    points = "[ganglion.launchers]\nplain = plain_launcher:Plain\nnodes = plain_launcher:Nodes\n"
    (tmp_path / "site" / "plain-1.0.dist-info" / "entry_points.txt").write_text(points)
    return {"PYTHONPATH": str(tmp_path / "site"), "STARTED": str(tmp_path / "started")}


@pytest.mark.long
@pytest.mark.parametrize("launcher", ["plain", "nodes"])
def test_a_launcher_of_a_plugin_gives_the_same_run(tmp_path: Path, plain: dict[str, str], launcher: str) -> None:
    """A run whose participants another launcher starts, behind relays or not, has the digest of a local one."""
    (tmp_path / "farm.yml").write_text(counting(4))
    words = [["run", "farm.yml"], ["run", "farm.yml", "--launcher", launcher]]
    done = [ganglion(tmp_path, *one, more=plain) for one in words]
    digests = [ganglion(tmp_path, "verify", run, "--digest").stdout for run in ("farm-1", "farm-2")]
    started = sorted(Path(plain["STARTED"]).read_text().splitlines())

    assert [0, 0] == [one.returncode for one in done], done[1].stderr
    assert 1 == len(set(digests))
    both = [f"{role} {worker}" for role in ("controller", "environment", "muscle") for worker in (0, 1)]
    assert ["brain None", *both, *["relay None"] * 2 * (launcher == "nodes")] == started
    assert ["finished"] * 2 == [row["status"] for run in ("farm-1", "farm-2") for row in table(tmp_path, "runs", run)]


def test_a_launcher_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A launcher that no plugin offers is an error before anything is started, with the nearest name."""
    done = ganglion(tmp_path, "run", "--launcher", "locl")

    assert (2, "ganglion: launcher: there is no launcher `locl`; did you mean `local`?\n") == (
        done.returncode,
        done.stderr,
    )


@pytest.mark.long
@pytest.mark.parametrize("lost", ["nobody", "a muscle", "a node"])
def test_processes_that_see_no_results_give_the_same_run(tmp_path: Path, apart: dict[str, str], lost: str) -> None:
    """Models go over the bus; who is lost goes on from his journal on the node, or the phase begins again without."""
    tested = "  - test: {phase_config: {mode: test, worker: 2, episodes: 2}}\n"
    (tmp_path / "farm.yml").write_text(counting(16) + tested)
    assert 0 == ganglion(tmp_path, "run", "farm.yml").returncode
    running = Command(tmp_path, "run", "farm.yml", "--launcher", "apart", more=apart, span_s=120.0)
    if lost != "nobody":
        running.until("episode.ended")
        rows = json.loads(ganglion(tmp_path, "ps", "--json").stdout)
        (muscle,) = [row for row in rows if row["name"] == "farm-2/muscle/ada/1"]
        assert "elsewhere" == muscle["host"]
        if lost == "a node":
            Path(apart["NODE"], "farm-2", "journals", "muscle.ada.1.journal").unlink()
        os.kill(muscle["pid"], signal.SIGKILL)
    status, errors = running.end()
    digests = [ganglion(tmp_path, "verify", run, "--digest").stdout for run in ("farm-1", "farm-2")]
    kinds = {row["kind"] for row in table(tmp_path, "incidents", "farm-2")}

    assert 0 == status, errors
    assert 1 == len(set(digests))
    assert {"nobody": set(), "a muscle": {"restarted"}, "a node": {"rewound"}}[lost] <= kinds
    assert [] != [*Path(apart["NODE"]).glob("farm-2/blobs/*")]


@pytest.mark.long
def test_a_relay_that_is_lost_is_the_loss_of_its_node(tmp_path: Path, plain: dict[str, str]) -> None:
    """What a worker's processes say to each other stays; a killed relay is their loss, and changes no result."""
    (tmp_path / "farm.yml").write_text(counting(60))
    assert 0 == ganglion(tmp_path, "run", "farm.yml").returncode
    running = Command(tmp_path, "run", "farm.yml", "--launcher", "nodes", more=plain, span_s=120.0)
    for _ in range(40):
        running.until("episode.ended")
    rows = {row["name"]: row for row in json.loads(ganglion(tmp_path, "ps", "--json").stdout)}
    relay = rows["relay/1"]
    os.kill(relay["pid"], signal.SIGKILL)
    status, errors = running.end()
    digests = [ganglion(tmp_path, "verify", run, "--digest").stdout for run in ("farm-1", "farm-2")]
    lost = [row for row in table(tmp_path, "incidents", "farm-2") if row["kind"] == "lost"]

    assert 0 == status, errors
    assert 1 == len(set(digests))
    assert {3, 4} >= {len([row for row in lost if "its relay on elsewhere was lost" in row["detail"]])}
    world, driver = rows["farm-2/environment/hut/1"], rows["farm-2/controller/1"]
    assert world["stayed"] > 100, "an answer to each step"
    assert 1.5 * world["stayed"] < driver["stayed"], "a question to the environment, and one to the muscle"
    assert 0 < relay["travelled"] < 2 * relay["stayed"]
