"""Reign: a governor in the midst of a phase, when nobody waits for its answer: taken, and put back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ganglion.peer.models import Library
from ganglion.peer.ordinals import Ordinals
from ganglion.peer.participant import Participant
from ganglion.peer.records import Records
from ganglion.peer.renewal import Renewal
from ganglion.peer.snapshot import NotPlain, Snapshot, State
from ganglion.run.governor import Governor
from ganglion.wire.messages import FlowSignal

Signals = dict[str, list[FlowSignal]]


class Reign:
    """Begin a governor's tape anew in the midst of a phase, once it is long, with all that the governor knows.

    It is made when the phase's episodes run; nobody waits for an answer then, and whenever it is stood.
    """

    def __init__(
        self,
        participant: Participant,
        governor: Governor,
        conditions: Mapping[str, Any],
        ordinals: Ordinals,
        records: Records,
        library: Library,
    ) -> None:
        self._participant, self._records, self._library = participant, records, library
        self._governor, self._ordinals = governor, ordinals
        parts = {f"condition {name}": (condition, ("phase",)) for name, condition in conditions.items()}
        self._snapshot = Snapshot(parts)
        self._renewal = Renewal(participant, "governor", self._snapshot.check)
        self._note = library.note()

    def stand(self, numbers: Mapping[str, int], said: Signals, put: Callable[[Any, Signals], None]) -> None:
        """Go on where a predecessor went on from here, by `put`; else begin the tape anew, if it is long.

        `numbers` and `said` are the last number of a signal to each controller, and the signals of this phase.
        """

        def take() -> State:
            ordinals = [self._ordinals.note(), self._ordinals.orders]
            books = {"governor": self._governor.state(), "ordinals": ordinals, "numbers": dict(numbers)}
            books |= {"records": self._records.state(), "said": dict(said), "rows": self._fresh_rows()}
            return self._snapshot.take(books, self._participant.takes_attributes)

        def go_on(state: State) -> None:
            read = self._snapshot.read(state)
            self._snapshot.put(read)
            books = read["books"]
            self._governor.restore(books["governor"])
            note, self._ordinals.orders = books["ordinals"]
            self._ordinals.restore(note)
            self._records.restore(books["records"])
            for row in books["rows"]:
                self._library.take(row)
            put(books["numbers"], books["said"])

        self._renewal.stand(take, go_on)

    def _fresh_rows(self) -> list[list[Any]]:
        """Return the rows of phases that have been recorded meanwhile: that of evaluations is, with the first one."""
        note = self._library.note()
        fresh = [row for row in note["rows"] if row not in self._note["rows"]]
        if note["shelves"] != self._note["shelves"] or any(row[0] != "phase" for row in fresh):
            raise NotPlain("models have been stored in the midst of a phase")
        return fresh
