"""Checkpoints: all journals of a run at one instant, and how a run resumes from them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganglion.errors import GanglionError, LaunchError, StoreError
from ganglion.limits import DEADLINES_S, LEAVE_KILL_S, RETRY_S
from ganglion.run.effect import FOLDER, checkpoint_text, phase_checkpoint_name, read_checkpoint
from ganglion.run.plan import ours
from ganglion.supervisor import event
from ganglion.supervisor.folder import PROCESS_TABLE, Files, open_regular, participants, read_process_table
from ganglion.supervisor.launch.process import Process
from ganglion.supervisor.life import Event, State
from ganglion.supervisor.runs import Run, wait_gone
from ganglion.synced import sync, write_synced
from ganglion.wire.journal import LARGE_FOLDER, last_request, read_records
from ganglion.wire.messages import Failure, GovernorStart, Withdraw
from ganglion.wire.name import KERNEL

if TYPE_CHECKING:
    from ganglion.supervisor.supervisor import Supervisor

READ_BYTES = 4 * 1024 * 1024
"""Longer journals are not read for the position in a report, because that takes too long."""

_FIRST_BYTES = 64 * 1024  # the first record is the answer to HELLO


def journal_place(path: Path | None) -> tuple[int, int]:
    """Return inode and length of a journal, equal if a process is at the same place; (0, 0) without a journal."""
    try:
        found = None if path is None else path.lstat()
    except OSError:
        found = None
    return (0, 0) if found is None else (found.st_ino, found.st_size)


def journal_age_s(path: Path | None) -> float:
    """Return the number of seconds that a journal covers, at most; zero if that is not known."""
    try:
        first = next(read_records(_read(path, _FIRST_BYTES)), None)
    except (OSError, GanglionError):
        return 0.0
    return 0.0 if first is None else max(0.0, time.monotonic() - first.time_s)


def journal_position(path: Path | None, most: int = READ_BYTES) -> str | None:
    """Return the last call in a journal with its position, None if not known; later calls may be missing."""
    try:
        found = "" if journal_place(path)[1] > most else last_request(_read(path))
    except (OSError, GanglionError):
        return None
    return f"after {found}" if found else None


def _read(path: Path | None, most: int = -1) -> bytes:
    if path is None:
        raise FileNotFoundError("the process writes no journal")
    with open_regular(path) as file:
        return file.read(most)


_FIRST: Mapping[str, Any] = {"phase": 0, "models": []}


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """Hold how a run resumes.

    Without `begin` every process continues from its journal; the journals of `checkpoint`, if not None, are restored
    first. `begin` is the checkpoint at the begin of a phase; the run repeats this phase without journals. `words`
    describes the plan. `wrong` lists what could not be used. `stopped` says that the run was interrupted: results that
    were sealed afterwards are not those of an uninterrupted run.
    """

    words: str
    begin: Mapping[str, Any] | None = None
    checkpoint: Checkpoint | None = None
    wrong: list[str] = field(default_factory=list)
    stopped: bool = False


def recovery_plan(folder: Path, run: str, status: str | None, journaled: bool, stopping: bool = False) -> RecoveryPlan:
    """Return how the run in a folder resumes; `status` is None if the run was killed with its supervisor.

    `journaled`: its journals are complete and of the instant of the kill. `stopping`: it had been interrupted before.
    """
    checkpoint, wrong = Checkpoints(folder).newest()
    if checkpoint is not None and checkpoint.facts.get("run") != run:
        wrong = [*wrong, f"checkpoint {checkpoint.folder}: it is of another run"]
        checkpoint = None
    stopped = stopping or status == "interrupted"
    if status is None and journaled and not stopped:
        return RecoveryPlan("every process goes on where it was", wrong=wrong)
    if checkpoint is not None and status in (None, "interrupted"):
        what = "where it was interrupted" if checkpoint.facts.get("stop") else f"at its checkpoint {checkpoint.number}"
        return RecoveryPlan(f"every process goes on {what}", checkpoint=checkpoint, wrong=wrong, stopped=stopped)
    begin, damaged = newest_phase_checkpoint(folder, run)
    words = f"it goes on with the begin of phase {begin['phase']}"
    return RecoveryPlan(words, begin=begin, wrong=[*wrong, *damaged], stopped=stopped)


def newest_phase_checkpoint(folder: Path, run: str) -> tuple[Mapping[str, Any], list[str]]:
    """Return the newest intact checkpoint of a phase's begin (or of the run's), and the faults of later ones."""
    wrong: list[str] = []
    for path in sorted((folder / FOLDER).glob("phase-*.json"), reverse=True):
        try:
            begin = read_checkpoint(path.read_bytes(), str(path))
        except (OSError, StoreError) as error:
            wrong.append(str(error))
            continue
        found = list(_faults(folder, run, begin))
        if not found:
            return begin, wrong
        wrong += [f"checkpoint {path}: {text}" for text in found]
    return _FIRST, wrong


def forget_later_phases(folder: Path, phase: int) -> None:
    """Remove the checkpoints of the begins of phases behind this one, whose rows a run that goes back withdraws."""
    for path in (folder / FOLDER).glob("phase-*.json"):
        if path.name > phase_checkpoint_name(phase):
            path.unlink(missing_ok=True)


def _faults(folder: Path, run: str, begin: Mapping[str, Any]) -> Iterator[str]:
    if begin.get("run") != run:
        yield "it is of another run"
        return
    files = Files(folder)
    for row in (row for row in begin.get("rows", ()) if row[0] == "brain"):
        yield from (f"model {name}: {text}" for name, text in files.model(str(row[9]), row[8]))


_JOURNALS = ("journals/*.journal", "users/*/*.journal")  # the journals of a run, relative to its folder
_JOURNAL = re.compile(r"(journals|users/\d+)/[^/]+\.journal")  # the only valid form of a journal's path
_FACTS = "checkpoint.json"
_FOLDER = "checkpoint-"  # and its number
_KEPT = 2
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Hold a checkpoint of all processes: its folder, facts, and journal lengths by path below the run's folder."""

    folder: Path
    facts: Mapping[str, Any]
    journals: Mapping[str, int]

    @property
    def number(self) -> int:
        """Return the number of the checkpoint within the run."""
        return _number(self.folder)


