"""Renewal: when a process begins its tape anew with what it is, in the place of what it has heard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ganglion.errors import AuthorError, LimitExceeded, RemoteProtocolError
from ganglion.limits import TAPE_BEGIN_BYTES, TAPE_BEGIN_S
from ganglion.peer.participant import Participant
from ganglion.peer.snapshot import NotPlain, State

_TIMES_SIZE = 2  # a tape may be so much longer than the state with which it begins
_TIMES_COST = 50.0  # taking states may take a fiftieth of the time


class Renewal:
    """Say when a tape is to be begun anew, and begin it: once it is long, by bytes or by time.

    What that costs stays a small part of what is done between: the longer a state is, and the longer it takes to be
    taken, the longer the tape may become. A state that cannot be taken is no fault: the tape goes on as it is, which is
    told once: where an object is set up that `check` refuses, or later.
    """

    def __init__(self, participant: Participant, whose: str, check: Callable[[], None]) -> None:
        self._participant, self._whose, self._check = participant, whose, check
        self._cost_s = 0.0
        self.refused = False  # a state could not be taken
        self._first = True  # nobody has stood yet
        self._begin()

    def _begin(self) -> None:
        self._since_s = self._participant.clock()
        self._base_bytes = self._participant.tape_bytes

    def stand(self, take: Callable[[], State], put: Callable[[State], None]) -> bool:
        """Go on where a predecessor went on from here, by `put`; else begin the tape anew with `take`, if it is due.

        Returns whether somebody went on: what stands before is not to be done then.
        """
        participant = self._participant
        if not participant.recorded:
            return False
        first, self._first = self._first, False
        state = participant.stand(first)
        if state is not None:
            self.restore(state, put)
            return True
        if first:
            self._try(self._check)
        if self.due:
            began_s = participant.clock()
            self._try(lambda: participant.rebase(take()))
            self._begin()
            self._cost_s = self._since_s - began_s
        return False

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
        return (long or late) and more > 0 and participant.idle and not self.refused

    def restore(self, state: Any, put: Callable[[Any], None]) -> None:
        """Put back a state; what cannot go on from it ends as who does otherwise than before."""
        try:
            put(state)
        except (AuthorError, RemoteProtocolError) as error:
            raise self._participant.differs(f"it cannot go on from the state that was taken: {error};") from error
        self._begin()

    def _try(self, act: Callable[[], object]) -> None:
        """Do what may be refused; keep the tape then, and say so."""
        try:
            act()
        except (NotPlain, AuthorError, LimitExceeded) as error:
            self.refused = True
            text = "without save_state and load_state its journal is kept whole, and a loss costs more in a long phase"
            self._participant.warn(f"{self._whose}: {error}; {text}")
