from __future__ import annotations

import pytest

import ganglion_gymnasium
from ganglion_gymnasium.space import from_gymnasium, to_gymnasium, value_to_gymnasium
from ganglion_gymnasium.wrapper import as_gymnasium


def test_names_are_there_when_asked_for() -> None:
    """The package offers its four functions without importing Gymnasium before one is asked for."""
    assert [as_gymnasium, from_gymnasium, to_gymnasium, value_to_gymnasium] == [
        getattr(ganglion_gymnasium, name) for name in ganglion_gymnasium.__all__
    ]
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        ganglion_gymnasium.nothing  # noqa: B018
