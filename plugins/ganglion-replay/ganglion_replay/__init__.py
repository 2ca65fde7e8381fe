"""Replay: brains learn from recorded episodes before their muscles act."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ganglion.peer.replay import Learner, Lesson, Recordings
    from ganglion.run.plan import Plan
    from ganglion.wire.messages import BrainPretrain

__all__ = ["Recorded"]


class Recorded:
    """Carry out what the key `replay` of documents asks for, with the rows of stores as recordings."""

    @staticmethod
    def recordings(plan: Plan, run: str, results: str, store: str | None, warn: Callable[[str], None]) -> Recordings:
        """Return what finds and keeps the recordings of a run, in the governor's process."""
        from ganglion_replay.recordings import Recordings as Found

        return Found(plan, run, results, store, warn)

    @staticmethod
    def lesson(asked: BrainPretrain, learner: Learner) -> Lesson:
        """Return the episodes of one request, as a brain learns from them, in the brain's process."""
        from ganglion_replay.pretraining import Pretraining
        from ganglion_replay.rehearsal import Rehearsal

        if learner.filters is not None:
            asked = Rehearsal(learner).play(asked)
        return Pretraining(asked, learner.brain, learner.hooks, learner.setup.muscles)
