"""Max steps: an episode is over after so many steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ganglion.sdk import EpisodeView, PhaseView, Signal, TerminationCondition

__all__ = ["MaxSteps"]


class MaxSteps(TerminationCondition):
    """End each episode after exactly `steps` steps, truncated unless the environment ends by itself in the last.

    Params:
        steps: Steps of an episode, >= 1.
    """

    local: ClassVar[frozenset[str]] = frozenset({"episode"})
    issuer = "max_steps"

    def __init__(self, steps: int) -> None:
        super().__init__()
        if type(steps) is not int or steps < 1:
            raise ValueError(f"steps: expected an integer >= 1, found {steps!r}")
        self.steps = steps

    def episode(self, view: EpisodeView) -> Signal:
        """Return RESET at the boundary after step `steps`."""
        if view.step < self.steps:
            return Signal.CONTINUE
        self.reason = f"truncated: max_steps {self.steps}"
        return Signal.RESET

    def distances(self, phase: PhaseView, episodes: Sequence[EpisodeView]) -> Sequence[tuple[str, float, float]]:
        """Return the step of the worker that is farthest, and `steps`."""
        return [("step of the episode", max(view.step for view in episodes), self.steps)] if episodes else ()

    def longest_episode(self, environments: Mapping[str, int | None]) -> int | None:
        """Return `steps`."""
        return self.steps

    def warnings(self, document: Mapping[str, Any]) -> Sequence[str]:
        """Return a warning if no episode is as long as that, by what the environments say of themselves."""
        longest = document.get("longest_episode")
        if longest is None or self.steps <= longest:
            return ()
        several = len(document["environments"]) > 1
        ends = (
            f"the environments end an episode after {longest}" if several else f"this environment ends after {longest}"
        )
        return (f"condition can never fire: max_steps {self.steps}, {ends}",)
