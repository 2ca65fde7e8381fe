"""Runs that go on: all processes killed, Ctrl-C, power lost; the results are those of a run that was never cut."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.command import Command, ganglion, private
from system.processes import MARKER, left_of, marked
from system.world import RUN, write_world

from ganglion.supervisor.folder import read_manifest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")

SIZES, CROWD = (2, 4), (3, 8)  # workers, episodes of each
FIRST = ("run", "chaos.yml", "--name", RUN)


class Journey:
    """Carry a run out in pieces."""

    def __init__(self, folder: Path, *words: str, sizes: tuple[int, int] = SIZES) -> None:
        self.folder = folder
        self.words = words
        self.pieces = 0
        write_world(folder, *sizes)

    @property
    def run(self) -> Path:
        """Return the folder of the run."""
        return self.folder / "results" / RUN

    def piece(self, *words: str) -> Command:
        """Begin the run, or go on with it."""
        self.pieces += 1
        more = {**private(self.folder), MARKER: f"{self.folder}-{self.pieces}"}
        first = (*FIRST, *self.words)
        return Command(self.folder, *(first if self.pieces == 1 else ("resume", RUN)), *words, more=more)

    def kill_all(self, command: Command) -> None:
        """Let all processes of a piece vanish at once."""
        pids = list(marked(f"{self.folder}-{self.pieces}"))
        command.process.kill()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        command.output()
        assert {} == left_of(f"{self.folder}-{self.pieces}")

    def cut(self, episodes: int, interrupt: int = 0) -> None:
        """Carry out a piece until so many episodes have ended, then kill everything, or press Ctrl-C so often."""
        command = self.piece()
        for _ in range(episodes):
            command.until("episode.ended")
        if not interrupt:
            self.kill_all(command)
            return
        for _ in range(interrupt):
            command.process.send_signal(signal.SIGINT)
        status, said = command.end()
        assert 130 == status, said

    def finish(self, *words: str) -> str:
        """Carry out the last piece; return what it said beside its events."""
        status, said = (command := self.piece(*words)).end()
        assert 0 == status, (command.events[-1], said)
        return said

    def digest(self) -> str:
        """Return the digest of the results, once nothing is wrong with them."""
        done = ganglion(self.folder, "verify", RUN, "--digest", "--json", more=private(self.folder))
        assert 0 == done.returncode, done.stdout + done.stderr
        assert [] == [*self.folder.glob("ganglion-*"), *self.folder.rglob("connection.json")]
        return str(json.loads(done.stdout)["runs"][0]["digest"])

    def other_boot(self) -> None:
        """Let the machine have begun anew since."""
        path = self.run / "state.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "another"}))


@pytest.fixture
def journey() -> Iterator[Callable[..., Journey]]:
    """Return what makes a run in a folder of its own, whose path is short: `journey("--set", "...")`."""
    with tempfile.TemporaryDirectory(prefix="gr-", dir="/tmp") as folder:
        yield lambda *words, **more: Journey(Path(folder) / "a", *words, **more)


@pytest.fixture(scope="module")
def whole() -> Iterator[str]:
    """Return the digest of the run that is never cut."""
    with tempfile.TemporaryDirectory(prefix="gr-", dir="/tmp") as folder:
        uncut = Journey(Path(folder) / "w")
        uncut.finish()
        yield uncut.digest()


def test_a_run_goes_on_after_all_is_killed_twice(journey: Callable[..., Journey], whole: str) -> None:
    """Killed in mid-episode, and once more after it was resumed: equal results, and a manifest that is complete."""
    run = journey()
    run.cut(3)
    run.cut(2)
    assert "every process goes on where it was" in run.finish()

    assert whole == run.digest()
    manifest = json.loads((run.run / "manifest.json").read_text())
    assert ("finished", 2) == (manifest["status"], len(manifest["resumed"]))
    done = ganglion(run.folder, "resume", RUN, more=private(run.folder))
    assert 2 == done.returncode
    assert "has finished" in done.stderr


def end_of(run: Journey) -> str:
    """Return how a run has ended, as its supervisor has noted; empty before that."""
    with contextlib.suppress(FileNotFoundError):
        return str((json.loads((run.run / "state.json").read_bytes())["ended"] or {"status": ""})["status"])
    return ""


def short(run: Journey, *orders: dict[str, object]) -> Journey:
    """Let a run have one phase, and these orders."""
    document = run.folder / "chaos.yml"
    document.write_text(document.read_text().rpartition("  - test")[0])
    (run.folder / "trips.json").write_text(json.dumps(orders))
    return run


@pytest.mark.parametrize(
    "noted",
    [pytest.param(True, marks=pytest.mark.long), pytest.param(False, marks=pytest.mark.long)],
    ids=["noted", "on tapes alone"],
)
def test_a_run_that_has_finished_is_completed(journey: Callable[..., Journey], noted: bool) -> None:
    """All is killed after the governor's word was heard, while somebody is slow to leave: nothing is left to wait for.

    Where the supervisor could not write that down, the governor says it again.
    """
    whole = short(journey())
    whole.finish()
    run = short(Journey(whole.folder.with_name("b")), {"place": "brain.store", "number": 1, "deed": "linger"})
    command = run.piece()
    until_s = time.monotonic() + command.span_s
    while not (status := end_of(run)) and time.monotonic() < until_s and command.process.poll() is None:
        time.sleep(0.002)
    run.kill_all(command)
    path = run.run / "state.json"
    assert ("finished", None) == (status, read_manifest(run.run)[0].get("status"))
    if not noted:
        path.write_text(json.dumps({**json.loads(path.read_text()), "ended": None}))
    said = run.finish()

    assert ("it had finished" if noted else "every process goes on where it was") in said
    assert [*whole.run.glob("state.json"), *whole.run.glob("tapes")] == [
        *run.run.glob("state.json"),
        *run.run.glob("tapes"),
    ]
    assert whole.digest() == run.digest()


@pytest.mark.long
def test_an_interrupted_run_goes_on_in_mid_episode(journey: Callable[..., Journey], whole: str) -> None:
    """Its episodes were cut and stored as such; they are withdrawn, and come out whole."""
    run = journey()
    run.cut(3, interrupt=2)
    assert "every process goes on where it was interrupted" in run.finish()

    assert whole == run.digest()


@pytest.fixture(scope="module")
def crowded() -> Iterator[str]:
    """Return the digest of an undisturbed run of three workers, long enough that its learner plays otherwise."""
    with tempfile.TemporaryDirectory(prefix="gr-", dir="/tmp") as folder:
        uncut = Journey(Path(folder) / "w", sizes=CROWD)
        uncut.finish()
        yield uncut.digest()


@pytest.mark.long
@pytest.mark.parametrize("taped", [True, False])
@pytest.mark.parametrize("episodes", [15, 16, 17])
def test_what_an_interrupted_run_has_sealed_comes_again(
    journey: Callable[..., Journey], crowded: str, episodes: int, taped: bool
) -> None:
    """Its episodes end without the workers that have ended theirs, as in no undisturbed run: they are withdrawn.

    Without tapes the whole phase comes again.
    """
    run = journey(sizes=CROWD)
    run.cut(episodes, interrupt=1)
    if not taped:
        cuts = run.run / "cuts"
        for path in (run.run / "tapes", *cuts.glob("stop-*"), *cuts.glob("moment-*")):
            shutil.rmtree(path)
    words = "goes on where it was interrupted" if taped else "goes on with the begin of phase 0"
    assert words in run.finish()

    assert crowded == run.digest()


@pytest.mark.long
def test_what_cannot_be_repeated_stays_where_its_phase_begins_again(journey: Callable[..., Journey]) -> None:
    """Rows come in any order, and no episode is compared: those that were sealed are there, and all is whole."""
    run = journey("--sync", "async")
    run.cut(5)
    shown = ("results", "episodes", RUN, "--json")
    before = json.loads(ganglion(run.folder, *shown, more=private(run.folder)).stdout)
    shutil.rmtree(run.run / "tapes")
    run.other_boot()
    for path in (run.run / "cuts").glob("moment-*"):
        shutil.rmtree(path)
    assert "goes on with the begin of phase 0" in run.finish()

    run.digest()
    after = json.loads(ganglion(run.folder, *shown, more=private(run.folder)).stdout)
    assert 0 < len(before) < len(after)
    assert all(row in after for row in before)


@pytest.mark.long
def test_a_damaged_tape_leads_back_to_the_begin_of_the_phase(journey: Callable[..., Journey], whole: str) -> None:
    """It is found when it is heard; the phase comes again, and what was stored of it is compared."""
    run = journey()
    run.cut(4)
    tape = run.run / "tapes" / "muscle.ada.0.tape"
    data = bytearray(tape.read_bytes())
    data[len(data) // 2] ^= 1
    tape.write_bytes(data)
    command = run.piece()
    status, said = command.end()

    assert 0 == status, said
    warnings = [event["text"] for event in command.events if event["event"] == "warning"]
    assert any("goes back to the begin of phase 0" in text for text in warnings), warnings
    assert whole == run.digest()


@pytest.mark.long
def test_after_a_loss_of_power_the_run_goes_on_from_its_newest_cut(journey: Callable[..., Journey], whole: str) -> None:
    """Tapes were not synced then; what was kept of them was."""
    run = journey("--set", "recovery.checkpoint_s=0.05")
    run.cut(5)
    run.other_boot()
    shutil.rmtree(run.run / "tapes")
    assert "every process goes on at its cut" in run.finish()

    assert whole == run.digest()


@pytest.mark.long
def test_without_a_cut_the_phase_begins_again(journey: Callable[..., Journey], whole: str) -> None:
    """After a loss of power with nothing else kept; a damaged cut is named, and the one before it taken."""
    run = journey()
    command = run.piece()
    command.until("phase.ended")
    command.until("phase.started")
    command.until("episode.ended")
    run.kill_all(command)
    run.other_boot()
    newest = run.run / "cuts" / "phase-000001.json"
    newest.write_text(newest.read_text().replace('"phase": 1', '"phase": 0'))
    said = run.finish()

    assert "phase-000001.json: the file is damaged" in said
    assert "it goes on with the begin of phase 0" in said
    assert whole == run.digest()


@pytest.mark.long
def test_a_later_phase_begins_with_the_models_of_earlier_ones(journey: Callable[..., Journey], whole: str) -> None:
    """The first phase does not come again: its models are known by the cut."""
    run = journey()
    command = run.piece()
    command.until("phase.ended")
    command.until("episode.ended")
    run.kill_all(command)
    run.other_boot()
    command = run.piece()
    status, said = command.end()

    assert 0 == status, said
    assert [1] == [event["phase"] for event in command.events if event["event"] == "phase.started"]
    assert whole == run.digest()


FOREIGN = """
uid: raw
seed: 5
version: "0.1"
recovery: {on_loss: recover}
run_config: {condition: vanilla}
schedule:
  - one:
      environments: [environment: {uid: hut, command: [PYTHON, raw_environment.py]}]
      agents: [{name: ada, muscle: dummy, brain: dummy, sensors: [hut.steps], actuators: [hut.push]}]
      simulation: {name: taking_turns, conditions: [{name: max_steps, params: {steps: 300}}]}
      phase_config: {mode: train, worker: 1, episodes: 3}
  - two: {phase_config: {episodes: 3}}
