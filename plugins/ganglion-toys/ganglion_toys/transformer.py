"""Counting transformer: the world state replaced by a number that shows how often it was called."""

from __future__ import annotations

from ganglion.sdk import EnvironmentState, StateTransformer

__all__ = ["CountingTransformer"]


class CountingTransformer(StateTransformer):
    """Replace the world state by the number of updates seen since the phase began: 1, 2, 3, ...

    Nothing else of the state is changed, and a new episode does not begin the count anew.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __call__(self, state: EnvironmentState) -> EnvironmentState:
        """Count the state and put the count into it."""
        self.count += 1
        state.world_state = self.count
        return state
