"""Max steps: an episode is over after so many steps."""

from __future__ import annotations

from ganglion.sdk import EpisodeView, Signal, TerminationCondition

__all__ = ["MaxSteps"]


class MaxSteps(TerminationCondition):
    """End each episode after exactly `steps` steps, truncated unless the environment ends by itself in the last.

    Params:
        steps: Steps of an episode, >= 1.
    """

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