"""


@pytest.mark.long
@pytest.mark.parametrize("interrupt", [False, True])
def test_a_phase_with_a_program_that_writes_no_tape_begins_again(interrupt: bool) -> None:
    """Whether all was killed or Ctrl-C pressed: the phase comes again, and no other, with equal results."""
    with tempfile.TemporaryDirectory(prefix="gr-", dir="/tmp") as text:
        folder = Path(text)
        shutil.copy(Path(__file__).parents[1] / "documents" / "raw_environment.py", folder)
        (folder / "raw.yml").write_text(FOREIGN.replace("PYTHON", sys.executable))
        more = private(folder)
        assert 0 == Command(folder, "run", "raw.yml", "--name", "whole", more=more).end()[0]
        command = Command(folder, "run", "raw.yml", "--name", "cut", more={**more, MARKER: text})
        for _ in range(4):
            command.until("episode.ended")
        pids = [] if interrupt else list(marked(text))
        for _ in range(2):
            command.process.send_signal(signal.SIGINT if interrupt else signal.SIGKILL)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        command.output()
        resumed = Command(folder, "resume", "cut", more=more)

        assert (0, "resuming cut: it goes on with the begin of phase 1\n") == resumed.end()
        assert [1] == [event["phase"] for event in resumed.events if event["event"] == "phase.started"]
        compared = ganglion(folder, "runs", "diff", "whole", "cut", more=more)
        assert (0, "no difference\n") == (compared.returncode, compared.stdout)


@pytest.mark.long
def test_another_installation_is_refused_until_it_is_accepted(journey: Callable[..., Journey], whole: str) -> None:
    """Exit 2 with what differs; then it goes on, and the manifest says what was accepted."""
    run = journey()
    run.cut(2)
    path = run.run / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "processor": "abacus"}))
    done = ganglion(run.folder, "resume", RUN, more=private(run.folder))
    assert 2 == done.returncode
    assert "processor: abacus then" in done.stderr
    run.finish("--accept-fingerprint")

    assert whole == run.digest()
    [note] = json.loads(path.read_text())["resumed"]
    assert note["accepted"][0].startswith("processor: abacus then")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_any_moments_are_survived(journey: Callable[..., Journey], whole: str, seed: int) -> None:
    """Cut one to three times, by killing everything or by Ctrl-C, wherever that is: equal results."""
    dice = random.Random(seed)
    run = journey("--set", f"recovery.checkpoint_s={dice.choice([0.05, 10])}")
    for _ in range(dice.randrange(1, 4)):
        command = run.piece()
        for _ in range(dice.randrange(1, 40)):
            command.next_event()
        if dice.random() < 0.5:
            run.kill_all(command)
        else:
            for _ in range(dice.randrange(1, 3)):
                command.process.send_signal(signal.SIGINT)
            command.end()
        if dice.random() < 0.3 and (run.run / "state.json").exists():
            run.other_boot()
        if json.loads((run.run / "manifest.json").read_text()).get("status") == "finished":
            break
    else:
        run.finish()

    assert whole == run.digest()
