"""Renewal: when a process begins its tape anew with what it is, in the place of what it has heard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ganglion.errors import AuthorError, LimitExceeded, RemoteProtocolError
from ganglion.limits import TAPE_BEGIN_BYTES, TAPE_BEGIN_S
from ganglion.peer.participant import Participant
from ganglion.peer.portrait import NoPortrait, Portrait

_TIMES_SIZE = 2  # a tape may be so much longer than the state with which it begins
_TIMES_COST = 50.0  # taking states may take a fiftieth of the time


class Renewal:
    """Say when a tape is to be begun anew, and begin it: once it is long, by bytes or by time.

    What that costs stays a small part of what is done between: the longer a state is, and the longer it takes to be
    taken, the longer the tape may become. A state that cannot be taken is no fault: the tape goes on as it is, which is
    told once, and it is tried again when the tape is twice as long.
    """

    def __init__(self, participant: Participant, whose: str) -> None:
        self._participant = participant
        self._whose = whose
        self._cost_s = 0.0
        self._told = False
        self._first = True  # nobody has stood yet
        self._begin()

    def _begin(self) -> None:
        self._since_s = self._participant.clock()
        self._base_bytes = self._participant.tape_bytes

    def stand(self, take: Callable[[], list[Portrait]], put: Callable[[list[Portrait]], None]) -> bool:
        """Go on where a predecessor went on from here, by `put`; else begin the tape anew with `take`, if it is due.

        Returns whether somebody went on: what stands before is not to be done then.
        """
        participant = self._participant
        if not participant.recorded:
            return False
        state, self._first = participant.stand(self._first), False
        if state is not None:
            self.restore(state, put)
            return True
        if self.due:
            self.begin(take, participant.rebase)
        return False

    @property
    def refused(self) -> bool:
        """Say whether a state could not be taken once."""
        return self._told

    @property
    def due(self) -> bool:
        """Say whether the tape is long, and nothing is open."""
        participant = self._participant
        if not participant.tapes:
            self._begin()
            return False
        more = participant.tape_bytes - self._base_bytes
        long = more > max(TAPE_BEGIN_BYTES, _TIMES_SIZE * self._base_bytes)
        late = participant.clock() - self._since_s >= max(TAPE_BEGIN_S, _TIMES_COST * self._cost_s)
        return (long or late) and more > 0 and participant.idle

    def begin(self, take: Callable[[], Any], rebase: Callable[[Any], bool]) -> None:
        """Begin the tape anew."""
        began_s = self._participant.clock()
        try:
            rebase(take())
        except (NoPortrait, AuthorError, LimitExceeded) as error:
            self._refuse(error)
        self._begin()
        self._cost_s = self._since_s - began_s

    def restore(self, state: Any, put: Callable[[Any], None]) -> None:
        """Put back a state; what cannot go on from it ends as who does otherwise than before."""
        try:
            put(state)
        except (AuthorError, RemoteProtocolError) as error:
            raise self._participant.differs(
                f"it cannot go on from the state that was taken: {error};"
            ) from error
        self._begin()

    def _refuse(self, error: Exception) -> None:
        """Keep the tape, and say so."""
        if not self._told:
            self._told = True
            text = "its tape cannot be begun anew: a loss costs the more the longer the phase takes"
            self._participant.warn(f"{self._whose}: {error}; {text} (save_state, load_state)")
