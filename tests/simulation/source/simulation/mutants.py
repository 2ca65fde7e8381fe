"""Mutants: one line of the design taken out at a time; a campaign must see that it is missing.

As a program it prints which seed is the first to see each of them: python -m simulation.mutants [SEEDS] [NAME ...].
"""

from __future__ import annotations

import contextlib
import io
import itertools
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganglion.broker import core
from ganglion.broker.admission import Register
from ganglion.broker.core import Broker
from ganglion.errors import PeerLost
from ganglion.peer import host as agents
from ganglion.peer.agent import muscle
from ganglion.peer.agent.brain import BrainHost
from ganglion.peer.conversation import Conversation
from ganglion.peer.environment import host as environment
from ganglion.peer.governor import GovernorHost
from ganglion.peer.journal import write as journal
from ganglion.peer.journal.write import Journal
from ganglion.peer.participant import Participant
from ganglion.peer.results.records import Cuts, Ordinals, Records
from ganglion.peer.results.store import StoreHost
from ganglion.peer.worker.controller import ControllerHost
from ganglion.wire.envelope import packed
from ganglion.wire.journal import Kind
from ganglion.wire.messages import Done
from ganglion.wire.verb import Verb
from simulation.bus import Simulation
from simulation.campaign import Campaign
from simulation.cases import CASES, DICE, case
from simulation.keeper import Keeper

Patch = pytest.MonkeyPatch
SEEDS = 1000
CAUGHT = {  # a seed that misses it
    "absent_have_no_time": 55,
    "absent_is_gone": 0,
    "accusing_sleeper": 157,
    "acknowledged_before_commit": 2,
    "admissions_forgotten": 22,
    "answers_forgotten_with_their_caller": 51,
    "arrival_order": 35,
    "base_dropped": 12,
    "batches_heard_twice": 1,
    "batches_not_said_again": 0,
    "beats_dropped": 274,
    "busy_dropped": 11,
    "credit_not_returned": 1,
    "cut_named_before_its_rows": 572,
    "done_twice": 58,
    "doubled_answers_undoubted": 378,
    "fences_forgotten": 175,
    "incarnation_unchecked": 175,
    "looks_at_the_clock_not_written": 31,
    "no_joining_again": 0,
    "no_memory_of_answers": 0,
    "no_repeat_after_return": 0,
    "not_watched_again": 165,
    "nothing_heard_is_written": 7,
    "orders_shift_signals": 482,
    "overdue_unheard": 136,
    "replay_uncompared": 457,
    "rows_visible_before_the_seal": 0,
    "serials_not_kept": 7,
    "shared_stream": 1,
    "signals_heard_twice": 218,
    "signals_not_said_again": 152,
    "unreachable_dropped": 72,
    "written_after_it_was_sent": 145,
}


# -- broker and supervisor --------------------------------------------------------------------------------------------
def incarnation_unchecked(patch: Patch) -> None:
    """Take a zombie for its successor."""
    entitled = Register.entitled
    patch.setattr(
        Register,
        "entitled",
        lambda self, hello, taken, key=None: entitled(self, replace(hello, incarnation=0), taken, key),
    )


def fences_forgotten(patch: Patch) -> None:
    """Start a new broker with the names of the former one, and not with their incarnations."""
    start = Simulation._start_broker

    def forgetful(self: Simulation) -> None:
        known = self.keeper.table
        self.keeper.table = {name: replace(admit, incarnation=1) for name, admit in known.items()}
        start(self)
        self.keeper.table = known

    patch.setattr(Simulation, "_start_broker", forgetful)


def admissions_forgotten(patch: Patch) -> None:
    """Start a new broker that knows nobody."""
    start = Simulation._start_broker

    def forgetful(self: Simulation) -> None:
        known, self.keeper.table = self.keeper.table, {}
        start(self)
        self.keeper.table = known

    patch.setattr(Simulation, "_start_broker", forgetful)


def absent_is_gone(patch: Patch) -> None:
    """Take who is absent for gone."""
    admission = Keeper._admission
    patch.setattr(
        Keeper, "_admission", lambda self, place, number: replace(admission(self, place, number), returns=False)
    )


def beats_dropped(patch: Patch) -> None:
    """Let the broker ask nobody whether he is there."""
    patch.setattr(Broker, "_beat", lambda self, link, peer, now_s: [])


def accusing_sleeper(patch: Patch) -> None:
    """Let a broker that has slept accuse those whom it has not heard meanwhile."""
    patch.setattr(core, "_SLEEPER_S", float("inf"))


def unreachable_dropped(patch: Patch) -> None:
    """Say nothing to who calls somebody that is not there and will not come."""
    nobody = Broker._nobody

    def silent(self: Any, link: Any, peer: Any, head: Any, to: Any, now_s: float) -> Any:
        if self.register.awaited(to.decode()) is None:
            return []
        return nobody(self, link, peer, head, to, now_s)

    patch.setattr(Broker, "_nobody", silent)


