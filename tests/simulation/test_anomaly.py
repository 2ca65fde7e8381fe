"""Every call of the store's database fails once, or from then on: equal results, or a failure that is named."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgpack
import pytest

from ganglion.errors import GanglionError
from ganglion.limits import RETRY_S, STREAM_CREDIT_MESSAGES
from ganglion.peer.participant import Participant
from ganglion.peer.results.store import COMMIT_S, StoreHost
from ganglion.wire.codec import codec_of
from ganglion.wire.conversation import Notice
from ganglion.wire.envelope import Head, decode_head
from ganglion.wire.messages import RecordAck, RecordBatch
from ganglion.wire.verb import Verb
from ganglion_store.command import results_digest
from ganglion_store.reader import SqlReader
from ganglion_store.writer import SqlWriter

RUN, SPAN_S = "demo-1", 5.0
GOVERNOR, CONTROLLER = "demo-1/governor", "demo-1/controller/0"
pack = msgpack.packb


class Fault:
    """Decide which call of a database fails: `once` or all from then on; before it is carried out, or after it."""

    def __init__(self, at: int, once: bool = True, after: bool = False) -> None:
        self.at, self.once, self.after = at, once, after
        self.calls = 0

    def call(self, act: Any) -> Any:
        """Carry out a call, or fail."""
        self.calls += 1
        if self.calls < self.at or (self.once and self.calls > self.at):
            return act()
        if self.after:
            act()
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error


def faulty(fault: Fault) -> type[sqlite3.Connection]:
    """Return a kind of connection of which all calls are subject to a fault."""

    class Cursor(sqlite3.Cursor):
        def execute(self, *arguments: Any) -> Any:
            return fault.call(lambda: super(Cursor, self).execute(*arguments))

        def executemany(self, *arguments: Any) -> Any:
            return fault.call(lambda: super(Cursor, self).executemany(*arguments))

    class Connection(sqlite3.Connection):
        def cursor(self, factory: Any = Cursor) -> Any:
            return super().cursor(factory)

        def execute(self, *arguments: Any) -> Any:
            return fault.call(lambda: super(Connection, self).execute(*arguments))

    return Connection


class Link:
    """Be the bus of a store: keep what it sends."""

    def __init__(self) -> None:
        self.acks: list[tuple[str, RecordAck]] = []

    def send(self, frames: Sequence[bytes]) -> None:
        head = decode_head(frames[1])
        if head.call == "record.ack":
            self.acks.append((frames[0].decode(), codec_of(RecordAck).decode(frames[2])))

    def receive(self, timeout_s: float | None) -> None:
        pass

    def close(self) -> None:
        pass


def batches() -> list[tuple[str, list[Any]]]:
    """Return the batches of a small run: who wrote them, and their records."""
    run = {"uid": "demo", "experiment": "e", "seed": "1", "document": "", "started": "2030-01-01"}
    lists = [("sensor", "g.a"), ("actuator", "g.x"), ("reward", "g.r")]
    declared = [
        ["declare", 0, *owner, kind, [[name, "Box", None, "<f8", []]]]
        for owner in (("g", None), (None, "ada"))
        for kind, name in lists
    ]
    found: list[tuple[str, list[Any]]] = [
        (GOVERNOR, [["run", run], *declared, ["phase", 0, "first", "train", "running", None]])
    ]
    for n in range(3):
        steps = [[s, s, s, None, pack([0.5]), pack([1.0]), pack([2.0]), False, False] for s in (1, 2)]
        row = [None, pack([0.5]), pack([1.0]), None, pack([2.0]), 1.0, False, False, None]
        actions = [[0, s, *row] for s in (0, 1)]
        found.append((CONTROLLER, [["steps", 0, "train", 0, "g", n, steps[:1]]]))
        rest = [["steps", 0, "train", 0, "g", n, steps[1:]], ["actions", 0, "train", 0, "ada", n, actions]]
        seal = ["episode", 0, "train", 0, None, n, 2, True, False, "environment", n]
        found.append((CONTROLLER, [*rest, seal]))
        found.append((GOVERNOR, [["signal", 0, 0, n, 2, "RESET", "condition", "", None, n, 0, n + 1]]))
    brain = ["brain", 0, "ada", "", 3, 6, "now", 10, "00", "brains/0/ada/model.npz"]
    evaluation = ["evaluation", 0, "ada", 1, 3, {"return": 1.0}, None, "now"]
    phase = ["phase", 0, "first", "train", "finished", "completed"]
    return [*found, (GOVERNOR, [brain, evaluation, phase, ["end", "finished", "completed", "later"]])]


def carry_out(uri: str, fault: Fault) -> str:
    """Store the run on a database that fails; return how that ended in the eyes of its writers: empty is well."""
    try:
        # No row of an open episode stays in memory: all that a store does is done.
        writer = SqlWriter(uri, RUN, open_rows_bytes=0, factory=faulty(fault))
    except GanglionError as error:
        return str(error)
    link, now_s = Link(), [0.0]
    host = StoreHost(writer, SPAN_S)
    host.participant = Participant(lambda: link, {}, clock=lambda: now_s[0], pulse=False)
    todo = batches()
    numbers: dict[str, itertools.count[int]] = {peer: itertools.count(1) for peer, _ in todo}
    open_batches: list[tuple[str, int]] = []
    heard = 0
    for _ in range(1000):
        if todo and len(open_batches) < STREAM_CREDIT_MESSAGES:
            peer, records = todo.pop(0)
            number = next(numbers[peer])
            open_batches.append((peer, number))
            body = codec_of(RecordBatch).encode(RecordBatch(number, records))
            host.told(Notice(peer, Head(Verb.TELL, call="record.batch"), body, ()))
        now_s[0] += RETRY_S["store"] if host._trouble else COMMIT_S
        host.tick()
        for peer, ack in link.acks[heard:]:
            if ack.error is not None:
                host.close()
                return ack.error.message
            open_batches = [(p, n) for p, n in open_batches if p != peer or n > ack.number]
        heard = len(link.acks)
        if not todo and not open_batches:
            host.close()
            return ""
    raise AssertionError("a run that neither ends nor fails")


def outcome(uri: str) -> tuple[str, list[str], int]:
    """Return the digest of what is stored, what is damaged, and how many episodes there are."""
    with SqlReader(uri) as reader:
        if not list(reader.rows("runs")):
            return "", [], 0
        damages = [str(damage) for damage in reader.verify(RUN)]
        return results_digest(reader, RUN), damages, reader.count("episodes", [RUN])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """Return the digest of the run without faults, and how many calls of the database it makes."""
    uri = f"sqlite:///{tmp_path_factory.mktemp('anomaly')}/ganglion.db"
    fault = Fault(10**9)
    assert "" == carry_out(uri, fault)
    digest, damages, episodes = outcome(uri)
    assert ([], 3) == (damages, episodes)
    return digest, fault.calls


def fail_once(folder: Path, undisturbed: tuple[str, int], after: bool, first: int, step: int) -> None:
    """Let the n-th call fail, for every n of a series, until a whole run no longer makes so many."""
    for n in itertools.count(first, step):
        uri = f"sqlite:///{folder}/{n}-{after}.db"
        fault = Fault(n, once=True, after=after)
        failed = carry_out(uri, fault)
        if fault.calls < n:
            break
        if failed:  # it could not be opened: nothing was begun
            assert "cannot be opened for writing" in failed or "cannot open run" in failed, (n, failed)
            continue
        assert (undisturbed[0], [], 3) == outcome(uri), n
    assert n > undisturbed[1] - 10


@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.long)], ids=["before", "after"])
def test_a_call_that_fails_once_changes_nothing(tmp_path: Path, undisturbed: tuple[str, int], after: bool) -> None:
    """Whichever call fails, also if it was carried out all the same: the run goes on, with the same digest."""
    fail_once(tmp_path, undisturbed, after, first=2 if after else 1, step=11)


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_every_call_that_fails_once_changes_nothing(tmp_path: Path, undisturbed: tuple[str, int], after: bool) -> None:
    """The same for all calls."""
    fail_once(tmp_path, undisturbed, after, first=1, step=1)


def test_a_store_that_stays_broken_fails_by_name(tmp_path: Path, undisturbed: tuple[str, int]) -> None:
    """Whichever call is the last that succeeds: the writers are told why, and whole episodes are there."""
    seen = set()
    for n in range(1, undisturbed[1], 8):
        uri = f"sqlite:///{tmp_path}/{n}.db"
        failed = carry_out(uri, Fault(n, once=False))
        if failed:
            assert "database or disk is full" in failed, n
        if "cannot be opened for writing" in failed or "cannot open run" in failed:
            continue  # no run was begun
        digest, damages, episodes = outcome(uri)
        assert [] == damages, n
        assert failed or digest == undisturbed[0], n
        seen.add(episodes)
    assert {0, 1, 2, 3} == seen
