"""Recording: recorded decisions in the form of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ganglion.sdk import Transitions
from ganglion_sb3.codec import Observations
from ganglion_sb3.collector import Decision

__all__ = ["Recorded"]


@dataclass(frozen=True)
class Recorded:
    """Give decisions episode by episode, as often as they are asked for; nothing is kept.

    The last decision of a session that did not terminate is the one at which the episode was cut off.

    Args:
        batches: The decisions of each session; may be iterated more than once.
        observations: Turns rows of readings into what a policy sees.
    """

    batches: Iterable[Transitions]
    observations: Observations

    def __iter__(self) -> Iterator[list[Decision]]:
        """Yield the decisions of each session."""
        for batch in self.batches:
            episode = [Decision.of(batch, i, self.observations) for i in range(len(batch))]
            episode[-1] = replace(episode[-1], truncated=episode[-1].truncated or not episode[-1].terminated)
            yield episode