def credit_not_returned(patch: Patch) -> None:
    """Let a call that was answered count as open."""
    forward = Broker._forward

    def keep(self: Any, link: Any, peer: Any, head: Any, to: Any, frames: Any, now_s: float) -> Any:
        found = forward(self, link, peer, head, to, frames, now_s)
        route = link.routes.get(to)
        if head.verb in (Verb.REPLY, Verb.ERROR) and route is not None and route.back is not None:
            route.back.open = [*route.back.open, packed(head.serial)][: route.back.limit]
        return found

    patch.setattr(Broker, "_forward", keep)


def overdue_unheard(patch: Patch) -> None:
    """End nobody who does not answer in time."""
    patch.setattr(Keeper, "overdue", lambda self, request, overdue: Done())


# -- conversations ----------------------------------------------------------------------------------------------------
def no_memory_of_answers(patch: Patch) -> None:
    """Execute a repeated call again."""
    reply = Conversation.reply

    def forget(self: Any, *given: Any, **named: Any) -> Any:
        found = reply(self, *given, **named)
        self._answers.clear()
        return found

    patch.setattr(Conversation, "reply", forget)


def answers_forgotten_with_their_caller(patch: Patch) -> None:
    """Forget what somebody was answered who will return."""
    lost = Conversation._lost

    def forget(self: Any, message: Any, now_s: float) -> Any:
        self._answers.pop(message.peer, None)
        return lost(self, message, now_s)

    patch.setattr(Conversation, "_lost", forget)


def done_twice(patch: Patch) -> None:
    """Take a repeat of what is being done for another request."""
    receive = Conversation.receive

    def forget(self: Any, frames: Any, now_s: float) -> Any:
        self._doing.clear()
        return receive(self, frames, now_s)

    patch.setattr(Conversation, "receive", forget)


def busy_dropped(patch: Patch) -> None:
    """Never say again what a destination was too busy, or absent, for."""
    patch.setattr(Conversation, "repeat", lambda self, now_s: [])


def absent_have_no_time(patch: Patch) -> None:
    """Let the deadline of a call pass while there is nobody to answer it."""
    patch.setattr(Conversation, "wait_on", lambda self, pending, now_s: None)


def doubled_answers_undoubted(patch: Patch) -> None:
    """Do not ask again where an answer that came twice has taken the place of another."""
    patch.setattr(Conversation, "_doubt", lambda self, serial, peer, now_s: None)


# -- participants -----------------------------------------------------------------------------------------------------
def serials_not_kept(patch: Patch) -> None:
    """Let a successor begin with serials of its own."""
    begin = Participant._begin

    def afresh(self: Any, frames: Any) -> Any:
        found = begin(self, frames)
        self._conversation.begin(self._hello.incarnation)
        return found

    patch.setattr(Participant, "_begin", afresh)


def no_repeat_after_return(patch: Patch) -> None:
    """Do not repeat open calls on a new connection."""
    back = Participant._come_back

    def silent(self: Any) -> None:
        pending, self._conversation._pending = self._conversation._pending, {}
        try:
            back(self)
        finally:
            self._conversation._pending = pending

    patch.setattr(Participant, "_come_back", silent)


def no_joining_again(patch: Patch) -> None:
    """End with the connection."""
    back = Participant._come_back

    def give_up(self: Any) -> None:
        if self.welcome is not None and "_link" in vars(self):
            raise PeerLost("broker", "it is gone")
        back(self)

    patch.setattr(Participant, "_come_back", give_up)


def written_after_it_was_sent(patch: Patch) -> None:
    """Write down what was heard when what follows from it has been sent."""
    send = Participant._send

    def late(self: Any, frames: Any, call: str = "") -> None:
        journal = self._journal
        if journal is None or journal.playing:
            send(self, frames, call)
            return
        waiting = [*journal._waiting]
        journal._waiting.clear()
        send(self, frames, call)
        journal._waiting[:0] = waiting
        journal.say()

    patch.setattr(Participant, "_send", late)


def nothing_heard_is_written(patch: Patch) -> None:
    """Lose one message in sixteen on its way to the journal."""
    say, count = Journal.say, [0]

    def forgetful(self: Any, frames: Any = (), call: str = "") -> bool:
        count[0] += bool(self._waiting)
        if self._waiting and count[0] % 16 == 0:
            del self._waiting[0]
        return say(self, frames, call)

    patch.setattr(Journal, "say", forgetful)


def replay_uncompared(patch: Patch) -> None:
    """Believe a successor whatever it says."""
    patch.setattr(journal, "_mix", lambda frame, digest: 0)


def looks_at_the_clock_not_written(patch: Patch) -> None:
    """Keep a journal without the moments at which its writer looked at the clock."""
    say = Journal.say

    def blind(self: Any, frames: Any = (), call: str = "") -> bool:
        self._waiting[:] = [entry for entry in self._waiting if entry[0] != Kind.TICK]
        return say(self, frames, call)

    patch.setattr(Journal, "say", blind)


def base_dropped(patch: Patch) -> None:
    """Begin a journal anew without the state that stands for what was on it."""
    patch.setattr(Participant, "take_base", lambda self: None)


