"""Vanilla: what most documents want, in one word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ganglion.sdk import EpisodeView, PhaseView, Signal, TerminationCondition
from ganglion_conditions.environment import EnvironmentCondition
from ganglion_conditions.max_episodes import MaxEpisodes

__all__ = ["VanillaCondition"]


class VanillaCondition(TerminationCondition):
    """End episodes as `environment` does and phases as `max_episodes` does.

    Its signals are recorded under the names of these two; `issuer` is that of the last one. It takes no parameters.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"ended", "episodes"})
    local: ClassVar[frozenset[str]] = frozenset({"episode", "phase"})

    def __init__(self) -> None:
        super().__init__()
        self.issuer = ""
        self._environment = EnvironmentCondition()
        self._max_episodes = MaxEpisodes()

    def episode(self, view: EpisodeView) -> Signal:
        """Return what `environment` says."""
        signal = self._environment.episode(view)
        self.issuer, self.reason = self._environment.issuer, self._environment.reason
        return signal

    def longest_episode(self, environments: Mapping[str, int | None]) -> int | None:
        """Return what `environment` says."""
        return self._environment.longest_episode(environments)

    def phase(self, view: PhaseView) -> Signal | Mapping[int, Signal]:
        """Return what `max_episodes` says."""
        signal = self._max_episodes.phase(view)
        self.issuer, self.reason = self._max_episodes.issuer, self._max_episodes.reason
        return signal

    def distances(self, phase: PhaseView, episodes: Sequence[EpisodeView]) -> Sequence[tuple[str, float, float]]:
        """Return what `max_episodes` says."""
        return self._max_episodes.distances(phase, episodes)

    def state(self) -> Mapping[str, Any]:
        """Return nothing: both parts judge what they see, and keep nothing."""
        return {}
