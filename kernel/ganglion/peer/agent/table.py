"""Table: its host, which answers in document order; and the brains' side of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ganglion.errors import DeadlineExceeded, LimitExceeded, RemoteProtocolError
from ganglion.limits import TABLE_REPORT_S, TABLE_SLACK_S
from ganglion.peer.author import Hooks, Loader, failure_of, identity, seed_process
from ganglion.peer.host import Host
from ganglion.peer.journal.compaction import Compaction
from ganglion.peer.journal.snapshot import Snapshot, State
from ganglion.peer.participant import DEFERRED, Participant
from ganglion.peer.values import deserialize, serialize
from ganglion.sdk.brain import Transitions
from ganglion.sdk.pool import INSERT, Pool, columns
from ganglion.wire.conversation import Pending, Request
from ganglion.wire.messages import Done, Lost, TableAnswer, TableAsk, TableSetup, Watch
from ganglion.wire.name import label

_LOOK_EVERY = 16  # requests: between two checks whether the journal is to be compacted


@dataclass(slots=True)
class _Wish:
    """A request of a brain, and the time since which it waits."""

    request: Request
    agent: str
    what: str
    given: dict[str, Any]
    since_s: float = 0.0


class TableHost(Host):
    """Host one table per phase.

    With `sync: async` requests are carried out as they arrive; requests that the table does not allow yet wait in order
    of arrival. In lockstep no other agent could end such a wait: the request is refused. If several agents use the
    table in lockstep, their writes wait for the end of the round, and are carried out in document order of the agents.
    All requests of a round are answered before an agent sends one of the next round, since agents act together.
    """

    kind = "table"
    calls = ("setup", "ask", "shutdown")
    timed = True
    participant: Participant

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._compaction: Compaction | None = None  # compaction of the journal
        self._pool: Pool | None = None
        self._setup: TableSetup
        self._requests = 0  # since the last check for compaction
        self._live = False  # whether all requests of a predecessor have been replayed

    def setup(self, request: Request, setup: TableSetup) -> Done:
        """Make the table."""
        self.participant.begin_journal([(request, None)])  # earlier entries are not needed
        self._setup, self._compaction, self._pool = setup, None, None
        where, loader = f"table {setup.uid}", self._loader
        self._hooks = Hooks.of(loader, "table", setup.plugin, where)
        seed_process(setup.stream)
        attributes = {"uid": setup.uid, "name": setup.uid, "feed": setup.feed, "serve": setup.serve}
        attributes |= identity(setup.stream)
        self._agents = dict.fromkeys([*setup.feed, *setup.serve])  # in document order
        self._at: list[int] = []  # the newest round
        self._later: list[list[Any]] = []  # writes of the newest round: agent, what, given
        self._waiting: list[_Wish] = []
        self._writer: list[Any] = []  # the agent of the last insertion, the number of its insertions, the time
        self._gone: dict[str, str] = {}  # writers that were lost for good -> reason
        self._told: tuple[Any, float] = (None, 0.0)  # whether a wait was last reported, and the time of that report
        pool: Pool = self._hooks("__init__", lambda: loader.make("table", setup.plugin, attributes))
        self._hooks("setup", pool.setup)
        self._snapshot = Snapshot({"table": (pool, ("feed", "serve"))})
        self._pool = pool
        self._watch()
        return Done()

    def _watch(self) -> None:
        if self._pool is not None and self._setup.waits:
            self.participant.ask_aside("", "kernel.watch", Watch(list(self._setup.writers)))

    reconnected = _watch

    def shutdown(self, request: Request, _: Any) -> Done:
        """End the phase for this table."""
        self._hooks.close()
        self._pool = None
        return Done()

    # -- requests -----------------------------------------------------------------------------------------------------
    def ask(self, request: Request, asked: TableAsk) -> Any:
        """Carry out a request, now or later, or refuse it."""
        setup = self._setup
        if self._pool is None:
            raise RemoteProtocolError("expected table.setup first")
        if asked.agent not in (setup.feed if asked.what == INSERT else setup.serve):
            raise RemoteProtocolError(f"table {setup.uid}: agent {asked.agent} may not {asked.what}")
        given = deserialize(asked.given, request.blobs, "given")
        wish = _Wish(request, asked.agent, asked.what, given, self.participant.journal_clock())
        if setup.shared and asked.at is not None:
            self._enter(asked.at)
        before = any(self._side(one) == self._side(wish) for one in self._waiting)  # whether an earlier request waits
        why = "others wait before it" if before else self._judged(wish)
        if why is None:
            self._do(wish)
            self._try_again()
        elif not setup.waits:
            raise LimitExceeded(self._refusal(wish, why, "in lockstep no other agent is answered meanwhile"))
        elif wish.what != INSERT and len(self._gone) == len(setup.writers):
            raise DeadlineExceeded(self._refusal(wish, why, self._cause()), request.peer)
        else:
            self._waiting.append(wish)
        return DEFERRED

    def _enter(self, at: list[int]) -> None:
        """Carry out the writes of the previous round."""
        if at < self._at:
            text = f"expected nothing before {self._at}, found {at}"
            raise RemoteProtocolError(f"table {self._setup.uid}: {text}")
        if at > self._at:
            order = list(self._agents)
            for agent, what, given in sorted(self._later, key=lambda one: order.index(one[0])):
                self._write(agent, what, given)
            self._at, self._later = at, []

    @staticmethod
    def _side(wish: _Wish) -> bool:
        return wish.what == INSERT

    def _judged(self, wish: _Wish) -> str | None:
        assert self._pool is not None
        why: str | None = self._hooks(wish.what, self._pool.judge, wish.agent, wish.what, wish.given)
        return why

    def _do(self, wish: _Wish) -> None:
        assert self._pool is not None
        found, blobs = None, list[bytes]()
        if wish.what == INSERT:
            count = self._writer[1] if self._writer else 0
            self._writer = [wish.agent, count + len(wish.given["streams"]), self.participant.journal_clock()]
        else:
            found = self._hooks(wish.what, self._pool.answer, wish.agent, wish.what, wish.given)
            found = self._hooks(wish.what, serialize, found, blobs, wish.what)
        if self._setup.shared:
            self._later.append([wish.agent, wish.what, wish.given])
        else:
            self._write(wish.agent, wish.what, wish.given)
        self.participant.reply(wish.request, TableAnswer(found), blobs)

    def _write(self, agent: str, what: str, given: Mapping[str, Any]) -> None:
        assert self._pool is not None
        if what == INSERT:
            self._hooks(what, self._pool.insert, agent, given)
        else:
            self._hooks(what, self._pool.note, agent, what, given)

    def _try_again(self) -> None:
        """Carry out waiting requests that are allowed now, readers and writers each in order of arrival."""
        moved = bool(self._waiting)
        while moved:
            moved, closed = False, set[bool]()
            for wish in list(self._waiting):
                if self._side(wish) in closed:
                    continue
                if self._judged(wish) is not None:
                    closed.add(self._side(wish))
                    continue
                self._waiting.remove(wish)
                self._do(wish)
                moved = True

    # -- waits --------------------------------------------------------------------------------------------------------
    def _refusal(self, wish: _Wish, why: str, cause: str) -> str:
        """Return why a request is refused: the table, the reason, the cause, and the last writer."""
        writer = "no agent has inserted"
        if self._writer:
            agent, count, at_s = self._writer
            ago_s = self.participant.journal_clock() - at_s
            writer = f"agent {agent} wrote last, {ago_s:.1f} s ago, of {count} decisions"
        return f"table {self._setup.uid}: agent {wish.agent} cannot {wish.what}: {why}; {cause}; {writer}"

    def _cause(self) -> str:
        told = "; ".join(f"{label(peer)} is gone: {reason}" for peer, reason in self._gone.items())
        return told or "no agent has changed that"

    def gone(self, gone: Lost) -> None:
        """Record the loss of a writer; once all writers are lost for good, waiting readers fail."""
        if self._pool is None or gone.returns or gone.peer not in self._setup.writers:
            return
        self._gone[gone.peer] = gone.reason
        if len(self._gone) == len(self._setup.writers):
            self._give_up([wish for wish in self._waiting if wish.what != INSERT])

    def _give_up(self, wishes: Sequence[_Wish]) -> None:
        for wish in wishes:
            self._waiting.remove(wish)
            why = self._judged(wish) or "others wait before it"
            waited_s = self.participant.journal_clock() - wish.since_s
            text = self._refusal(wish, why, f"waited {waited_s:.1f} s in vain: {self._cause()}")
            error = DeadlineExceeded(text, self.participant.name)
            self.participant.fail(wish.request, failure_of(error))

    def tick(self) -> None:
        """Refuse requests that waited too long, publish the state, and compact the journal if due."""
        if self._pool is None:
            return
        now_s, span_s = self.participant.journal_clock(), self._setup.span_s
        if self._waiting and span_s is not None:
            self._give_up([wish for wish in self._waiting if now_s - wish.since_s >= span_s])
            self._try_again()
        self._tell(now_s)
        if self._waiting:
            return
        self._requests += 1
        # A state that a predecessor took follows a certain request; a state of this process may follow any.
        if not self._live or self._compaction is None or self._requests % _LOOK_EVERY == 0:
            self._live = not self.participant.playing
            if self._compaction is None:
                self._compaction = Compaction(self.participant, self._hooks.where, self._snapshot.check)
            self._compaction.restore_or_compact(self._take_state, self._go_on)

    def _tell(self, now_s: float) -> None:
        """Publish the state for `ganglion ps`: the begin and end of a wait at once, other changes once a second."""
        assert self._pool is not None
        waits, (told, since_s) = bool(self._waiting), self._told
        if waits != told or now_s - since_s >= TABLE_REPORT_S:
            self._told = waits, now_s
            self.participant.tell_event("table.state", dict(self._hooks("state", self._pool.state)))

    # -- the journal --------------------------------------------------------------------------------------------------
    def _take_state(self) -> State:
        books = {"at": self._at, "later": self._later, "writer": self._writer, "gone": self._gone}
        return self._snapshot.take(books, self.participant.takes_attributes)

    def _go_on(self, state: State) -> None:
        read = self._snapshot.read(state)
        self._snapshot.put(read)
        books = read["books"]
        self._at, self._later = list(books["at"]), [list(one) for one in books["later"]]
        self._writer, self._gone = list(books["writer"]), dict(books["gone"])


class Tables:
    """The tables of one agent: its brain asks some, and feeds some with its decisions.

    Attributes:
        faces: Uid -> the brain's object for a table that serves it.
        at: The position of the brain's current call in the phase; None outside of calls about decisions.
        feeds: Whether the agent feeds any table.
        alone: Whether no other agent uses any of these tables.
    """

    def __init__(self, loader: Loader, agent: str, rows: Sequence[Mapping[str, Any]], participant: Participant) -> None:
        self._agent, self._participant = agent, participant
        self._fed = [row for row in rows if row["feeds"]]
        self._open: list[Pending] = []
        self.faces = {
            str(row["uid"]): loader.load("table", str(row["plugin"])).face(str(row["uid"]), partial(self._ask, row))
            for row in rows
            if row["serves"] and "mix" not in row
        }
        for row in rows:
            if "mix" in row:
                parts = {uid: (self.faces[uid], share) for uid, share in row["mix"].items()}
                self.faces[str(row["uid"])] = loader.load("table", str(row["plugin"])).mixed(str(row["uid"]), parts)
        self.at: list[int] | None = None
        self.feeds, self.alone = bool(self._fed), not any(row["shared"] for row in rows)

    def feed(self, batch: Transitions, versions: Sequence[int]) -> None:
        """Send decisions to the tables that the agent feeds; `settle` waits for the replies."""
        self.settle()
        given = columns(batch, versions)
        self._open += [self._send(row, INSERT, given) for row in self._fed]

    def settle(self) -> None:
        """Wait until all decisions are inserted; raises the error of a failed insertion."""
        asked, self._open = self._open, []
        if asked:
            self._participant.gather(asked)

    def _send(self, row: Mapping[str, Any], what: str, given: Mapping[str, Any]) -> Pending:
        blobs: list[bytes] = []
        message = TableAsk(self._agent, what, serialize(given, blobs, what), self.at)
        span_s = row["span_s"]
        longest_s = None if span_s is None else span_s + TABLE_SLACK_S  # the table's own refusal arrives first
        return self._participant.ask(str(row["peer"]), "table.ask", message, longest_s, blobs=blobs)

    def _ask(self, row: Mapping[str, Any], what: str, /, **given: Any) -> Any:
        self.settle()  # one call at a time: no call may overtake one that the broker refused for its size
        [(answer, blobs)] = self._participant.gather([self._send(row, what, given)], blobs=True)
        return deserialize(answer.found, blobs, what)
