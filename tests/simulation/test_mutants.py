"""Mutants: one line of the design taken out at a time; campaigns must see that it is missing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from simulation.bus import Simulation
from simulation.campaign import Campaign, Failure, carry_out, case_of, shrunk
from simulation.cases import CASES, DICE, case
from simulation.fault import drawn
from simulation.keeper import Keeper

from ganglion.broker.admission import Register
from ganglion.errors import PeerLost
from ganglion.peer import brain, environment, muscle
from ganglion.peer.brain import BrainHost
from ganglion.peer.conversation import Conversation
from ganglion.peer.governor import GovernorHost
from ganglion.peer.participant import Participant
from ganglion.peer.records import Records
from ganglion.peer.store import StoreHost
from ganglion.peer.tape import Tape
from ganglion.wire import tape as wire_tape

Patch = pytest.MonkeyPatch
SEEDS = 1000


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Return a folder in which the undisturbed results of all cases are known, before anything is broken."""
    memory = Path("/dev/shm")
    path = Path(
        tempfile.mkdtemp(prefix="ganglion-mutants-", dir=memory if os.access(memory, os.W_OK) else None)
    )
    for name in (*range(CASES), DICE):
        case(name, path)
    yield path
    shutil.rmtree(path, ignore_errors=True)


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
        Keeper,
        "_admission",
        lambda self, place, number: replace(admission(self, place, number), returns=False),
    )


# -- conversations ----------------------------------------------------------------------------------------------------
def no_memory_of_answers(patch: Patch) -> None:
    """Execute a repeated call again."""
    answer = Conversation._answer

    def forget(self: Any, request: Any, frames: Any) -> Any:
        found = answer(self, request, frames)
        self._answers.clear()
        return found

    patch.setattr(Conversation, "_answer", forget)


def answers_forgotten_with_their_caller(patch: Patch) -> None:
    """Forget what somebody was answered who will return."""
    lost = Conversation._lost

    def forget(self: Any, message: Any, now_s: float) -> Any:
        self._answers.pop(message.peer, None)
        return lost(self, message, now_s)

    patch.setattr(Conversation, "_lost", forget)


def done_twice(patch: Patch) -> None:
    """Take a repeat of what is being done for another request."""
    request = Conversation._request

    def forget(self: Any, one: Any) -> Any:
        self._doing.clear()
        return request(self, one)

    patch.setattr(Conversation, "_request", forget)


def busy_dropped(patch: Patch) -> None:
    """Never say again what a destination was too busy, or absent, for."""
    patch.setattr(Conversation, "repeat", lambda self, now_s: [])


def absent_have_no_time(patch: Patch) -> None:
    """Let the deadline of a call pass while there is nobody to answer it."""
    patch.setattr(Conversation, "wait_on", lambda self, pending, now_s: None)


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
        if self.welcome is not None and not isinstance(self._link, _UNJOINED):
            raise PeerLost("broker", "it is gone")
        back(self)

    patch.setattr(Participant, "_come_back", give_up)


def written_after_it_was_sent(patch: Patch) -> None:
    """Write down what was heard when what follows from it has been sent."""
    send = Participant._send

    def late(self: Any, frames: Any) -> None:
        tape = self._tape
        if tape is None or tape.playing:
            send(self, frames)
            return
        waiting, tape._waiting = tape._waiting, []
        send(self, frames)
        tape._waiting = [*waiting, *tape._waiting]
        tape.flush()

    patch.setattr(Participant, "_send", late)


def nothing_heard_is_written(patch: Patch) -> None:
    """Lose one message in sixteen on its way to the tape."""
    heard, count = Tape.heard, [0]

    def forgetful(self: Any, time_s: float, frames: Any) -> None:
        count[0] += 1
        if count[0] % 16:
            heard(self, time_s, frames)

    patch.setattr(Tape, "heard", forgetful)


def replay_uncompared(patch: Patch) -> None:
    """Believe a successor whatever it says."""
    digest = wire_tape.digest
    patch.setattr(wire_tape, "digest", lambda frames: digest([frames[0]]))


