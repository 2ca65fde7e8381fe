"""Recorder: the tape of one participant beside its conversation: compared, played out, begun anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ganglion.peer.conversation import Conversation, Incoming, Request, Told
from ganglion.peer.tape import Tape
from ganglion.wire import tape as wire
from ganglion.wire.envelope import Position, decode_head, encode_head
from ganglion.wire.tape import Kind
from ganglion.wire.verb import Verb


class Recorder:
    """Write down what one participant hears and says; first, let it hear and compare what its predecessor did.

    Attributes:
        welcomed: The frames of WELCOME, with which every tape begins.
    """

    def __init__(self, tape: Tape, conversation: Conversation) -> None:
        self.tape = tape
        self.welcomed: tuple[bytes, ...] = ()
        self._conversation = conversation
        self._base: Any = None
        self._place: int | None = None  # what is on the tape up to here is heard before every base
        self._placed_s = 0.0  # when that was

    # -- playing ------------------------------------------------------------------------------------------------------
    def play(self, kind: Kind, what: str) -> wire.Record:
        """Take the next record, which must be of this kind."""
        found = self.tape.peek()
        if found is not kind:
            other = "says less" if found is Kind.SAID else "says or waits for something else"
            raise self.tape.differs(f"it {what}, and {other}")
        return self.tape.take()

    def play_base(self) -> None:
        """Go on where the tape was begun anew, if it was."""
        if self.tape.playing and self.tape.peek() is Kind.BASE:
            serial, self._base, answers = wire.read_base(self.tape.take().payload)
            self._conversation.go_on(serial, answers)

    def stand(self) -> Any:
        """Return the state with which the predecessor went on from here; None if it did not."""
        if not self.tape.playing or self.tape.peek() is not Kind.BASE:
            return None
        self._place, self._placed_s = self.tape.place(), self.tape.time_s
        serial, state, answers = wire.read_base(self.tape.take().payload)
        self._conversation.go_on(serial, answers)
        return state

    @property
    def marked(self) -> bool:
        """Say whether it is known up to which place everything is heard before a base."""
        return self._place is not None

    def mark(self, now_s: float) -> None:
        """Take this for the place up to which everything is heard before a base."""
        self._place, self._placed_s = self.tape.place(), now_s

    def unmark(self) -> None:
        """Know of no such place."""
        self._place = None

    def take_base(self) -> Any:
        """Return, once, the state with which a predecessor began its tape; None if there is none."""
        found, self._base = self._base, None
        return found

    def hear_again(self, awaited: AbstractSet[int] | None) -> list[Incoming] | None:
        """Return what was heard here before; None behind the end of the tape."""
        tape = self.tape
        kind = tape.peek()
        if kind is None:
            return None
        if kind is Kind.SAID:
            raise tape.differs("it says less")
        if kind is Kind.BASE:
            raise tape.differs("it does more")
        if kind is Kind.TICK and awaited is not None:
            raise tape.differs("it waits for an answer")
        one = tape.take()
        if kind is Kind.TICK:
            return []
        if kind is Kind.LATE:
            late = self._conversation.open(wire.read_serials(one.payload))
            return list(self._conversation.give_up(late, tape.time_s))
        incoming, _ = self._conversation.receive(wire.frames_of(one.payload), tape.time_s)
        for found in incoming:
            if type(found) is Request:
                place = "" if found.head.position is None else _words(found.head.position)
                tape.where = f"{found.head.call}{place}"
        return incoming

    def compare(self, frames: Sequence[bytes], call: str) -> bytes | None:
        """Return the digest of a message that is to be said; None if the predecessor has said the same here."""
        digest = wire.digest(frames)
        tape = self.tape
        if not tape.playing or tape.peek() is None:
            return digest
        if self.play(Kind.SAID, f"says {call}").payload != digest:
            raise tape.differs(f"it says {call} otherwise")
        return None

    # -- beginning anew -----------------------------------------------------------------------------------------------
    def begin(self, now_s: float, heard: Sequence[tuple[Request | Told, bytes | None]], state: Any) -> None:
        """Begin the tape with WELCOME, a base, and these messages with the digests of their answers."""
        records = [wire.heard_record(now_s, self.welcomed)]
        again = {(request.peer, request.head.serial, request.head.call) for request, _ in heard}
        answers = [one for one in self._conversation.remembered() if tuple(one[:3]) not in again]
        records.append(wire.base_record(now_s, self._conversation.serial, state, answers))
        for request, answer in heard:
            frames = [request.peer.encode(), encode_head(request.head), request.body, *request.blobs]
            records.append(wire.heard_record(now_s, frames))
            if answer is not None:
                records.append(wire.record(Kind.SAID, now_s, answer))
        self._place = None
        self.tape.begin_anew(records)

    def rebase(self, now_s: float, state: Any) -> bool:
        """Begin the tape anew with what is on it up to the marked place, and a base; False if none is marked."""
        conversation = self._conversation
        if self._place is None or self.tape.given_up:
            return False
        base = wire.base_record(now_s, conversation.serial, state, conversation.remembered())
        kept = self.tape.beginning(self._place)
        first = next(wire.read_records(kept))
        # By the time of its first record it is known how long a tape takes to be heard.
        welcome = wire.heard_record(now_s - max(0.0, self._placed_s - first.time_s), self.welcomed)
        self.tape.begin_anew([base], b"".join((wire.MAGIC, *wire.block([welcome]), kept[first.end :])))
        return True

    def answer_digest(self, request: Request) -> bytes | None:
        """Return what stands on a tape for the answer to a request; None if it is not given, or forgotten."""
        answer = self._conversation.answered(request)
        return None if answer is None else wire.digest(answer)

    def told(self) -> Iterator[Told]:
        """Yield what was told since the tape was begun, read from there: it may be more than memory should hold."""
        for record in self.tape.records():
            if record.kind is Kind.HEARD:
                peer, head, *rest = wire.frames_of(record.payload)
                found = decode_head(head)
                if found.verb is Verb.TELL:
                    yield Told(peer.decode(), found, rest[0] if rest else b"", tuple(rest[1:]))


def _words(position: Position) -> str:
    return f" (phase {position[0]}, worker {position[1]}, episode {position[2]}, step {position[4]})"
