"""Waits: when to report a wait to observers, and a late peer to the supervisor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ganglion.errors import RemoteProtocolError
from ganglion.limits import WAIT_REPORT_S
from ganglion.wire.codec import decode_map
from ganglion.wire.conversation import Conversation, Pending
from ganglion.wire.envelope import decode_head
from ganglion.wire.messages import Overdue
from ganglion.wire.verb import Verb

_LONGEST_S = 64.0


class Reports:
    """Decide when to report a wait: after two seconds, then after twice as long each time."""

    def __init__(self) -> None:
        self._told_s = 0.0
        self._after_s = WAIT_REPORT_S

    def due(self, since_s: float, now_s: float) -> bool:
        """Return whether to report a wait that began at `since_s`; it then counts as reported."""
        if self._told_s < since_s:
            self._told_s, self._after_s = since_s, WAIT_REPORT_S
        if now_s - self._told_s < self._after_s:
            return False
        self._told_s, self._after_s = now_s, min(2 * self._after_s, _LONGEST_S)
        return True


class LateReports:
    """Report late peers to the supervisor; a call is given up if the supervisor cannot replace the peer.

    `ask` calls the supervisor and returns the serial of that call, which is in no journal.
    """

    def __init__(self, conversation: Conversation, ask: Callable[[Overdue], int]) -> None:
        self._conversation, self._ask = conversation, ask
        self.open: dict[int, Pending] = {}  # serial of the call to the supervisor -> the late call

    def report(self, late: Sequence[Pending], now_s: float) -> list[Pending]:
        """Report calls that were not reported yet, and restart their deadlines; return the calls to give up."""
        fresh = [pending for pending in late if pending.peer and not pending.reported]
        for pending in fresh:
            pending.reported = True
            self._conversation.wait_on(pending, now_s)
            serial = self._ask(Overdue(pending.peer, pending.call, now_s - pending.since_s))
            # What became of an earlier report was lost with the broker, or is of no interest any more.
            self.open = {said: one for said, one in self.open.items() if one is not pending}
            self.open[serial] = pending
        return [pending for pending in late if pending not in fresh]

    def hear(self, frames: Sequence[bytes], now_s: float) -> None:
        """Take the supervisor's reply about a late peer."""
        head = decode_head(frames[1])
        pending = self.open.pop(head.serial, None) if head.verb in (Verb.REPLY, Verb.ERROR) else None
        if pending is None or not pending.reported:
            return  # the peer was lost meanwhile: its time has begun again, and it is to be asked again
        if head.verb is Verb.REPLY or _is_busy(frames):
            pending.reported = False  # the peer's time has begun again, and it can be reported again
        else:
            self._conversation.wait_no_longer(pending, now_s)


def _is_busy(frames: Sequence[bytes]) -> bool:
    try:
        return len(frames) > 2 and decode_map(frames[2]).get("kind") == "busy"
    except RemoteProtocolError:
        return False
