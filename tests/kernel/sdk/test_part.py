from __future__ import annotations

import pytest

from ganglion.sdk.construct import Part


def test_the_base_constructor_ignores_everything() -> None:
    """`super().__init__(...)` with whatever another framework wanted does no harm."""
    Part(1, 2, uid="x", broker_uri="tcp://somewhere")


def test_parameters_of_a_part_made_by_hand_are_empty_and_read_only() -> None:
    """A class that is tried out without a run finds the attributes, and shares nothing by accident."""
    part = Part()

    assert ("", 0, {}) == (part.uid, part.worker, dict(part.params))
    with pytest.raises(TypeError):
        part.params["x"] = 1  # type: ignore[index]