# -- hosts ------------------------------------------------------------------------------------------------------------
def arrival_order(patch: Patch) -> None:
    """Let a brain think about the rows of a round in the order in which they came."""
    think, together = BrainHost.think, BrainHost._think_together
    order: dict[int, int] = {}
    count = itertools.count()

    def heard(self: Any, request: Any, message: Any) -> Any:
        order[id(message)] = next(count)
        return think(self, request, message)

    def as_they_came(self: Any, last: Any, rows: Any) -> None:
        together(self, last, sorted(rows, key=lambda row: order[id(row[1])]))

    patch.setattr(BrainHost, "think", heard)
    patch.setattr(BrainHost, "_think_together", as_they_came)


def shared_stream(patch: Patch) -> None:
    """Let all objects draw from one stream."""
    import numpy as np

    shared = np.random.default_rng(1)
    for room in (agents, environment, muscle):
        patch.setattr(room, "identity", lambda words: {"seed": 1, "rng": shared})


def batches_not_said_again(patch: Patch) -> None:
    """Send each batch of rows once."""
    patch.setattr(Records, "again", lambda self: None)


def acknowledged_before_commit(patch: Patch) -> None:
    """Acknowledge rows that are not durable."""
    take = StoreHost._take

    def hasty(self: Any, peer: str, batch: Any) -> None:
        take(self, peer, batch)
        self._acknowledge()

    patch.setattr(StoreHost, "_take", hasty)


def signals_not_said_again(patch: Patch) -> None:
    """Send each signal to a controller once."""
    kept = GovernorHost._kept

    def once(self: Any, steer: Any) -> Any:
        found = kept(self, steer)
        self._said.clear()
        return found

    patch.setattr(GovernorHost, "_kept", once)


def not_watched_again(patch: Patch) -> None:
    """Do not ask a new broker who is there."""
    patch.setattr(GovernorHost, "reconnected", lambda self: None)


def signals_heard_twice(patch: Patch) -> None:
    """Obey a signal as often as it is said."""
    told = ControllerHost.told

    def again(self: Any, one: Any) -> None:
        if one.head.call == "" and self._phase is not None:
            self._heard = 0
        told(self, one)

    patch.setattr(ControllerHost, "told", again)


def batches_heard_twice(patch: Patch) -> None:
    """Take rows as often as they are said."""
    comes_next = StoreHost._comes_next

    def again(self: Any, peer: str, number: int) -> bool:
        return comes_next(self, peer, number) or number <= self._heard.last.get(peer, 0)

    patch.setattr(StoreHost, "_comes_next", again)


def cut_named_before_its_rows(patch: Patch) -> None:
    """Let a cut count before the store has acknowledged what is before it."""
    settle = Cuts.settle
    patch.setattr(Cuts, "settle", lambda self, acknowledged: settle(self, 1 << 62))


def orders_shift_signals(patch: Patch) -> None:
    """Count what operators have said among the signals of the run."""
    patch.setattr(Ordinals, "order", lambda self: self.number(None))


def rows_visible_before_the_seal(patch: Patch) -> None:
    """Show an episode as soon as it has a row."""
    take = StoreHost._take

    def hasty(self: Any, peer: str, batch: Any) -> None:
        records: list[Any] = []
        for record in batch.records:
            records.append(record)
            if record[0] == "actions":
                phase, mode, worker, _, number, rows = record[1:]
                known = [phase, mode, worker, None, number, len(rows), True, False, "terminated", len(rows)]
                records.append(["episode", *known])
        take(self, peer, replace(batch, records=records))

    patch.setattr(StoreHost, "_take", hasty)


Mutant = Callable[[Patch], None]
MUTANTS: dict[str, Mutant] = {
    name: value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__annotations__", {}).get("patch") == "Patch"
}


def caught(folder: Path, seeds: Iterable[int]) -> str:
    """Return what a campaign says of the first seed that goes wrong; empty if none does."""
    campaign = Campaign(folder, shrinks=False)
    for seed in seeds:
        try:
            campaign.go(seed)
        except Exception as failure:  # noqa: BLE001 - what a mutant breaks may break anything
            return f"seed {seed}: {type(failure).__name__}: {failure}"
    return ""


def undisturbed(folder: Path) -> None:
    """Learn the undisturbed results of all cases, before anything is broken."""
    for name in (*range(CASES), DICE):
        case(name, folder)


def main() -> int:
    """Print the first seed that catches each mutant; 1 if one is never caught."""
    seeds, names = int((*sys.argv[1:], SEEDS)[0]), sys.argv[2:] or [*MUTANTS]
    folder = Path(tempfile.mkdtemp(prefix="ganglion-mutants-", dir="/dev/shm"))
    missed = 0
    undisturbed(folder)
    for name in names:
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(io.StringIO()):
            MUTANTS[name](patch)
            found = caught(folder, range(seeds))
        missed += not found
        sys.stdout.write(f"{name:40s} {found.splitlines()[0][:160] if found else 'NEVER'}\n")
        sys.stdout.flush()
    shutil.rmtree(folder, ignore_errors=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
