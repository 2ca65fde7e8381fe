"""Real runs of the command line, disturbed: what is said, how it ends, who is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.command import GANGLION, SPAN_S, ganglion, private, variables
from system.command import Command as Held
from system.farm import dummies
from system.results import table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


class Command(Held):
    """Hold a command whose results, sockets and connection files are in its folder."""

    def __init__(self, folder: Path, *words: str, output: str = "json") -> None:
        results = str(folder / "results")
        super().__init__(folder, *words, "--results", results, output=output, more=private(folder))


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a short path that holds an endless document, and a short one."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="gt-", dir="/tmp") as text:
        path = Path(text)
        (path / "endless.yml").write_text(dummies("endless", 1_000_000))
        brittle = dummies("endless", 1_000_000) + "recovery: {on_loss: fail}\n"
        (path / "brittle.yml").write_text(brittle)
        (path / "short.yml").write_text(dummies("short", 3))
        yield path


def gone(pids: dict[int, str]) -> bool:
    """Wait until processes that were not our children have gone; return whether they have."""
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        import select

        ready, _, _ = select.select([handle], [], [], 3.0)
        os.close(handle)
        if not ready:
            return False
    return True


def nothing_left(command: Command) -> bool:
    """Say whether sockets, connection files and private folders of a command have gone."""
    left = [*command.folder.glob("ganglion-*"), *command.folder.rglob("connection.json")]
    return [] == left


def test_a_run_whose_reader_has_gone_goes_on(folder: Path) -> None:
    """Who reads events or notes may go: the run is carried out to its end, and ends with 0."""
    words = [GANGLION, "run", "short.yml", "--json"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=variables(private(folder))
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"run.started" in process.stdout.readline()
        process.stdout.close()
        process.stderr.close()

        assert 0 == process.wait(SPAN_S)
    shown = ganglion(folder, "runs", "--json", more=private(folder))
    assert ["finished"] == [row["status"] for row in json.loads(shown.stdout)]


def standing(folder: Path, *arguments: str) -> dict[int, tuple[int, int]]:
    """Carry out a command that answers where workers stand; return worker -> (episode, step)."""
    done = ganglion(folder, *arguments, "--json", more=private(folder))
    assert (0, "") == (done.returncode, done.stderr)
    answer = json.loads(done.stdout)
    assert answer["accepted"]
    words = [line.split() for line in answer["text"].splitlines()]
    return {int(w[1]): (int(w[9]), int(w[6])) for w in words if w[3:4] == ["paused"]}


def test_live_run_is_seen_paused_and_stopped(folder: Path) -> None:
    """Other commands find a live run by its connection file: `ps` lists it, `pause` holds it, `stop` interrupts it."""
    command = Command(folder, "run", "endless.yml", "--store", "none")
    command.until("episode.ended")
    rows = json.loads(ganglion(folder, "ps", "endless-1", "--json", more=private(folder)).stdout)
    assert {"broker", "endless-1/governor", "endless-1/muscle/scout/1"} <= {row["name"] for row in rows}
    assert {row["pid"] for row in rows} <= set(command.below())

    first = standing(folder, "pause", "endless")
    again = standing(folder, "pause", "endless-1")
    rows = json.loads(ganglion(folder, "ps", "endless-1", "--json", more=private(folder)).stdout)
    assert {"paused"} == {row["state"] for row in rows if row["role"] == "controller"}
    three = standing(folder, "continue", "endless", "--steps", "3")
    assert [0, 1] == sorted(first)
    assert first == again
    assert {w: 10 * e + s + 3 for w, (e, s) in first.items()} == {w: 10 * e + s for w, (e, s) in three.items()}

    assert {} == standing(folder, "continue", "endless")
    while (ended := command.until("episode.ended"))["episode"] < three[ended["worker"]][0]:
        pass  # told before it stood
    later = standing(folder, "pause", "last", "--reason", "lunch")
    assert all(later[worker] > three[worker] for worker in (0, 1))
    stop = ("stop", "last", "--reason", "enough", "--json")
    assert json.loads(ganglion(folder, *stop, more=private(folder)).stdout)["accepted"]
    assert 130 == command.end()[0]  # a paused run is woken, and ends its episodes
    assert "enough" in command.events[-1]["reason"]
    assert nothing_left(command)


def test_killed_supervisor_takes_everybody_with_it(folder: Path) -> None:
    """SIGKILL of the supervisor: no process of the run is left behind."""
    command = Command(folder, "run", "endless.yml", "--store", "none")
    command.until("episode.ended")
    below = command.below()
    command.kill()

    assert {"ganglion-warm", "muscle.scout.0", "environment.fie"} <= set(below.values())
    assert gone(below)


def test_killed_participant_is_named(folder: Path) -> None:
    """SIGKILL of a muscle where no loss is made good: exit status 1, name and signal come first, nobody is left."""
    command = Command(folder, "run", "brittle.yml")
    command.until("episode.ended")
    below = command.below()
    os.kill(next(pid for pid, name in below.items() if name == "muscle.scout.1"), signal.SIGKILL)
    status, _ = command.end()

    assert 1 == status
    story = command.events[-1]["story"]
    assert story[0].startswith("muscle")
    assert "was killed by SIGKILL" in story[0]
    assert "failed" == command.events[-1]["status"]
    assert gone(below)
    assert nothing_left(command)


# Once, without processes of its own, is in tests/kernel/cli/test_session.py in every run.
@pytest.mark.parametrize("times", [*(pytest.param(n, marks=pytest.mark.long) for n in (1, 2)), 3])
def test_interruption_ends_with_130(folder: Path, times: int) -> None:
    """Ctrl-C once, twice, three times: exit status 130, status `interrupted`, nobody is left."""
    command = Command(folder, "run", "endless.yml")
    command.until("episode.ended")
    below = command.below()
    for _ in range(times):
        command.process.send_signal(signal.SIGINT)
        assert "Ctrl-C" in command.err.line() or times == 3
        if command.process.poll() is not None:
            break
    status, _ = command.end()

    assert 130 == status
    assert "interrupted" == command.events[-1]["status"]
    assert gone(below)
    assert nothing_left(command)


HANG = """
import time
from ganglion_toys.dummy import DummyEnvironment as DummyEnvironment

