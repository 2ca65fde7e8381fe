from __future__ import annotations

from ganglion.sdk import EnvironmentState
from ganglion_toys.transformer import CountingTransformer


def test_counts_on_over_episodes(make) -> None:
    """The world state becomes 1, 2, 3, a reset in between changes nothing, and all else stays."""
    transformer = make(CountingTransformer)
    found = [transformer(EnvironmentState([], [], world_state="x")).world_state for _ in range(2)]
    transformer.reset()
    last = transformer(EnvironmentState([], [], truncated=True))

    assert [1, 2] == found
    assert (3, True, False) == (last.world_state, last.truncated, last.terminated)
