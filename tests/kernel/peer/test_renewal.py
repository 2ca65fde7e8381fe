from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from fakepeer import MemoryReel

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.limits import TAPE_BEGIN_S
from ganglion.peer import renewal as module
from ganglion.peer.participant import Participant
from ganglion.peer.renewal import Renewal
from ganglion.peer.snapshot import NotPlain
from ganglion.peer.tape import Tape, TapeDiffers
from ganglion.wire.messages import RecordAck

LONG_BYTES = 100_000


@pytest.fixture
def peer(link: Any, clock: Any) -> Callable[[MemoryReel | None], Participant]:
    """Return what joins a participant with a tape."""

    def join(reel: MemoryReel | None) -> Participant:
        tape = None if reel is None else Tape(reel)
        made = Participant(lambda: link, {}, lambda it: None, clock=clock, pulse=False, tape=tape)
        made.join(made.hello("muscle", "a", "?"))
        return made

    return join


def hear(link: Any, participant: Participant, size_bytes: int = 10) -> None:
    """Let a participant hear something of a length."""
    link.tell("r/x", "record.ack", RecordAck(1, waiting="x" * size_bytes))
    participant.pump(0.0)
    participant.flush_tape()


def test_long_tapes_are_begun_anew(peer: Any, link: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tape is begun anew when it is longer than the limit and than twice what it begins with; then it is short."""
    monkeypatch.setattr(module, "TAPE_BEGIN_BYTES", LONG_BYTES)
    reel, taken = MemoryReel(), list[bytes]()
    participant = peer(reel)
    renewal = Renewal(participant, "muscle a", lambda: None)
    state = bytes(LONG_BYTES)
    longest = 0
    for _ in range(100):
        renewal.stand(lambda: taken.append(state) or state, taken.append)
        hear(link, participant, LONG_BYTES // 4)
        longest = max(longest, len(reel.data))

    assert 8 <= len(taken) <= 13
    assert longest < 4 * LONG_BYTES


def test_tapes_of_a_long_time_are_begun_anew(peer: Any, link: Any, clock: Any) -> None:
    """A short tape is begun anew after a while, but not while taking the state would cost more than a fiftieth."""
    participant, times = peer(MemoryReel()), list[float]()
    renewal = Renewal(participant, "muscle a", lambda: None)

    def take() -> bytes:
        times.append(clock())
        clock.now_s += 1.0
        return b"state"

    for _ in range(120):
        renewal.stand(take, lambda state: None)
        hear(link, participant)
        clock.now_s += 1.0
    gaps = [later - before for before, later in pairwise(times)]

    assert times[0] - 100.0 >= TAPE_BEGIN_S
    assert [True] * len(gaps) == [51.0 <= gap <= 53.0 for gap in gaps]
    assert gaps


def test_nothing_new_is_not_taken_again(peer: Any, clock: Any) -> None:
    """Where nothing was heard there is nothing to begin anew; without a tape there never is."""
    for reel in (MemoryReel(), None):
        participant = peer(reel)
        participant.flush_tape()
        renewal = Renewal(participant, "muscle a", lambda: None)
        for _ in range(3):
            clock.now_s += 2 * TAPE_BEGIN_S
            assert not renewal.stand(lambda: pytest.fail("taken"), lambda state: None)


def test_a_successor_goes_on_where_the_state_was_taken(peer: Any, link: Any, clock: Any) -> None:
    """A successor hears what was before the first stand, goes on from the state, and hears what came later."""
    reel = MemoryReel()
    first = peer(reel)
    hear(link, first)
    renewal = Renewal(first, "muscle a", lambda: None)
    renewal.stand(lambda: b"", lambda state: None)
    hear(link, first)
    clock.now_s += 2 * TAPE_BEGIN_S
    assert not renewal.stand(lambda: b"now", lambda state: None)
    hear(link, first)
    before_s = clock()
    second, put = peer(reel), list[bytes]()
    second.pump(0.0)
    renewed = Renewal(second, "muscle a", lambda: None)

    assert renewed.stand(lambda: b"", put.append)
    assert ([b"now"], True, before_s) == (put, second.playing, second.clock())
    second.pump(0.0)
    assert (True, False) == (second.playing, renewed.due)


@pytest.mark.parametrize("early", [True, False])
def test_what_cannot_be_taken_is_told_once(peer: Any, link: Any, clock: Any, early: bool) -> None:
    """A state that cannot be taken, at the set-up or later, leaves the tape as it is; who looks on is told of it."""
    reel = MemoryReel()
    participant = peer(reel)
    tries = []

    def take() -> Any:
        tries.append(len(reel.data))
        raise NotPlain("muscle (Foo).net: a Tensor is no plain value")

    renewal = Renewal(participant, "muscle a", take if early else lambda: None)
    for _ in range(4):
        renewal.stand(take, lambda state: None)
        hear(link, participant)
        clock.now_s += 2 * TAPE_BEGIN_S
    told = [event.fields["text"] for _, event in link.told("event") if event.event == "warning"]

    assert 1 == len(tries) == len(told)
    assert renewal.refused
    for word in ("muscle a", "(Foo).net: a Tensor", "save_state", "load_state"):
        assert word in told[0]


@pytest.mark.parametrize("error", [AuthorError("load_state"), RemoteProtocolError("bytes")])
def test_who_cannot_go_on_differs(peer: Any, link: Any, clock: Any, error: Exception) -> None:
    """A state that is not taken ends the process as one that does otherwise: its run goes back, or fails by name."""
    reel = MemoryReel()
    first = peer(reel)
    hear(link, first)
    renewal = Renewal(first, "muscle a", lambda: None)
    renewal.stand(lambda: b"", lambda state: None)
    hear(link, first)
    clock.now_s += 2 * TAPE_BEGIN_S
    renewal.stand(lambda: b"now", lambda state: None)
    second = peer(reel)
    second.pump(0.0)

    def put(state: bytes) -> None:
        raise error

    with pytest.raises(TapeDiffers, match=f"cannot go on from the state that was taken: {error}"):
        Renewal(second, "muscle a", lambda: None).stand(lambda: b"", put)
