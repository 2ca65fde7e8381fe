"""A store that is killed at any moment, with its tape and database: the run in it is the one that nobody disturbed."""

from __future__ import annotations

import copy
import functools
import shutil
import sqlite3
import tempfile
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgpack
import pytest
from fakepeer import MemoryReel
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from ganglion.cli.verify import results_digest
from ganglion.errors import StoreUnavailable
from ganglion.limits import RETRY_S, STREAM_CREDIT_MESSAGES
from ganglion.peer.journal import Tape
from ganglion.peer.participant import Participant
from ganglion.peer.store import StoreHost
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, decode, encode
from ganglion.wire.messages import RecordAck, RecordBatch, Welcome
from ganglion.wire.verb import Verb
from ganglion_store.reader import SqlReader
from ganglion_store.writer import SqlWriter

RUN = "demo-1"
GOVERNOR = f"{RUN}/governor"
WORKERS, EPISODES, STEPS = 2, 3, 4
pack = msgpack.packb
Batch = list[list[Any]]


class Killed(BaseException):
    """End a process as SIGKILL would: nothing is tidied up."""


class Breaking(sqlite3.Connection):
    """Be a connection that kills its process, or breaks, in the next transaction."""

    mode = ""

    def cursor(self, factory: Any = None) -> Any:
        """Return a cursor that looks at what it executes."""
        return super().cursor(factory or _Cursor)


class _Cursor(sqlite3.Cursor):
    def execute(self, statement: str, *arguments: Any) -> Any:
        end = statement == "COMMIT"
        how, _, when = Breaking.mode.partition(" ")
        if not when or not (end or (when == "inside" and "stored_ledger" in statement)):
            return super().execute(statement, *arguments)
        Breaking.mode = ""
        if when == "after":
            super().execute(statement, *arguments)
        if how == "kill":
            raise Killed
        if when != "after":
            super().execute("ROLLBACK")
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise error


class Link:
    """Be the bus of a store."""

    def __init__(self) -> None:
        self.inbox: deque[list[bytes]] = deque()
        self.acks: list[tuple[str, RecordAck]] = []

    def send(self, frames: Sequence[bytes]) -> None:
        """Take a message."""
        envelope = decode([bytes(frame) for frame in frames])
        if envelope.head.verb is Verb.HELLO:
            body = codec_of(Welcome).encode(Welcome(1, f"{RUN}/store", 1, 0.5, 1.5, {}, RUN, 0))
            self.inbox.append(encode(Envelope("", Head(Verb.WELCOME, envelope.head.serial), body, ())))
        elif envelope.head.call == "record.ack":
            self.acks.append((envelope.peer, codec_of(RecordAck).decode(envelope.body)))

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return the next message, if there is one."""
        return self.inbox.popleft() if self.inbox else None

    def close(self) -> None:
        """Do nothing."""


# -- what is told ------------------------------------------------------------------------------------------------------
def steps(phase: int, worker: int, episode: int, first: int, count: int) -> list[Any]:
    """Return rows of an environment."""
    rows = [
        [n, n, n, None, pack([0.1 * n + episode]), pack([float(worker)]), pack([1.0]), False, False]
        for n in range(first, first + count)
    ]
    return ["steps", phase, "train", worker, "g", episode, rows]


def actions(phase: int, worker: int, episode: int, count: int) -> list[Any]:
    """Return rows of an agent."""
    row = [None, pack([0.5]), pack([1.0]), None, pack([2.0]), 1.0, False, False, None]
    return ["actions", phase, "train", worker, "ada", episode, [[0, n, *row] for n in range(count)]]


def sealed(phase: int, worker: int, episode: int, count: int, reason: str = "environment") -> list[Any]:
    """Return the end of an episode."""
    return ["episode", phase, "train", worker, None, episode, count, True, False, reason, episode]


def of_worker(worker: int, phase: int) -> list[Batch]:
    """Return the batches of a worker's phase: seals and the begin of the next episode share one."""
    found: list[Batch] = [[]]
    for n in range(EPISODES):
        found[-1].append(steps(phase, worker, n, 1, 1))
        found.append([steps(phase, worker, n, 2, 2), actions(phase, worker, n, 2)])
        rest = actions(phase, worker, n, STEPS)
        rest[-1] = rest[-1][2:]
        found.append([steps(phase, worker, n, 4, STEPS - 3), rest, sealed(phase, worker, n, STEPS)])
    return found


