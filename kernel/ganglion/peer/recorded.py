"""What the hosts of a participant see of its tape: that it is played, that it is begun anew."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from ganglion.peer.conversation import Conversation, Incoming, Request, Told
from ganglion.peer.recorder import Recorder
from ganglion.peer.tape import Tape, TapeDiffers


class Recorded(ABC):
    """Be the part of a participant that has to do with its tape; without one nothing happens.

    Attributes:
        takes_attributes: Whether snapshots may be taken of objects without `save_state`.
    """

    def __init__(self, tape: Tape | None) -> None:
        self.takes_attributes = True
        self._tape = tape
        self._conversation = Conversation()
        self._recorder = None if tape is None else Recorder(tape, self._conversation)
        self._inbox: deque[Incoming] = deque()

    @abstractmethod
    def clock(self) -> float:
        """Return monotonic seconds; while a tape is heard, those of its records."""

    @property
    def playing(self) -> bool:
        """Say whether what happens is heard from the tape of a predecessor, and nothing leaves."""
        return self._tape is not None and self._tape.playing

    @property
    def played(self) -> bool:
        """Say whether a tape has been heard to its end, and the bus is to be joined next."""
        tape = self._tape
        return tape is not None and tape.playing and tape.peek() is None and not self._inbox

    def answer_digest(self, request: Request) -> bytes | None:
        """Return what stands on a tape for the answer to a request; None if it is not given, or forgotten."""
        return None if self._recorder is None else self._recorder.answer_digest(request)

    def begin_tape(self, heard: Sequence[tuple[Request | Told, bytes | None]], state: Any = None) -> bool:
        """Forget what was heard before these requests: a successor needs to hear no more than them.

        With each goes the digest of its answer, None if that is still to be given, or if none is due. `state` is what
        `take_base` gives the successor. Nothing happens, and False is returned, without a tape or where something else
        is open.
        """
        if self._recorder is None or self.playing or not self.idle:
            return False
        self._recorder.begin(self.clock(), heard, state)
        return True

    def stand(self, anew: bool = False) -> Any:
        """Return the state with which a predecessor went on from here; None if it did not.

        Where this is called first with nothing open, or with `anew`, is the place that `rebase` returns to: a successor
        hears what is on the tape up to there, and goes on from the state.
        """
        if self._recorder is None:
            return None
        state = self._recorder.stand()
        if state is None and (anew or not self._recorder.marked):
            if self.idle:
                self.flush_tape()
                self._recorder.mark(self.clock())
            else:
                self._recorder.unmark()
        return state

    def rebase(self, state: Any) -> bool:
        """Forget what was heard since the place of `stand`; a successor goes on there with this state.

        Nothing happens, and False is returned, without a tape or where something is open.
        """
        if self._recorder is None or self.playing or not self.idle:
            return False
        return self._recorder.rebase(self.clock(), state)

    def differs(self, text: str) -> TapeDiffers:
        """Return what ends a process that does otherwise than is on its tape."""
        assert self._tape is not None
        return self._tape.differs(text)

    @abstractmethod
    def flush_tape(self) -> None:
        """Write what was noted; a tape that is too long then is given up, which is told."""

    @property
    def recorded(self) -> bool:
        """Say whether there is a tape."""
        return self._tape is not None

    @property
    def tapes(self) -> bool:
        """Say whether a tape is being written."""
        return self._tape is not None and not self._tape.playing

    @property
    def tape_bytes(self) -> int:
        """Return how long the tape is that is being written; 0 without one."""
        return self._tape.size_bytes if self._tape is not None and self.tapes else 0

    def told_on_tape(self) -> Iterator[Told]:
        """Yield what was told since the tape was begun, read from there: it may be more than memory should hold."""
        return iter(()) if self._recorder is None else self._recorder.told()

    @property
    def idle(self) -> bool:
        """Say whether nothing is asked, and nothing heard that is not answered but for one request."""
        return not self._inbox and self._conversation.idle

    @property
    def calm(self) -> bool:
        """Say whether nothing is asked, and nothing heard that is not answered."""
        return not self._inbox and self._conversation.calm

    def take_base(self) -> Any:
        """Return, once, the state with which a predecessor began its tape; None if there is none."""
        return None if self._recorder is None else self._recorder.take_base()
