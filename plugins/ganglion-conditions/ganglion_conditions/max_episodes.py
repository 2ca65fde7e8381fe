"""Max episodes: a worker is done after so many episodes, and the phase when all are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ganglion.sdk import EpisodeView, PhaseView, Signal, TerminationCondition

__all__ = ["MaxEpisodes"]


class MaxEpisodes(TerminationCondition):
    """Stop each worker when it has finished `phase_config.episodes` episodes, and the phase when all have.

    Phase part: STOP_SIMULATION for a worker with enough episodes; STOP_PHASE, then only that, when all workers have
    them. Without a limit in the document it never fires. It takes no parameters.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"episodes"})
    local: ClassVar[frozenset[str]] = frozenset({"episode", "phase"})
    issuer = "max_episodes"
    reason = "max_episodes"

    def phase(self, view: PhaseView) -> Signal | Mapping[int, Signal]:
        """Return what is to happen with the workers whose episodes ended at this boundary."""
        if view.episodes is None:
            return Signal.CONTINUE
        done = {worker.worker for worker in view.workers if len(worker.finished) >= view.episodes}
        if len(done) == len(view.workers):
            return Signal.STOP_PHASE
        return {worker: Signal.STOP_SIMULATION for worker in view.asked if worker in done}

    def distances(self, phase: PhaseView, episodes: Sequence[EpisodeView]) -> Sequence[tuple[str, float, float]]:
        """Return the episodes of the worker that has the fewest, and the limit."""
        if phase.episodes is None or not phase.workers:
            return ()
        ended = [worker.finished[-1].episode + 1 if worker.finished else 0 for worker in phase.workers]
        return [("episodes of a worker", min(ended), phase.episodes)]
