"""Reign: a governor in the midst of a phase, when nobody waits for its answer: taken, and put back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ganglion.peer.likeness import Likeness
from ganglion.peer.models import Library
from ganglion.peer.ordinals import Ordinals
from ganglion.peer.participant import Participant
from ganglion.peer.portrait import NoPortrait, Portrait
from ganglion.peer.records import Records
from ganglion.peer.renewal import Renewal
from ganglion.run.flow import Judgement
from ganglion.run.governor import Governor
from ganglion.run.setup import Cast
from ganglion.sdk.condition import EpisodeMeans, EvaluationView
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import EpisodeEnded, FlowSignal

_CONSTANT = (
    "plan",
    "_services",
    "_setup",
    "_models",
    "_phase",
    "_agents",
    "_ready",
    "_places",
)  # within a phase
_LATER = (
    EpisodeMeans,
    EpisodeEnded,
    EvaluationView,
    Judgement,
    Cast,
)  # what there may be that is not at first

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
        parts: dict[str, Any] = {"governor": (governor, _CONSTANT), "ordinals": (ordinals, ())}
        parts |= {f"condition {name}": (condition, ("phase",)) for name, condition in conditions.items()}
        self._renewal = Renewal(participant, "governor")
        self._likeness = Likeness(parts, classes=_LATER)
        self._note = library.note()

    def stand(self, numbers: Mapping[str, int], said: Signals, put: Callable[[Any, Signals], None]) -> None:
        """Go on where a predecessor went on from here, by `put`; else begin the tape anew, if it is long.

        `numbers` and `said` are the last number of a signal to each controller, and the signals of this phase.
        """

        def take() -> list[Portrait]:
            rows = self._fresh_rows()
            codec = codec_of(FlowSignal)
            kept = {peer: [codec.encode(signal) for signal in signals] for peer, signals in said.items()}
            books = {"records": self._records.state(), "numbers": dict(numbers), "said": kept, "rows": rows}
            return self._likeness.take(books)  # what it consists of is ours, but for conditions

        def go_on(state: list[Portrait]) -> None:
            read = self._likeness.read(state)
            self._likeness.put(read)
            books, codec = read[0]["books"], codec_of(FlowSignal)
            self._records.restore(books["records"])
            for row in books["rows"]:
                self._library.take(row)
            put(
                books["numbers"],
                {peer: [codec.decode(signal) for signal in kept] for peer, kept in books["said"].items()},
            )

        self._renewal.stand(take, go_on)

    def _fresh_rows(self) -> list[list[Any]]:
        """Return the rows of phases that have been recorded meanwhile: that of evaluations is, with the first one."""
        note = self._library.note()
        fresh = [row for row in note["rows"] if row not in self._note["rows"]]
        if note["shelves"] != self._note["shelves"] or any(row[0] != "phase" for row in fresh):
            raise NoPortrait("models have been stored in the midst of a phase")
        return fresh