# -- hosts ------------------------------------------------------------------------------------------------------------
def arrival_order(patch: Patch) -> None:
    """Let a brain think about the rows of a round in the order in which they came."""
    think, together = BrainHost.think, BrainHost._think_together
    order: dict[int, int] = {}

    def heard(self: Any, request: Any, message: Any) -> Any:
        order[id(message)] = len(order)
        return think(self, request, message)

    def as_they_came(self: Any, last: Any, rows: Any) -> None:
        together(self, last, sorted(rows, key=lambda row: order[id(row[1])]))

    patch.setattr(BrainHost, "think", heard)
    patch.setattr(BrainHost, "_think_together", as_they_came)


def shared_stream(patch: Patch) -> None:
    """Let all objects draw from one stream."""
    import numpy as np

    shared = np.random.default_rng(1)
    for host in (brain, environment, muscle):
        patch.setattr(host, "identity", lambda words: {"seed": 1, "rng": shared})


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


_UNJOINED = type(Participant(lambda: None, {})._link)  # type: ignore[arg-type,return-value]

Mutant = Callable[[Patch], None]
NEAR: dict[Mutant, int] = {  # and a seed that catches it
    fences_forgotten: 58,
    admissions_forgotten: 29,
    absent_is_gone: 5,
    no_memory_of_answers: 6,
    done_twice: 8,
    serials_not_kept: 6,
    no_repeat_after_return: 6,
    no_joining_again: 5,
    nothing_heard_is_written: 6,
    replay_uncompared: 36,
    arrival_order: 22,
    shared_stream: 0,
    batches_not_said_again: 6,
    acknowledged_before_commit: 38,
}
RARE: tuple[Mutant, ...] = (
    incarnation_unchecked,
    answers_forgotten_with_their_caller,
    absent_have_no_time,
    busy_dropped,
    written_after_it_was_sent,
    signals_not_said_again,
    not_watched_again,
)


def caught(folder: Path, seeds: Iterable[int]) -> str:
    """Return what a campaign says of the first seed that goes wrong; empty if none does."""
    campaign = Campaign(folder, shrinks=False)
    for seed in seeds:
        try:
            campaign.go(seed)
        except Exception as failure:  # noqa: BLE001 - what a mutant breaks may break anything
            return f"seed {seed}: {type(failure).__name__}: {failure}"
    return ""


def name_of(mutant: Mutant) -> str:
    """Return how a mutant is shown."""
    return mutant.__name__


@pytest.mark.parametrize("mutant", NEAR, ids=name_of)
def test_a_mutant_is_caught(folder: Path, mutant: Mutant, monkeypatch: Patch) -> None:
    """A design that lacks one line fails: at the seed that has caught it before, else at one of the first thousand."""
    mutant(monkeypatch)

    assert caught(folder, [NEAR[mutant]]) or caught(folder, range(SEEDS))


@pytest.mark.long
@pytest.mark.parametrize("mutant", [*NEAR, *RARE], ids=name_of)
def test_every_mutant_is_caught(folder: Path, mutant: Mutant, monkeypatch: Patch) -> None:
    """Each mutant is caught by one of the first thousand seeds."""
    mutant(monkeypatch)

    assert caught(folder, range(SEEDS))


def test_no_mutant_no_failure(folder: Path) -> None:
    """The seeds that catch mutants go well without them."""
    assert not caught(folder, sorted(set(NEAR.values())))


def test_a_failure_names_seed_and_fewest_faults(folder: Path, monkeypatch: Patch) -> None:
    """What a campaign says of a failure is enough to see it again, and holds no fault that does not matter."""
    absent_is_gone(monkeypatch)
    campaign, seed, words = Campaign(folder), -1, ""
    while not words:
        seed += 1
        assert seed < SEEDS
        try:
            campaign.go(seed)
        except Failure as failure:
            words = str(failure)
    fewest = shrunk(seed, drawn(seed, case_of(seed, folder).length), folder)

    assert words.startswith(f"seed {seed}, run ")
    assert all(str(fault) in words for fault in fewest)
    assert carry_out(seed, fewest, folder).wrong
    for fault in fewest:
        assert not carry_out(seed, [other for other in fewest if other is not fault], folder).wrong