class Checkpoints:
    """Write and find the checkpoints of all processes of a run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._checkpoints = folder / FOLDER

    # -- writing ------------------------------------------------------------------------------------------------------
    def note(self, quiesce: AbstractContextManager[bool], journals: Sequence[Path]) -> Checkpoint | None:
        """Link journals while their processes are stopped; None if one cannot be stopped or is missing, StoreError."""
        number = max(map(_number, self._folders()), default=0) + 1
        path = self._checkpoints / f"{_FOLDER}{number:09}"
        try:
            self._checkpoints.mkdir(mode=0o700, exist_ok=True)
            path.mkdir(mode=0o700)
            with quiesce as quiet:
                if quiet and all(journal.exists() for journal in journals):
                    _link_large({journal.parent / LARGE_FOLDER for journal in journals}, path / LARGE_FOLDER)
                    return Checkpoint(path, {}, self._link(journals, path))
        except OSError as error:
            shutil.rmtree(path, ignore_errors=True)
            raise StoreError(f"checkpoint {path}: cannot be written: {error}") from error
        shutil.rmtree(path, ignore_errors=True)
        return None

    def _link(self, journals: Sequence[Path], path: Path) -> dict[str, int]:
        """Link journals into a folder; return the length of each by its path relative to the run's folder."""
        lengths = {}
        for journal in journals:
            os.link(journal, path / journal.name, follow_symlinks=False)
            lengths[journal.relative_to(self._folder).as_posix()] = (path / journal.name).stat().st_size
        return lengths

    def keep(self, checkpoint: Checkpoint, facts: Mapping[str, Any]) -> None:
        """Make a checkpoint durable, with facts about it, and remove older ones; StoreError if that fails."""
        try:
            for name in checkpoint.journals:
                sync(checkpoint.folder / Path(name).name)
            for blob in (checkpoint.folder / LARGE_FOLDER).glob("*"):
                sync(blob)
            text = checkpoint_text({**facts, "journals": dict(checkpoint.journals)})
            write_synced(checkpoint.folder / _FACTS, text.encode(), 0o600)
            sync(self._checkpoints)
        except OSError as error:
            shutil.rmtree(checkpoint.folder, ignore_errors=True)
            raise StoreError(f"checkpoint {checkpoint.folder}: cannot be written: {error}") from error
        for path in self._folders()[:-_KEPT]:
            shutil.rmtree(path, ignore_errors=True)

    # -- finding ------------------------------------------------------------------------------------------------------
    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """Return the newest intact checkpoint, None if there is none, and the faults of later ones."""
        wrong: list[str] = []
        for path in reversed(self._folders()):
            if not (path / _FACTS).exists():
                continue  # incomplete: the run ended while it was written
            try:
                return self._read(path), wrong
            except StoreError as error:
                wrong.append(str(error))
        return None, wrong

    def _read(self, path: Path) -> Checkpoint:
        file = path / _FACTS
        try:
            facts = read_checkpoint(file.read_bytes(), str(file))
            journals = {str(name): int(length) for name, length in facts["journals"].items()}
            for name, length in journals.items():
                if not _JOURNAL.fullmatch(name) or length < 0:
                    raise ValueError(f"{name!r:.80} of {length} bytes is no journal of a run")
                found = (path / Path(name).name).stat().st_size
                if found < length:
                    text = f"expected at least {length} bytes, found {found}"
                    raise StoreError(f"checkpoint {path / Path(name).name}: the file is damaged: {text}")
        except (OSError, KeyError, AttributeError, TypeError, ValueError) as error:
            raise StoreError(f"checkpoint {path}: cannot be read: {type(error).__name__}: {error}") from error
        return Checkpoint(path, facts, journals)

    def _folders(self) -> list[Path]:
        return sorted(self._checkpoints.glob(_FOLDER + "[0-9]" * 9))

    # -- restoring ----------------------------------------------------------------------------------------------------
    def restore(self, checkpoint: Checkpoint) -> None:
        """Replace all journals of the run by those of a checkpoint; after a StoreError it may be called again."""
        try:
            fresh = {name: self._beside(checkpoint, name) for name in checkpoint.journals}
            for path in self._journals():
                path.unlink()
            for name, path in fresh.items():
                path.rename(self._folder / name)
            for parent in {(self._folder / name).parent for name in fresh}:
                _link_large({checkpoint.folder / LARGE_FOLDER}, parent / LARGE_FOLDER)
        except OSError as error:
            raise StoreError(f"checkpoint {checkpoint.folder}: the journals cannot be put back: {error}") from error

    def _beside(self, checkpoint: Checkpoint, name: str) -> Path:
        source, path = checkpoint.folder / Path(name).name, self._folder / f"{name}.back"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.unlink(missing_ok=True)
        with open_regular(source) as given, path.open("xb") as taken:  # another user may own the source
            path.chmod(0o600)
            left = checkpoint.journals[name]
            while left:
                piece = given.read(min(left, _PIECE_BYTES))
                if not piece:
                    raise OSError(f"{left} bytes are missing")
                left -= taken.write(piece)
        owner = source.stat()
        if owner.st_uid != os.getuid():
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
        return path

    def _journals(self) -> list[Path]:
        return [path for pattern in _JOURNALS for path in self._folder.glob(pattern)]

    def forget(self) -> None:
        """Remove all checkpoints of processes and all journals, because a phase begins again."""
        for path in self._folders():
            shutil.rmtree(path, ignore_errors=True)
        for path in self._journals():
            shutil.rmtree(path.parent / LARGE_FOLDER, ignore_errors=True)
            path.unlink(missing_ok=True)


