"""Keepers of processes on nodes, and what roles need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ganglion.sdk import LaunchError
from ganglion_ray.keeper import Keeper, versions
from ganglion_ray.launcher import Wants, wants_of


async def _all(keeper: Keeper) -> tuple[bytes, int]:
    printed = b""
    while True:
        data, code, *_ = await keeper.news()
        printed += data
        if code is not None:
            return printed, code


def _spec(folder: Path, program: str, **more: Any) -> tuple[dict[str, Any], str, int]:
    spec = {"name": "x", "variables": {"WORD": "so"}, "argv": [sys.executable, "-c", program], **more}
    return spec, str(folder), folder.stat().st_ino


@pytest.mark.parametrize(
    ("program", "said", "code"),
    [
        ("import os; print(os.environ['WORD'], os.environ.get('RAY_ADDRESS'))", b"so None\n", 0),
        ("print('y' * 3_000_000, end='')", b"y" * 3_000_000, 0),
        ("import sys; sys.stderr.write('no'); raise SystemExit(3)", b"no", 3),
        ("import os; os.kill(os.getpid(), 9)", b"", -signal.SIGKILL),
    ],
)
async def test_a_keeper_tells_all_output_and_then_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, said: bytes, code: int
) -> None:
    """All output comes before the exit status; variables of the engine do not reach the process."""
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    keeper = Keeper()
    pid, wrong = await keeper.start(*_spec(tmp_path, program))

    assert ("", True) == (wrong, pid > 0)
    assert (said, code) == await _all(keeper)


async def test_a_signal_reaches_the_whole_tree(tmp_path: Path) -> None:
    """A signal is for the process and what it has started; its usage is that of all of them."""
    program = "import os, time\nif os.fork() == 0: time.sleep(600)\nprint('up', flush=True)\nos.wait()"
    keeper = Keeper()
    await keeper.start(*_spec(tmp_path, program))
    printed = b""
    while b"up" not in printed:
        data, code, seconds, size = await keeper.news()
        printed += data
    await keeper.signal(signal.SIGTERM)

    assert (None, True, True) == (code, seconds >= 0.0, size > 1_000_000)
    assert -signal.SIGTERM == (await _all(keeper))[1]


def test_a_process_ends_with_its_keeper(tmp_path: Path) -> None:
    """A keeper that is killed takes the process with it, by the end of their pipe."""
    note = tmp_path / "pid"
    spec = _spec(tmp_path, f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    program = (
        "import asyncio, sys, time\n"
        "from ganglion_ray.keeper import Keeper\n"
        f"asyncio.run(Keeper().start(*{spec!r}))\n"
        "time.sleep(600)"
    )
    actor = subprocess.Popen([sys.executable, "-c", program])
    until_s = time.monotonic() + 30.0
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < until_s
        time.sleep(0.02)
    pid = int(note.read_text())
    actor.kill()
    actor.wait()
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until_s:
        time.sleep(0.02)

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inode": 1}, "it does not see {folder} of the supervisor's machine; share the folder of results"),
        ({"folder": "/nowhere"}, "it does not see /nowhere of the supervisor's machine"),
        ({"cwd": "/nowhere"}, "in /nowhere: [Errno 2] No such file or directory"),
    ],
)
async def test_what_a_node_lacks_is_said(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    """A node that does not see the run's folder, or a program's, starts nothing and says so."""
    spec, folder, inode = _spec(tmp_path, "pass", **{k: v for k, v in change.items() if k == "cwd"})
    keeper = Keeper()
    pid, wrong = await keeper.start(spec, change.get("folder", folder), change.get("inode", inode))

    assert 0 == pid
    assert words.format(folder=tmp_path) in wrong


def test_versions_are_of_what_must_be_equal() -> None:
    """Nodes are compared by Python, Ganglion and Ray."""
    pytest.importorskip("ray", reason="ray is not installed: scripts/setup --with ray")
    assert ["Python", "ganglion", "ray"] == list(versions())


def test_what_a_role_needs() -> None:
    """What is not said of a role is nothing, beside the others of its worker; amounts have Ray's names."""
    found = wants_of({"brain": {"gpu": 1, "resources": {"big": 0.5}, "place": "pack"}})

    assert Wants() == found["muscle"]
    assert ({"GPU": 1, "big": 0.5}, "pack") == (found["brain"].amounts, found["brain"].place)


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        ([], "roles: expected a map, found []"),
        ({"broker": {}}, "roles: expected one of environment, muscle, brain, controller, table, found 'broker'"),
        ({"brain": 1}, "roles.brain: expected a map, found 1"),
        ({"brain": {"cpus": 1}}, "roles.brain: expected cpu, gpu, resources or place, found 'cpus'"),
        ({"brain": {"cpu": -1}}, "roles.brain.cpu: expected a number >= 0, found -1"),
        ({"brain": {"cpu": True}}, "roles.brain.cpu: expected a number >= 0, found True"),
        ({"brain": {"resources": {"big": "x"}}}, "roles.brain.resources.big: expected a number >= 0, found 'x'"),
        ({"brain": {"resources": 3}}, "roles.brain.resources: expected a map, found 3"),
        ({"brain": {"place": "moon"}}, "roles.brain.place: expected one of worker, pack, spread, found 'moon'"),
    ],
)
def test_faulty_needs_are_named(roles: Any, words: str) -> None:
    """A fault of the settings is told by its key, before anything is started."""
    with pytest.raises(ValueError, match=r".") as caught:
        wants_of(roles)

    assert words == str(caught.value)


async def test_no_cluster_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address where nobody listens is refused within seconds, with the cure."""
    pytest.importorskip("ray", reason="ray is not installed: scripts/setup --with ray")
    from ganglion_ray import RayLauncher

    with pytest.raises(
        LaunchError, match=r"no cluster at the address 127.0.0.1:1: .*refused; start one with `ray start"
    ):
        await RayLauncher("127.0.0.1:1").open()