class Hang(DummyEnvironment):
    def update(self, actuators):
        time.sleep(1000.0)
"""


def test_a_hang_that_is_interrupted_has_one_verdict(folder: Path) -> None:
    """Command, store and manifest say the same of a run that is interrupted twice, and name the process that hung."""
    (folder / "hang.py").write_text(HANG)
    document = (folder / "endless.yml").read_text()
    (folder / "endless.yml").write_text(document.replace("name: dummy", 'name: "hang:Hang"', 1))
    command = Command(folder, "run", "endless.yml", "--name", "hung")
    while "for environment field (worker " not in command.until("waiting")["text"]:
        pass  # on a slow machine somebody may be waited for before
    for _ in range(2):
        command.process.send_signal(signal.SIGINT)
        command.err.line()
    status, _ = command.end()
    told = command.events[-1]
    (row,) = json.loads(ganglion(folder, "runs", "--json", more=private(folder)).stdout)

    names = "environment field (worker 0), environment field (worker 1)"
    reason = f"interrupted: operator; {names} did not answer"
    assert (130, "interrupted", reason) == (status, told["status"], told["reason"])
    assert ("interrupted", reason) == (row["status"], row["reason"])


def test_settings_reach_the_participants(folder: Path) -> None:
    """`ganglion set` says when it acts, and names an environment that is not there; both are rows of the run."""
    command = Command(folder, "run", "endless.yml")
    command.until("episode.ended")
    said = [
        json.loads(ganglion(folder, "set", "endless-1", uid, "a=1.5", "b=moon", "--json", more=private(folder)).stdout)
        for uid in ("field", "fied")
    ]
    ganglion(folder, "signal", "endless-1", "stop-phase", more=private(folder))

    assert [True, False] == [answer["accepted"] for answer in said]
    assert "there is no environment or agent 'fied' in phase 0; expected one of field, " in said[1]["text"]
    assert 0 == command.end()[0]
    assert {("field", "parameters", "a", 1.5), ("field", "parameters", "b", "moon")} == {
        (row["peer"], row["topic"], row["key"], row["value"]) for row in table(folder, "topics")
    }


def test_daemon_takes_documents(folder: Path) -> None:
    """The daemon tells where it is, carries out what is submitted, refuses what is faulty, and leaves when told."""
    daemon = Command(folder, "kernel", "--store", "none", output="plain")
    assert daemon.out.line().startswith("endpoint ipc://")
    assert daemon.out.line().startswith("connection file ")

    waited = Command(folder, "submit", "short.yml", "--wait")
    how = waited.end()
    assert (0, "") == how, how[1]
    assert ("finished", "short-1") == (waited.events[-1]["status"], waited.events[-1]["run"])
    shown = [row["event"] for row in waited.events]  # as `run` shows it
    assert (1, 0) == (shown.count("run.started"), shown.count("peer.lost"))

    (folder / "faulty.yml").write_text("uid: x\nsead: 4\n")
    faulty = ganglion(folder, "submit", "faulty.yml", more=private(folder))
    assert 2 == faulty.returncode
    assert "sead" in faulty.stderr

    below = daemon.below()
    assert "is shutting down" in Command(folder, "kernel", "stop", output="plain").output()
    daemon.output()
    assert 0 == daemon.process.returncode
    assert gone(below)
    assert nothing_left(daemon)


@pytest.mark.long
def test_daemon_that_nobody_listens_to_leaves(folder: Path) -> None:
    """A daemon whose output is read no further, as by `head`, leaves at SIGTERM without a traceback."""
    words = f"exec {GANGLION} --results {folder / 'results'} kernel --store none > >(head -1)"
    daemon = subprocess.Popen(
        ["bash", "-c", words], env=variables(private(folder)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert daemon.stdout is not None
        assert daemon.stdout.readline().startswith("endpoint ipc://")
        assert "" == daemon.stdout.readline()  # `head` has ended
        while not list((folder / "results").glob(".kernel/connection.json")) and daemon.poll() is None:
            pass
        daemon.terminate()
        assert ("", 130) == (daemon.communicate(timeout=SPAN_S)[1], daemon.returncode)
    finally:
        daemon.kill()