def _link_large(sources: Iterable[Path], target: Path) -> None:
    """Link the large blobs of some folders' journals into another folder."""
    own = [source for source in (*sources, target) if not source.is_symlink()]  # another user may have made a link
    for blob in (file for source in own for file in source.glob("*") if target in own and not file.suffix):
        if not target.exists():
            target.mkdir(mode=0o700)
            owner = target.parent.stat()
            os.chown(target, owner.st_uid, owner.st_gid)
        with contextlib.suppress(FileExistsError):
            os.link(blob, target / blob.name, follow_symlinks=False)


def _number(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def forget(folder: Path) -> None:
    """Remove what only a resume needs: process table, checkpoints of all processes, journals."""
    (folder / PROCESS_TABLE).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        Checkpoints(folder).forget()
    shutil.rmtree(folder / "journals", ignore_errors=True)


_COST_FACTOR = 20  # a checkpoint may cost at most one twentieth of the interval
_STOP_S = 2.0  # how long an interrupted run may wait for a process that is being replaced


class Checkpointer:
    """Write the checkpoints of one run.

    No checkpoint is written if a participating program writes no journal, or if lost processes are not replaced.
    """

    def __init__(self, supervisor: Supervisor, run: Run) -> None:
        self._supervisor, self._run = supervisor, run
        self._checkpoints = Checkpoints(run.folder.path)
        self._lock = asyncio.Lock()
        self._stopping = asyncio.Lock()
        self._stopped = False

    async def watch(self) -> None:
        """Write a checkpoint whenever `checkpoint_s` of the phase and twenty times the last cost have passed."""
        cost_s = 0.0
        while not self._run.over.is_set():
            phase = self._run.plan.phases[self._run.phase]
            await asyncio.sleep(max(phase.checkpoint_s, _COST_FACTOR * cost_s))
            if self._run.over.is_set() or self._stopped:
                return
            begun_s = time.monotonic()
            await self.take()
            cost_s = time.monotonic() - begun_s

    async def stop(self) -> None:
        """Write the checkpoint of an interruption; only the first call writes one, concurrent calls wait for it."""
        async with self._stopping:
            until_s = time.monotonic() + _STOP_S
            while not self._stopped and self._possible() and time.monotonic() < until_s:
                self._stopped = await self.take(stop=True)
                if not self._stopped:
                    await asyncio.sleep(RETRY_S["broker"])
            self._stopped = True

    async def take(self, stop: bool = False) -> bool:
        """Write a checkpoint of the present instant, in which a run may `stop`; return True on success."""
        async with self._lock:
            try:
                there = self._there()
                # No other task of this process runs while the processes are stopped.
                checkpoint = (
                    None if there is None else self._checkpoints.note(self._supervisor.quiesced(there[0]), there[1])
                )
                if checkpoint is None:
                    return False
                facts = {"run": self._run.id, "phase": self._run.phase, "stop": stop}
                await asyncio.to_thread(self._checkpoints.keep, checkpoint, facts)
            except StoreError as error:
                text = f"{error}; should all processes be lost, the run goes on from an earlier one"
                self._supervisor.tell(self._run, event.WARNING, {"text": text})
                return False
        return True

    def _possible(self) -> bool:
        """Return True if the run recovers losses and every process of its phase writes a journal."""
        run = self._run
        alive = run.begun and not run.over.is_set()
        return alive and run.journaled and all(ours(place) for place in run.places(run.phase))

    def _there(self) -> tuple[list[Process], list[Path]] | None:
        """Return the processes of the phase and their journals, None while one is missing."""
        run, processes, journals = self._run, list[Process](), list[Path]()
        for place in run.needed() if self._possible() else ():
            member = run.members.get(place.name)
            if member is None or not member.joined or member.child.state is not State.RUNNING:
                return None
            processes.append(member.process)
            journals.append(run.folder.journal(place))
        return (processes, journals) if processes else None


_REPLAY_BYTES_PER_S = 1_000_000  # lower bound for the speed of a replay


async def prepare(run: Run, recovery: RecoveryPlan) -> None:
    """Restore the journals of a run that resumes; StoreError if that fails."""
    checkpoints = Checkpoints(run.folder.path)
    run.recovery = recovery
    table = await asyncio.to_thread(read_process_table, run.folder.path)
    if table is not None:
        for name, life in table.lives.items():  # incarnations are never reused
            run.incarnations[name] = max(life.incarnation, run.incarnations.get(name, 0))
        run.signals = run.signals or [(phase, signal) for phase, signal in table.signals]
    if recovery.begin is not None:
        run.phase = int(recovery.begin["phase"])
        await asyncio.to_thread(checkpoints.forget)
    elif recovery.checkpoint is not None:
        run.phase = int(recovery.checkpoint.facts["phase"])
        await asyncio.to_thread(checkpoints.restore, recovery.checkpoint)
        await asyncio.to_thread(forget_later_phases, run.folder.path, run.phase)
    elif table is not None:  # the journals belong to the phase that was running
        run.phase = min(table.phase, len(run.plan.phases) - 1)
    run.withdrawal = _withdrawal(run, recovery)
    if recovery.begin is not None:
        run.unheard = _unheard(run)
    compared = "GANGLION_WITHDRAW_ALL" not in run.withdrawal and not run.keeps(run.phase)
    run.again = run.phase if recovery.begin is not None and compared else None


def _unheard(run: Run) -> str:
    """Remove the operators' signals of the phases that begin again; return a text that names them."""
    gone = [signal for phase, signal in run.signals if phase >= run.phase]
    run.signals = [(phase, signal) for phase, signal in run.signals if phase < run.phase]
    if not gone:
        return ""
    return (
        f"phase {run.phase} begins again without what operators have signalled in it ({', '.join(gone)}): it is "
        "not known at which step each was heard; signal again what is still wanted"
    )


def _withdrawal(run: Run, recovery: RecoveryPlan) -> dict[str, str]:
    """Return the variables that tell the store which rows to withdraw.

    Open episodes are always withdrawn. Rows sealed after a checkpoint of all processes are withdrawn: they come again,
    and differ after an interruption, which ends episodes early. Rows sealed after the begin of a phase are compared
    when they come again, unless the run was interrupted in it. A phase that is not repeatable keeps its rows.
    """
    if recovery.begin is None and recovery.checkpoint is None:
        return {}
    told = {"GANGLION_WITHDRAW": str(run.phase)}
    if recovery.checkpoint is not None:
        told["GANGLION_WITHDRAW_BEHIND"] = str(run.phase)
    elif (recovery.stopped or run.interrupts) and not run.keeps(run.phase):
        told["GANGLION_WITHDRAW_ALL"] = str(run.phase)
    return told


async def begin(supervisor: Supervisor, run: Run) -> None:
    """Start all processes that the present phase of a run needs, and have the governor start or resume."""
    recovery, places = run.recovery, run.needed()
    if not run.rewound:
        told: dict[str, Any] = {"seed": run.plan.seed, "processes": len(places) + 1}
        resumed = {} if recovery is None else {"resumed": recovery.words}
        supervisor.tell(run, event.RUN_STARTED, {**told, "participants": participants(places), **resumed})
    await supervisor.ensure(run, places)
    store = run.store_place.name if run.store_place else None
    first = [run.governor.name, *([store] if store else [])]
    journals = [journal for name in first if (journal := run.members[name].journal) is not None]
    longest = max((journal.stat().st_size for journal in journals if journal.exists()), default=0)
    await supervisor.wait_joined(run, first, (DEADLINES_S["join"] or 0.0) + longest / _REPLAY_BYTES_PER_S)
    run.withdrawal = {}
    if recovery is None or recovery.begin is not None:
        tree = await asyncio.to_thread(run.plan.to_map)
        again = None if recovery is None or recovery.begin is None else dict(recovery.begin)
        await supervisor.bus.ask(run.governor.name, "governor.start", GovernorStart(run.id, tree, store, None, again))
    unstopped = run.interrupts and not run.begun
    run.begun = True
    if recovery is not None and recovery.begin is None and not run.rewound:  # the governor resumes within a phase
        supervisor.tell(run, event.PHASE_STARTED, {**run.plan.phases[run.phase].started(), "resumed": True})
    await supervisor.note(run)
    if run.unheard:
        supervisor.tell(run, event.WARNING, {"text": run.unheard})
        supervisor.restarter.report(run, "operator", 0, "signals lost", run.unheard)
    if unstopped:
        await supervisor.ask_stop(run)


async def rewind(supervisor: Supervisor, run: Run, reason: str, peer: str) -> None:
    """Begin a run again at its newest checkpoint of a phase's begin; a second rewind fails the run."""
    text = reason.partition("\n")[0]
    if run.rewound:
        run.fail(f"nondeterministic: {text}", Failure("nondeterministic", reason), peer)
        return
    run.rewound = True
    if run.beginning is not None and run.beginning.cancel():
        await asyncio.wait([run.beginning])
    async with run.changing:
        try:
            await _end_all(supervisor, run)
            found, wrong = await asyncio.to_thread(newest_phase_checkpoint, run.folder.path, run.id)
            words = f"it goes back to the begin of phase {found['phase']}: {text}"
            for warning in (*wrong, words):
                supervisor.tell(run, event.WARNING, {"text": warning})
            await prepare(run, RecoveryPlan(words, found))
            await begin(supervisor, run)
            number = run.incarnations.get(peer, 0)
            supervisor.restarter.report(run, peer.partition("/")[2], number, "rewound", words)
        except (GanglionError, OSError) as error:
            run.fail(f"nondeterministic: {text}; and it cannot begin again: {error}", None, peer)


async def _end_all(supervisor: Supervisor, run: Run) -> None:
    """Kill all processes of a run without replacing them; LaunchError if one survives."""
    run.begun = False
    members, run.members = list(run.members.values()), {}
    for member in members:
        member.end(Event.KILL)
    run.former += members
    await wait_gone(members, 2 * LEAVE_KILL_S)
    late = [member for member in members if not member.gone.is_set()]
    if late:
        raise LaunchError(f"{len(late)} processes cannot be ended")
    await supervisor.bus.ask(KERNEL, "kernel.withdraw", Withdraw([member.name for member in members]))
