from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganglion.run.effect import checkpoint_text, phase_checkpoint_name
from ganglion.supervisor.folder import Incarnation, ProcessTable, write_process_table
from ganglion.supervisor.launch.system import quiesced
from ganglion.supervisor.resume import (
    Checkpoint,
    Checkpoints,
    RecoveryPlan,
    journal_age_s,
    journal_position,
    newest_phase_checkpoint,
    prepare,
    recovery_plan,
    rewind,
)
from ganglion.supervisor.runs import Run
from ganglion.wire.journal import MAGIC, Kind, block

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="these means are Linux's")


@needs_linux
def test_checkpoints_are_taken_by_and_by(make_farm: Callable[..., Any]) -> None:
    """As often as the document says, while the run goes on; when it has finished none is left."""
    farm = make_farm(checkpoint_s=0.001, episodes=60)  # long enough for one, however slow the machine
    seen: list[int] = []

    def look(run: Run) -> None:
        checkpoint, _ = Checkpoints(run.folder.path).newest()
        seen.append(0 if checkpoint is None else checkpoint.number)

    farm.deeds["phase.ended", 2] = look
    outcome = farm.carry_out()

    assert ("finished", 0) == (outcome.status, outcome.exit_status), outcome.report
    assert seen[0] >= 1
    assert (None, []) == Checkpoints(farm.folder.path).newest()
    assert [] == list((farm.folder.path / "checkpoints").glob("checkpoint-*"))