def begin(phase: int) -> list[Any]:
    """Return the record that a phase begins."""
    return ["phase", phase, f"p{phase}", "train", "running", None]


def of_governor(phase: int) -> list[Batch]:
    """Return the batches of the governor in a phase, from its begin to its end."""
    lists = [("sensor", "g.a"), ("actuator", "g.x"), ("reward", "g.r")]
    declared = [
        ["declare", phase, *owner, kind, [[name, "Box", None, "<f8", []]]]
        for owner in (("g", None), (None, "ada"))
        for kind, name in lists
    ]
    found = [[*declared, begin(phase)]]
    for n in range(WORKERS * EPISODES):
        place = [n % WORKERS, n // WORKERS, STEPS, "RESET", "condition", "", None, n // WORKERS, 0]
        found.append([["signal", phase, *place, phase * 100 + n + 1]])
    evaluation = ["evaluation", phase, "ada", 1, 3, {"return": 1.0}, None, "now"]
    brain = ["brain", phase, "ada", "", 3, 6, "now", 10, "00", f"brains/{phase}/ada/model.npz"]
    return [*found, [evaluation], [brain, ["phase", phase, f"p{phase}", "train", "finished", "completed"]]]


def head() -> Batch:
    """Return how a run begins."""
    return [["run", {"uid": "demo", "experiment": "e", "seed": "1", "document": "", "started": "2030-01-01"}]]


END: Batch = [["end", "finished", "completed", "later"]]


class Writer:
    """Be a peer that writes: it keeps what is not acknowledged, and says it again."""

    def __init__(self, name: str, todo: list[Batch], life: int = 0) -> None:
        self.name, self.todo, self.number = name, todo, life << 32
        self.sent: deque[tuple[int, Batch]] = deque()

    def heard(self, ack: RecordAck) -> None:
        """Take an acknowledgement."""
        assert ack.error is None, ack.error
        while self.sent and self.sent[0][0] <= ack.number:
            self.sent.popleft()


class Stage:
    """Hold a run of two phases: its writers, its store, and what outlives the store."""

    def __init__(self, folder: str) -> None:
        self.uri = f"sqlite:///{folder}/ganglion.db"
        self.reel = MemoryReel()
        self.now_s = 0.0
        self.lives = 0
        self.compares = False  # what comes with what was sealed before
        self.link = Link()
        self.host: StoreHost | None = None
        self.begin_writers(0)

    def begin_writers(self, phase: int) -> None:
        """Let all writers begin with a phase, without a memory."""
        self.first = phase
        phases = range(phase, 2)
        own = [batch for p in phases for batch in of_governor(p)]
        self.governor = Writer(GOVERNOR, [head(), *own, END], self.lives)
        self.controllers = [
            Writer(f"{RUN}/controller/{w}", [b for p in phases for b in of_worker(w, p)], self.lives)
            for w in range(WORKERS)
        ]

    @property
    def writers(self) -> list[Writer]:
        """Return all writers."""
        return [self.governor, *self.controllers]

    @property
    def phase(self) -> int:
        """Return the phase that the governor has begun."""
        return 1 if self.first == 1 or self.begun(1) else 0

    def begun(self, phase: int) -> bool:
        """Say whether the governor has told of the begin of a phase."""
        return not any(begin(phase) in batch for batch in self.governor.todo)

    def may_say(self, writer: Writer) -> bool:
        """Say whether it is a writer's turn: phases end when all of their rows are durable."""
        if not writer.todo or len(writer.sent) >= STREAM_CREDIT_MESSAGES:
            return False
        record = writer.todo[0][-1]
        if writer is not self.governor:
            return self.begun(record[1])
        if record[0] not in ("phase", "end"):
            return True
        begun = record[0] == "phase" and record[4] == "running"
        last = record[1] - begun if record[0] == "phase" else 1
        rest = [b for c in self.controllers for b in [*c.todo, *(batch for _, batch in c.sent)]]
        return not any(row[1] <= last for batch in rest for row in batch)

    # -- what happens -------------------------------------------------------------------------------------------------
    def start(
        self, withdraw: int | None = None, limit: int = 1 << 20, behind: bool = False, everything: bool = False
    ) -> None:
        """Start the store, or its successor; what comes behind its tape, or all of a phase, is withdrawn."""
        self.link = Link()
        writer = SqlWriter(self.uri, RUN, self.lives > 0, limit, Breaking)
        self.lives += 1
        self.host = host = StoreHost(writer, 100.0, withdraw if behind else None)
        try:
            if withdraw is not None:
                writer.withdraw(withdraw)
            if withdraw is not None and everything:
                writer.withdraw_behind(withdraw, {}, {})
            participant = Participant(
                lambda: self.link, {}, host.told, host.gone, lambda: self.now_s, False, Tape(self.reel)
            )
            host.participant, participant.on_return = participant, host.reconnected
            participant.join(participant.hello("store", f"{RUN}/store", "?"))
            host.joined()
            while participant.playing:
                participant.pump(0.0)
                host.tick()
            participant.pump(0.0)
        except (Killed, StoreUnavailable):  # who cannot write what was before ends; its successor begins later
            self.kill()
        self.hear()

    def kill(self) -> None:
        """Kill the store."""
        if self.host is not None:
            writer, self.host = self.host._writer, None
            writer._connection.close()  # type: ignore[attr-defined]

    def say(self, writer: Writer, lost: bool) -> None:
        """Let a writer say its next batch."""
        writer.number += 1
        writer.sent.append((writer.number, writer.todo.pop(0)))
        if not lost:
            self.deliver(writer.name, *writer.sent[-1])

    def again(self, writer: Writer) -> None:
        """Let a writer say again what is not acknowledged."""
        for number, batch in list(writer.sent):
            self.deliver(writer.name, number, batch)

    def deliver(self, name: str, number: int, batch: Batch) -> None:
        """Let the store hear a batch, if it is there."""
        if self.host is None:
            return
        body = codec_of(RecordBatch).encode(RecordBatch(number, batch))
        self.link.inbox.append(encode(Envelope(name, Head(Verb.TELL, 0, "record.batch"), body, ())))
        self.act(lambda host: host.participant.pump(0.0))

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and the store look at its clock."""
        self.now_s += seconds
        self.act(lambda host: host.tick())

    def act(self, act: Any) -> None:
        """Do something with the store, which may die of it."""
        if self.host is not None:
            try:
                act(self.host)
            except Killed:
                self.kill()
            self.hear()

    def hear(self) -> None:
        """Let the writers hear what the store has sent."""
        for name, ack in self.link.acks:
            next(writer for writer in self.writers if writer.name == name).heard(ack)
        self.link.acks.clear()

    def moment(self) -> Any:
        """Return what would be kept of this moment: the tape, and where the writers stand."""
        return bytes(self.reel.data), self.now_s, copy.deepcopy((self.governor, self.controllers)), self.phase

    def interrupt(self, drained: int = 0) -> None:
        """End the run: open episodes are cut short, and all of it is made durable.

        `drained` episodes of each worker come to their ends, and are not what they would have become. Not where the
        phase has begun again: there all are cut short.
        """
        drained = 0 if self.compares else drained
        self.settle()
        if self.governor.todo and self.governor.todo[0] == head():
            return  # nothing was begun
        for worker, controller in enumerate(self.controllers):
            if drained:
                controller.todo = [b for b in _drained(controller, worker, drained) if self.begun(b[0][1])]
            elif controller.todo and (rows := _open_rows(controller, worker)):
                controller.todo = [[sealed(rows[0], worker, rows[1], rows[2], "interrupted")]]
            else:
                controller.todo = []
            while controller.todo:
                self.say(controller, False)
        brain = ["brain", self.phase, "ada", "", 2, 4, "now", 10, "11", "brains/cut/ada/model.npz"]
        phase = ["phase", self.phase, f"p{self.phase}", "train", "interrupted", "interrupted"]
        evaluation = ["evaluation", self.phase, "ada", 1, 2, {"return": -1.0}, None, "now"]
        told = not any(row[:2] == evaluation[:2] for batch in self.governor.todo for row in batch)
        rows = [brain, phase, ["end", "interrupted", "interrupted: operator", "now"]]
        self.governor.todo = [[*([] if told or not drained else [evaluation]), *rows]]
        self.say(self.governor, False)
        self.settle()

    def go_on(self, moment: Any) -> None:
        """Go on from a moment, with new processes; what came behind it is withdrawn."""
        self.compares = False
        self.kill()
        data, self.now_s, writers, phase = moment
        self.governor, self.controllers = copy.deepcopy(writers)
        self.reel.data[:] = data
        while self.host is None:
            self.start(withdraw=phase, behind=True)
        for writer in self.writers:
            self.again(writer)

    def rewind(self, drained: int | None) -> None:
        """Begin again with the present phase, without tapes; what was sealed is compared.

        With `drained` the run was interrupted before (`interrupt`), and all of the phase is withdrawn.
        """
        if drained is not None:
            self.settle()
        durable = not any(begin(1) in batch for _, batch in self.governor.sent)
        phase = 1 if self.first == 1 or (self.phase == 1 and durable) else 0
        if drained is not None:
            self.interrupt(drained)
        self.compares = drained is None
        self.kill()
        self.reel.data.clear()
        while self.host is None:
            self.start(withdraw=phase, everything=drained is not None)
        self.begin_writers(phase)

    def settle(self) -> None:
        """Let everything that was said become durable."""
        Breaking.mode = ""
        while self.host is None:
            self.start()
        for _ in range(100):
            for writer in self.writers:
                self.again(writer)
            self.pass_time(RETRY_S["store"])
            if not any(writer.sent for writer in self.writers):
                return
        raise AssertionError("the store does not acknowledge what it hears")

    def finish(self) -> tuple[str, list[str], Any]:
        """Let everything be said; return the digest, what is damaged, and the heads of the phases."""
        while any(writer.todo for writer in self.writers):
            self.settle()
            for writer in self.writers:
                while self.may_say(writer):
                    self.say(writer, False)
        self.settle()
        assert self.host is not None
        heads = self.host._writer.heads()
        self.host.close()
        assert heads is not None
        with SqlReader(self.uri) as reader:
            return results_digest(reader, RUN), [str(d) for d in reader.verify(RUN)], heads["phases"]


def _open_rows(controller: Writer, worker: int) -> tuple[int, int, int] | None:
    """Return phase, number and steps so far of the episode that a worker is in, None if it is in none."""
    record = controller.todo[0][0]
    phase, episode, first = record[1], record[5], record[6][0][0]
    return None if first == 1 else (phase, episode, first - 1)


def _drained(controller: Writer, worker: int, count: int) -> list[Batch]:
    """Return how a worker comes to its end that nobody else goes with: with other rows, and perhaps later."""
    if not controller.todo:
        return []
    record = next(row for row in controller.todo[0] if row[0] == "steps")
    _, phase, _, _, _, episode, rows = record
    found: list[Batch] = []
    for number in range(episode, episode + count):
        other = steps(phase, worker, number, rows[0][0], STEPS - rows[0][0] + 1)
        other[-1] = [[*row[:4], pack([-1.0]), *row[5:]] for row in other[-1]]
        found.append([other, sealed(phase, worker, number, STEPS)])
        rows = [[1]]
    return found


@functools.cache
def undisturbed() -> tuple[str, list[str], Any]:
    """Return what a run comes to whose store is never lost."""
    folder = tempfile.mkdtemp()
    try:
        stage = Stage(folder)
        stage.start()
        return stage.finish()
    finally:
        shutil.rmtree(folder)


_MODES = ["kill", "kill before", "kill inside", "kill after", "break before", "break after"]


class Machine(RuleBasedStateMachine):
    """Let anything happen to a store, in any order."""

    def __init__(self) -> None:
        super().__init__()
        Breaking.mode = ""
        self.folder = tempfile.mkdtemp()
        self.stage = Stage(self.folder)
        self.stage.start()
        self.moments: list[Any] = []

    @rule(whose=st.integers(0, WORKERS), count=st.integers(1, 6), lost=st.booleans())
    def say(self, whose: int, count: int, lost: bool) -> None:
        """Let a writer say batches; the first may be lost on its way."""
        writer = self.stage.writers[whose]
        for n in range(count):
            if self.stage.may_say(writer):
                self.stage.say(writer, lost and n == 0)

    @rule(whose=st.integers(0, WORKERS))
    def again(self, whose: int) -> None:
        """Let a writer say what is not acknowledged once more."""
        self.stage.again(self.stage.writers[whose])

    @rule(seconds=st.sampled_from([0.01, 0.1, 1.0]))
    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.stage.pass_time(seconds)

    @rule(mode=st.sampled_from(_MODES[1:]))
    def arm(self, mode: str) -> None:
        """Let the next transaction be the last of its process, or its outcome unknown."""
        Breaking.mode = mode

    @rule()
    def kill(self) -> None:
        """Kill the store between two messages."""
        self.stage.kill()

    @precondition(lambda self: self.stage.host is None)
    @rule(limit=st.sampled_from([0, 2000, 1 << 20]))
    def start(self, limit: int) -> None:
        """Start its successor, which hears the tape."""
        self.stage.start(limit=limit)

    @precondition(lambda self: self.stage.host is not None)
    @rule()
    def shorten(self) -> None:
        """Begin the tape anew, with the next transaction."""
        self.stage.host._shorten_at_bytes = 1  # type: ignore[union-attr]
        self.say(1, 2, False)
        self.stage.pass_time(RETRY_S["store"])

    @rule(mode=st.sampled_from(_MODES), whose=st.integers(0, WORKERS), limit=st.sampled_from([0, 2000, 1 << 20]))
    def lose(self, mode: str, whose: int, limit: int) -> None:
        """Lose the store, or its connection, in the midst of a transaction, and start it again."""
        Breaking.mode = mode
        self.say(whose, 3, False)
        self.stage.pass_time(RETRY_S["store"])
        if self.stage.host is None or mode == "kill":
            self.stage.kill()
            self.stage.start(limit=limit)

    @rule()
    def keep(self) -> None:
        """Keep a moment."""
        self.moments = [*self.moments[-1:], self.stage.moment()]

    @precondition(lambda self: self.moments and self.stage.lives < 24)
    @rule(interrupted=st.booleans(), drained=st.integers(0, 2))
    def go_on(self, interrupted: bool, drained: int) -> None:
        """Interrupt the run, or lose all processes; go on from the newest moment."""
        if interrupted:
            self.stage.interrupt(drained)
        self.stage.go_on(self.moments[-1])

    @precondition(lambda self: self.stage.lives < 24)
    @rule(drained=st.none() | st.integers(0, 2))
    def rewind(self, drained: int | None) -> None:
        """Begin the phase again, perhaps after the run was interrupted."""
        self.stage.rewind(drained)
        self.moments = []

    @invariant()
    def shows_whole_episodes(self) -> None:
        """Nobody who looks on sees a part of an episode, or one before its predecessor."""
        connection = sqlite3.connect(f"file:{self.folder}/ganglion.db?mode=ro", uri=True)
        try:
            episodes = connection.execute("SELECT phase, worker, episode, steps FROM episodes").fetchall()
            for table in ("steps", "actions"):
                query = f"SELECT phase, worker, episode, count(*) FROM {table} GROUP BY 1, 2, 3"
                counts = {tuple(row[:3]): row[3] for row in connection.execute(query)}
                assert {(p, w, e): n for p, w, e, n in episodes} == counts or table == "actions"
        finally:
            connection.close()
        for chain in {(p, w) for p, w, _, _ in episodes}:
            numbers = [e for p, w, e, _ in episodes if (p, w) == chain]
            assert list(range(len(numbers))) == numbers

    def teardown(self) -> None:
        """In the end the run is the one that nobody disturbed."""
        try:
            found = self.stage.finish()
            note(f"lives: {self.stage.lives}")
            assert undisturbed() == found
        finally:
            self.stage.kill()
            shutil.rmtree(self.folder)


def carry_out(examples: int) -> None:
    """Run the machine."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        Machine,
        settings=settings(max_examples=examples, stateful_step_count=30, deadline=None, suppress_health_check=checks),
    )


def test_a_run_survives_its_store() -> None:
    """Whatever is lost, repeated, broken or withdrawn: rows and chains are those of an undisturbed writer."""
    assert [] == undisturbed()[1]
    carry_out(15)


@pytest.mark.long
def test_many_runs_survive_their_stores() -> None:
    """The same many times."""
    carry_out(1500)
