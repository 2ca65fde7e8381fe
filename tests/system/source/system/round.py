"""Rounds: a real run that is disturbed as a scene says, and what is wrong with it afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from system.attachers import Attachers
from system.command import Command, ganglion, private
from system.fault import Scene, Strike
from system.processes import MARKER, Seen, below, left_of, marked, shared_memory
from system.world import EPISODES, RUN, write_world

SPAN_S = 90.0  # a run of these takes three seconds; five losses and a machine under load have time
_PAUSE_S = 0.001
_SEARCH_S = 2.0  # for a victim that is being started anew
_GONE_S = 2.0
_TABLES = ("phases", "episodes", "steps", "actions", "signals", "evaluations", "brains")
_NOT_RESULTS = {"run", "created", "path", "bytes", "completed", "brain"}
_RESUMED = ("everything", "supervisor", "interrupt")


@dataclass(frozen=True, slots=True)
class Reference:
    """Hold what undisturbed runs came to: their common digest, how long they took and how long they told events."""

    workers: int
    digest: str
    took_s: float
    span_s: float
    folder: Path


@dataclass(slots=True)
class Verdict:
    """Say how a round went; it is good if there are no defects, and proves something if a strike has hit."""

    scene: Scene
    folder: Path
    statuses: list[int] = field(default_factory=list)
    took_s: float = 0.0
    over_s: float = 0.0
    hits: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    restarts_s: list[float] = field(default_factory=list)  # from each loss until its successor has joined
    defects: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Driver:
    """Watch one command and strike when it is time."""

    def __init__(self, command: Command, folder: Path, marker: str, span_s: float) -> None:
        self.command, self.folder, self.marker = command, folder, marker
        self.span_s = span_s  # of an undisturbed run, from its first event to its last
        self.counts: Counter[str] = Counter()
        self.hits: list[Strike] = []
        self.names: list[tuple[Strike, str]] = []  # whom it has hit
        self.missed: list[str] = []
        self.late: list[Strike] = []  # hit after the last phase
        self.shared: set[str] = set()
        self.broken = ""  # a line that is no event
        self._read = 0
        self._pending: dict[int, Strike] = {}
        self._due: dict[int, float] = {}
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._began_s: float | None = None
        self.attached: Callable[[], list[int]] = list  # the environments that we start ourselves
        self._writes = 0
        self._written = 0

    def drive(self, strikes: dict[int, Strike]) -> None:
        """Watch until the command has ended; strikes are by the number of their trip."""
        self._pending = dict(strikes)
        while self.command.process.poll() is None:
            self._hear()
            self._look_at_store()
            for index, strike in list(self._pending.items()):
                self._consider(index, strike)
            now_s = time.monotonic()
            for due_s, action in [later for later in self._later if later[0] <= now_s]:
                self._later.remove((due_s, action))
                action()
            time.sleep(_PAUSE_S)
        for _, action in self._later:
            action()
        self.command.output()
        self._hear()
        self.missed += [str(strike) for strike in self._pending.values()]

    def _hear(self) -> None:
        lines = self.command.out.lines
        while self._read < len(lines):
            try:
                event = json.loads(lines[self._read])
            except ValueError:
                self.broken = lines[self._read]
                event = {"event": ""}
            self._read += 1
            self.command.events.append(event)
            self.counts[event["event"]] += 1
            if self._began_s is None:
                self._began_s = time.monotonic()

    def _look_at_store(self) -> None:
        with contextlib.suppress(OSError):
            written = (self.folder / "results" / "ganglion.db-wal").stat().st_mtime_ns
            self._writes += written != self._written
            self._written = written

    def _consider(self, index: int, strike: Strike) -> None:
        moment, now_s = strike.moment, time.monotonic()
        if index not in self._due:
            if moment.kind == "share":
                reached = self._began_s is not None and now_s >= self._began_s + moment.share * self.span_s
            elif moment.kind == "event":
                reached = self.counts[moment.name] >= moment.number
            elif moment.kind == "storing":
                reached = self._writes >= moment.number
            elif moment.kind == "file":
                found = (self.folder / "results" / RUN).glob(moment.name)
                reached = sum(not path.name.startswith(".") for path in found) >= moment.number
            else:
                reached = (self.folder / f"tripped-{index}").exists()
            if not reached:
                return
            self._due[index] = now_s + moment.delay_s
        if now_s >= self._due[index] and (self._strike(index, strike) or now_s > self._due[index] + _SEARCH_S):
            self._release(index)
            if self._pending.pop(index) not in self.hits:
                self.missed.append(f"{strike}: nobody there")

    def _release(self, index: int) -> None:
        """Let a hook that waits in its place go on."""
        (self.folder / f"go-{index}").touch()

    def _strike(self, index: int, strike: Strike) -> bool:
        """Do it; return whether there was somebody to do it to."""
        name = strike.role
        if strike.own:
            pid = int((self.folder / f"tripped-{index}").read_text() or 0)
            if not pid:
                return False  # it is just being written
            if strike.deed == "stop" and strike.span_s is not None:
                self._after(strike.span_s, lambda: _send(pid, signal.SIGCONT))
        elif strike.deed in ("kill", "stop"):
            victim = self._victim(strike)
            if victim is None:
                return False
            name = victim.name
            self._hurt(victim.pid, strike)
        elif strike.deed in ("lock", "move", "fill"):
            if not self._disturb_store(strike):
                return False
        else:
            self._end_all(strike)
        self.hits.append(strike)
        self.names.append((strike, name))
        if self.counts["phase.ended"] >= 2:
            self.late.append(strike)
        return True

    def _victim(self, strike: Strike) -> Seen | None:
        seen = below(self.command.process.pid)
        self.shared |= shared_memory([s.pid for s in seen])
        chosen = [s for s in seen if s.role == strike.role]
        if strike.role == "environment":
            chosen += [Seen(pid, "environment", "attached", 0) for pid in self.attached()]
        return chosen[strike.pick % len(chosen)] if chosen else None

    def _hurt(self, pid: int, strike: Strike) -> None:
        if strike.deed == "kill":
            _send(pid, signal.SIGKILL)
            return
        _send(pid, signal.SIGSTOP)
        if strike.span_s is not None:
            self._after(strike.span_s, lambda: _send(pid, signal.SIGCONT))

    def _end_all(self, strike: Strike) -> None:
        supervisor = self.command.process
        if strike.deed == "interrupt":
            supervisor.send_signal(signal.SIGINT)
            return
        others = [] if strike.deed == "supervisor" else list(marked(self.marker))
        supervisor.kill()
        for pid in others:
            _send(pid, signal.SIGKILL)

    def _disturb_store(self, strike: Strike) -> bool:
        database = self.folder / "results" / "ganglion.db"
        span_s = strike.span_s or 1.0
        if not database.exists():
            return False
        if strike.deed == "lock":
            held = sqlite3.connect(database, isolation_level=None, check_same_thread=False, timeout=0.0)
            try:
                held.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:  # it writes just now
                held.close()
                return False
            self._after(span_s, held.close)
        elif strike.deed == "move":
            if not _has_run(database):
                return (
                    False  # a store that is being opened makes another file, which moving this one back would destroy
                )
            away = self.folder / "away.db"
            database.rename(away)
            self._after(span_s, lambda: away.rename(database))
        else:
            return self._fill(strike, span_s)
        return True

    def _fill(self, strike: Strike, span_s: float) -> bool:
        """Let the files of the store not grow for a while."""
        import resource

        victim = self._victim(strike)
        if victim is None:
            return False
        pid, kind = victim.pid, resource.RLIMIT_FSIZE
        size = (self.folder / "results" / "ganglion.db-wal").stat().st_size
        _, hard = resource.prlimit(pid, kind)
        resource.prlimit(pid, kind, (size, hard))

        def empty() -> None:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, kind, (hard, hard))

        self._after(span_s, empty)
        return True

    def _after(self, span_s: float, action: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + span_s, action))


def _send(pid: int, signum: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)


class Round:
    """Play a scene in a folder of its own, whose path is short, and judge what came of it.

    `recover` is the document's `on_loss`.
    """

    def __init__(self, scene: Scene, reference: Reference, folder: Path, recover: str = "recover") -> None:
        self.scene, self.reference, self.folder = scene, reference, folder
        self.recover = recover
        self.verdict = Verdict(scene, folder)
        self.events: list[dict[str, Any]] = []
        self._late: list[Strike] = []
        self._names: list[tuple[Strike, str]] = []

    def play(self) -> Verdict:
        """Run, disturb, resume where that is the scene; judge."""
        strikes = dict(enumerate(self.scene.strikes))
        trips = [strike.trip or {"place": "", "number": 1, "deed": "wait"} for strike in strikes.values()]
        workers, form = self.scene.workers, self.scene.form
        write_world(self.folder, workers, EPISODES[workers], trips, self.recover, form=form)
        began_s = time.monotonic()
        resumed = self.scene.kind in _RESUMED
        first = {0: strikes.pop(0)} if resumed else strikes
        status = self._carry_out(first, "run", "chaos.yml", "--name", RUN)
        while resumed and status != 0 and len(self.verdict.statuses) <= len(self.scene.strikes):
            self._judge_end(status)
            again = dict([strikes.popitem()]) if strikes else {}
            status = self._carry_out(again, "resume", RUN)
            told = (self.folder / f"err-{len(self.verdict.statuses) - 1}.txt").read_text()
            if "has finished (completed)" in told:
                status = self.verdict.statuses[-1] = 0  # it was killed behind the end of the run
        self.verdict.took_s = time.monotonic() - began_s
        self.verdict.over_s = self.verdict.took_s - self.reference.took_s
        self.judge(status)
        return self.verdict

    def _carry_out(self, strikes: dict[int, Strike], *words: str) -> int:
        marker = f"{self.folder}-{len(self.verdict.statuses)}"
        more = {**private(self.folder), MARKER: marker}
        command = Command(self.folder, *words, more=more, span_s=SPAN_S)
        began_s = time.monotonic()
        driver = Driver(command, self.folder, marker, self.reference.span_s)
        try:
            with _started(self.folder, self.scene.workers, self.scene.form) as pids:
                driver.attached = pids
                driver.drive(strikes)
        except BaseException:  # a test that is cut short leaves no run behind
            command.kill()
            raise
        status = command.process.returncode
        number = len(self.verdict.statuses)
        (self.folder / f"out-{number}.jsonl").write_text("".join(command.out.lines))
        (self.folder / f"err-{number}.txt").write_text(command.err.rest())
        if time.monotonic() - began_s >= SPAN_S:
            self.verdict.defects.append(f"it did not end within {SPAN_S:.0f} s")
        if driver.broken and status >= 0:
            self.verdict.defects.append(f"no event: {driver.broken!r:.200}")
        left = left_of(marker, _GONE_S)
        if left:
            self.verdict.defects.append(f"processes are left: {left}")
            for pid in left:
                _send(pid, signal.SIGKILL)
        self.verdict.defects += [f"shared memory is left: {f}" for f in driver.shared if Path(f).exists()]
        self.verdict.statuses.append(status)
        self.verdict.hits += map(str, driver.hits)
        self.verdict.missed += driver.missed
        told = [event for event in command.events if event["event"] == "peer.restarted"]
        self.verdict.restarts_s += [float(event.get("took_s", 0.0)) for event in told]
        self.events += command.events
        self._late += driver.late
        self._names += driver.names
        return status

    def _judge_end(self, status: int) -> None:
        """Judge how a run was cut short."""
        expected = 130 if self.scene.kind == "interrupt" else -signal.SIGKILL
        if status != expected:
            self.verdict.defects.append(f"cut short, it ended with {status} in place of {expected}")

    def judge(self, status: int) -> None:
        """Note what is wrong with the results of a run that ended with a status, and with what it left."""
        defects = self.verdict.defects
        if status != 0:
            story = self.events[-1].get("story") if self.events else None
            said = (self.folder / f"err-{len(self.verdict.statuses) - 1}.txt").read_text()
            defects.append(f"it ended with {status}: {story or said[-1500:]}")
        left = [*self.folder.glob("ganglion-*"), *self.folder.rglob("connection.json")]
        defects += [f"a file is left: {path.relative_to(self.folder)}" for path in left]
        done = ganglion(self.folder, "verify", RUN, "--digest", "--json", more=private(self.folder))
        if done.returncode != 0:
            defects.append(f"verify ended with {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
        elif status == 0:
            digest = json.loads(done.stdout)["runs"][0]["digest"]
            if digest != self.reference.digest:
                defects.append(f"other results: {difference(self.reference.folder, self.folder)}")
        self._judge_incidents()

    def _judge_incidents(self) -> None:
        """Each process that was killed is named in the table of incidents."""
        done = ganglion(self.folder, "results", "incidents", RUN, "--json", more=private(self.folder))
        if done.returncode != 0:
            self.verdict.defects.append(f"no incidents: {done.stderr[-300:]}")
            return
        told = [str(row["name"]) for row in json.loads(done.stdout)]
        for strike, name in self._names:
            if strike.deed not in ("kill", "crash", "exit") or strike.role == "warm":
                continue  # the warm parent takes no part in a run
            if any(_is_of(strike.role, text) for text in told):
                continue
            where = self.verdict.notes if strike in self._late else self.verdict.defects
            where.append(f"no incident names {name} ({strike.role}); told: {sorted(set(told))}")


def _is_of(role: str, name: str) -> bool:
    """Say whether the name of an incident is one of a role: `chaos/muscle/ada/0`, `broker`, `warm parent`."""
    return role in name.replace("/", " ").replace("-", " ").split()


def _rows(folder: Path, table: str) -> list[dict[str, Any]]:
    done = ganglion(folder, "results", table, RUN, "--json", more=private(folder))
    rows: list[dict[str, Any]] = json.loads(done.stdout) if done.returncode == 0 else []
    return [{k: v for k, v in row.items() if k not in _NOT_RESULTS} for row in rows]


def difference(folder: Path, other: Path) -> str:
    """Return where the tables of two runs differ first."""
    for table in _TABLES:
        ours, theirs = _rows(folder, table), _rows(other, table)
        for number, (a, b) in enumerate(zip(ours, theirs, strict=False)):
            if a != b:
                columns = [c for c in a if a[c] != b.get(c)]
                place = {k: a[k] for k in ("phase", "worker", "episode", "step", "agent") if k in a}
                values = [(c, a[c], b.get(c)) for c in columns][:3]
                return f"{table} row {number} {place}: {values!r:.600}"
        if len(ours) != len(theirs):
            return f"{table}: expected {len(ours)} rows, found {len(theirs)}"
    return "no table that is shown"


@contextlib.contextmanager
def _started(folder: Path, workers: int, form: str) -> Iterator[Callable[[], list[int]]]:
    """Start what a document leaves to others; yield what tells its processes."""
    if form != "attach":
        yield list
        return
    with Attachers(folder, "e", 2 * workers) as attachers:  # evaluations have places of their own
        yield attachers.pids


def reference(workers: int, folder: Path, times: int = 2, form: str = "plugin") -> Reference:
    """Run undisturbed some times; AssertionError if that is not possible, or not twice the same."""
    digests, took, spans = set(), [], []
    for number in range(times):
        place = folder / f"r{workers}{form[0]}{number}"
        write_world(place, workers, EPISODES[workers], form=form)
        began_s = time.monotonic()
        command = Command(place, "run", "chaos.yml", "--name", RUN, more=private(place))
        with _started(place, workers, form):
            status, said = command.end()
        took.append(time.monotonic() - began_s)
        assert status == 0, (status, said, command.events[-1:])
        spans.append(command.events[-1]["time_s"] - command.events[0]["time_s"])
        done = ganglion(place, "verify", RUN, "--digest", "--json", more=private(place))
        assert done.returncode == 0, done.stdout + done.stderr
        digests.add(json.loads(done.stdout)["runs"][0]["digest"])
    assert len(digests) == 1, f"undisturbed runs differ: {digests}"
    return Reference(workers, digests.pop(), statistics.median(took), statistics.median(spans), place)


def _has_run(database: Path) -> bool:
    """Say whether the store has begun to write the run."""
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as held,
    ):
        return held.execute("SELECT 1 FROM runs").fetchone() is not None
    return False