@needs_linux
def test_what_cannot_be_kept_is_told(make_farm: Callable[..., Any]) -> None:
    """A file in the place of the folder is a warning; the run goes on."""
    farm = make_farm()
    (farm.folder.path / "checkpoints").write_text("in the way")
    farm.deeds["episode.ended", 1] = lambda run: run.checkpointer.take()
    outcome = farm.carry_out()

    assert ("finished", 0) == (outcome.status, outcome.exit_status), outcome.report
    assert not farm.told[0].result()
    assert any("cannot be written" in fields["text"] for fields in farm.fields("warning"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return the folder of a run with two journals."""
    (tmp_path / "journals").mkdir()
    for name in ("a.journal", "b.journal"):
        (tmp_path / "journals" / name).write_bytes(name.encode() * 10)
    return tmp_path


def keep(folder: Path, journals: Sequence[str] = ("a.journal", "b.journal"), **facts: object) -> Checkpoint:
    """Write a checkpoint of the run in a folder and return it."""
    checkpoints = Checkpoints(folder)
    checkpoint = checkpoints.note(nullcontext(True), [folder / "journals" / name for name in journals])
    assert checkpoint is not None
    checkpoints.keep(checkpoint, facts)
    kept, _ = checkpoints.newest()
    assert kept is not None
    return kept


def test_journals_of_other_users_come_back_to_their_places(run: Path) -> None:
    """A run may have journals in more than one folder."""
    other = run / "users" / "1234" / "c.journal"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"theirs")
    checkpoint = keep(run, ["a.journal", str(other)])
    other.write_bytes(b"theirs, and more")
    Checkpoints(run).restore(checkpoint)

    assert b"theirs" == other.read_bytes()
    assert ["a.journal"] == [path.name for path in (run / "journals").iterdir()]


def test_a_restored_journal_is_no_link(run: Path) -> None:
    """A process that goes on with a restored journal does not change the checkpoint: it can be restored again."""
    checkpoint = keep(run)
    Checkpoints(run).restore(checkpoint)
    (run / "journals" / "a.journal").write_bytes(b"")

    assert (checkpoint, []) == Checkpoints(run).newest()


@pytest.mark.parametrize("damage", ["short", "gone", "facts"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_taken(run: Path, damage: str) -> None:
    """A journal that is too short or gone, or a changed note: it says which file, and goes back one further."""
    keep(run, number=1)
    for name in ("a.journal", "b.journal"):  # as processes do that begin new journals
        (run / "journals" / name).unlink()
        (run / "journals" / name).write_bytes(b"anew")
    keep(run, number=2)
    newest = run / "checkpoints" / "checkpoint-000000002"
    if damage == "short":
        (newest / "a.journal").write_bytes(b"x")
    elif damage == "gone":
        (newest / "a.journal").unlink()
    else:
        text = (newest / "checkpoint.json").read_text()
        (newest / "checkpoint.json").write_text(text.replace('"number": 2', '"number": 3'))
    checkpoint, wrong = Checkpoints(run).newest()

    assert checkpoint is not None
    assert 1 == checkpoint.facts["number"]
    assert 1 == len(wrong)
    assert "checkpoint-000000002" in wrong[0]


def test_the_two_newest_are_kept(run: Path) -> None:
    """Older ones are removed; numbers go on, also when a run is carried on by another process."""
    for number in range(1, 5):
        keep(run, number=number)

    assert ["checkpoint-000000003", "checkpoint-000000004"] == sorted(
        path.name for path in (run / "checkpoints").iterdir()
    )


def test_no_checkpoint_without_all_journals_or_with_somebody_gone(run: Path) -> None:
    """A journal that is not there, a process that has ended: nothing is noted, and nothing lies around."""
    program = subprocess.Popen(["true"])
    program.wait()
    checkpoints = Checkpoints(run)

    there, missing = run / "journals" / "a.journal", run / "journals" / "z.journal"
    assert checkpoints.note(nullcontext(True), [there, missing]) is None
    assert checkpoints.note(quiesced([program.pid]), [there]) is None
    assert [] == list((run / "checkpoints").iterdir())


def test_all_is_forgotten_when_a_phase_begins_again(run: Path) -> None:
    """Checkpoints and journals are removed; those of phases stay."""
    keep(run)
    (run / "checkpoints" / "phase-000001.json").write_text("kept")
    Checkpoints(run).forget()

    assert ["phase-000001.json"] == [path.name for path in (run / "checkpoints").iterdir()]
    assert [] == list((run / "journals").iterdir())


def keep_phase(folder: Path, phase: int, run: str = "farm-1") -> Path:
    """Write the checkpoint at the begin of a phase, with the model of the one before; return that model's file."""
    model = folder / "brains" / str(phase - 1) / "ada" / "model.npz"
    model.parent.mkdir(parents=True, exist_ok=True)
    model.write_bytes(b"model %d" % phase)
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    row = ["brain", phase - 1, "ada", "", 1, 1, "2026", 7, digest, str(model)]
    (folder / "checkpoints").mkdir(exist_ok=True)
    text = checkpoint_text({"run": run, "phase": phase, "models": [], "rows": [row]})
    (folder / "checkpoints" / phase_checkpoint_name(phase)).write_text(text)
    return model


@pytest.mark.parametrize("damage", ["text", "model", "gone", "run"])
def test_a_damaged_cut_is_named_and_the_one_before_it_taken(tmp_path: Path, damage: str) -> None:
    """A changed checkpoint, a changed or missing model, one of another run: it says so, and goes back one further."""
    keep_phase(tmp_path, 1)
    model = keep_phase(tmp_path, 2, "farm-2" if damage == "run" else "farm-1")
    path = tmp_path / "checkpoints" / phase_checkpoint_name(2)
    words = {"text": "damaged", "model": "expected SHA-256", "gone": "cannot be read", "run": "another run"}
    if damage == "text":
        path.write_text(path.read_text().replace('"phase": 2', '"phase": 0'))
    elif damage == "model":
        model.write_bytes(b"changed")
    elif damage == "gone":
        model.unlink()
    begin, wrong = newest_phase_checkpoint(tmp_path, "farm-1")

    assert 1 == begin["phase"]
    assert 1 == len(wrong)
    assert str(path) in wrong[0]
    assert words[damage] in wrong[0]


def test_what_could_not_be_used_is_told(tmp_path: Path) -> None:
    """A damaged checkpoint leads to the begin of the phase, and is named."""
    keep_phase(tmp_path, 1)
    keep(tmp_path, [], run="farm-1")
    facts: Any = next((tmp_path / "checkpoints").glob("checkpoint-*/checkpoint.json"))
    facts.write_text("{}")
    recovery = recovery_plan(tmp_path, "farm-1", None, journaled=False)

    assert recovery.begin is not None
    assert (1, 1) == (recovery.begin["phase"], len(recovery.wrong))
    assert "damaged" in recovery.wrong[0]


def back(farm: Any, run: Run) -> None:
    """Have a run begin its phase again."""
    farm.supervisor.spawn(rewind(farm.supervisor, run, "brain ada: it differs", run.governor.name))


def withdrawal(
    farm: Any, recovery: RecoveryPlan, interrupts: int = 0, sync: str = "lockstep"
) -> tuple[dict[str, str], bool]:
    """Return what the store is told when a run of two phases goes on so, and whether what comes is compared."""

    async def body() -> tuple[dict[str, str], bool]:
        plan = replace(farm.plan, phases=[replace(phase, sync=sync) for phase in farm.plan.phases])
        run = Run(plan, farm.folder, None)
        run.interrupts = interrupts
        await prepare(run, recovery)
        told = {name.removeprefix("GANGLION_"): value for name, value in run.withdrawal.items()}
        return told, run.compared

    return asyncio.run(body())


@needs_linux
@pytest.mark.parametrize(("noted", "phase"), [(None, 0), (1, 1), (7, 1)])
def test_a_run_goes_on_with_the_processes_of_its_phase(
    make_farm: Callable[..., Any], noted: int | None, phase: int
) -> None:
    """Where every process goes on with its journal, those are started whom the phase needs that was running."""
    farm = make_farm()
    if noted is not None:
        write_process_table(farm.folder.path, ProcessTable("boot", Incarnation(0, 1, 2), phase=noted, begun=True))
    run = Run(farm.plan, farm.folder, None)
    asyncio.run(prepare(run, RecoveryPlan("every process goes on where it was")))

    assert (phase, None) == (run.phase, run.again)


CUT = {"phase": 1, "models": []}


@needs_linux
def test_what_goes_and_what_is_compared_when_a_run_goes_on(make_farm: Callable[..., Any]) -> None:
    """Behind a checkpoint all goes; a phase that begins again is compared, if it is repeatable and not interrupted."""
    farm = make_farm()
    kept = keep(farm.folder.path, [], run="farm-1", phase=1)

    assert ({}, False) == withdrawal(farm, RecoveryPlan("on"))
    assert ({"WITHDRAW": "1", "WITHDRAW_BEHIND": "1"}, False) == withdrawal(farm, RecoveryPlan("on", checkpoint=kept))
    assert ({"WITHDRAW": "1"}, True) == withdrawal(farm, RecoveryPlan("on", CUT))
    for recovery, interrupts in ((RecoveryPlan("on", CUT, stopped=True), 0), (RecoveryPlan("on", CUT), 1)):
        assert ({"WITHDRAW": "1", "WITHDRAW_ALL": "1"}, False) == withdrawal(farm, recovery, interrupts)
        assert ({"WITHDRAW": "1"}, False) == withdrawal(farm, recovery, interrupts, "async")


@needs_linux
def test_phases_behind_a_checkpoint_begin_again(make_farm: Callable[..., Any]) -> None:
    """A run that goes back to a checkpoint in phase 1 knows nothing any more of the begin of phase 2."""
    farm = make_farm()
    for phase in (0, 1, 2):
        keep_phase(farm.folder.path, phase)
    kept = keep(farm.folder.path, [], run="farm-1", phase=1)
    withdrawal(farm, RecoveryPlan("on", checkpoint=kept))
    begin, wrong = newest_phase_checkpoint(farm.folder.path, "farm-1")

    assert (1, []) == (begin["phase"], wrong)


@needs_linux
def test_what_operators_have_signalled_in_a_phase_that_begins_again_is_told(make_farm: Callable[..., Any]) -> None:
    """Nobody knows at which step it was heard: who wants it signals again; signals of earlier phases stay."""
    farm, reported = make_farm(), []

    def signalled(run: Run) -> None:
        run.signals = [(0, "RESET"), (1, "STOP_PHASE"), (1, "RESET")]
        report = farm.supervisor.restarter.report
        farm.supervisor.restarter.report = lambda *told: (reported.append(told), report(*told))
        back(farm, run)

    farm.deeds["episode.ended", 3] = signalled
    outcome = farm.carry_out()

    assert "finished" == outcome.status, outcome.report
    text = "phase 1 begins again without what operators have signalled in it (STOP_PHASE, RESET)"
    assert [text] == [t for f in farm.fields("warning") if (t := f["text"].partition(":")[0]).startswith("phase")]
    assert [("operator", "signals lost", text)] == [
        (name, kind, detail.partition(":")[0]) for _, name, _, kind, detail in reported if kind != "rewound"
    ]
    assert [(0, "RESET")] == farm.supervisor.runs["farm-1"].signals


@pytest.mark.parametrize("planted", ["link", "pipe", "folder"])
def test_a_planted_journal_is_neither_followed_nor_waited_for(tmp_path: Path, planted: str) -> None:
    """What another user has put in the place of a journal tells nothing, at once."""
    path = tmp_path / "planted.journal"
    if planted == "link":
        (tmp_path / "other").write_bytes(MAGIC + b"".join(block([(Kind.HEARD, 0.0, [b"", b"", b""])])))
        path.symlink_to("other")
    elif planted == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()

    assert (0.0, None) == (journal_age_s(path), journal_position(path))
