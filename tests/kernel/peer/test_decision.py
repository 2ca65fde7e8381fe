from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError
from ganglion.peer.decision import Policy, alike, finite, thawed
from ganglion.peer.layout import Layout, freeze
from ganglion.sdk import Box, Discrete
from ganglion.sdk.models import Models
from ganglion.wire.messages import Thought

UNIT = Box(0.0, 1.0, ())


@pytest.mark.parametrize(
    ("own", "applied", "found"),
    [
        ([UNIT], [Discrete(3)], True),
        ([Box(-1.0, 1.0, (2,))], [Box(0.0, 9.0, (2,))], True),
        ([Box(-1.0, 1.0, (2,))], [Box(0, 9, (2,), dtype=np.int32)], False),
        ([Box(-1.0, 1.0, (2,))], [UNIT], False),
    ],
)
def test_proposals_stand_in_the_table_of_setpoints_if_they_can_be_read_there(
    own: list[Any], applied: list[Any], found: bool
) -> None:
    """Numbers are numbers; bytes are read by the dtype and size of what is applied; ids must be the same."""
    assert found is alike(Layout(["a"], own), Layout(["a"], applied))
    assert not alike(Layout(["b"], own), Layout(["a"], applied))


def test_an_infinite_setpoint_is_named() -> None:
    """The others are returned as they are."""
    layout = Layout(["a", "b"], [UNIT, Box(-np.inf, np.inf, ())])

    assert [0.5, 2.0] == finite(layout, [0.5, 2.0])
    with pytest.raises(AuthorError, match="setpoint b"):
        finite(layout, [0.5, np.inf])


def test_the_newest_policy_comes_from_the_brain(tmp_path: Path) -> None:
    """Everything else, and the policy of a brain that has none, from the files."""
    files = Models(tmp_path)
    files.save_value("stored", "policy")
    files.save({"a": np.zeros(1)}, "other")

    assert "fresh" == Policy(lambda: (True, "fresh"), files).load("policy")
    assert "stored" == Policy(lambda: (False, None), files).load("policy")
    assert ["a"] == list(Policy(lambda: (True, "fresh"), files).load("other"))
    assert Policy(lambda: (False, None), None).load() is None


def test_arrays_of_updates_and_filters_are_arrays_again() -> None:
    """Both may lie in the same blobs; without either an answer stays as it is."""
    blobs: list[bytes] = []
    large = np.arange(20_000, dtype=np.float64)
    update, filters = freeze({"w": large}, blobs, "u"), {"0": freeze({"m": large + 1}, blobs, "f")}
    found = thawed(Thought(update, True, filters=filters), blobs)

    assert 2 == len(blobs)
    assert large.tobytes() == found.update["w"].tobytes()
    assert found.filters is not None
    assert (large + 1).tobytes() == found.filters["0"]["m"].tobytes()
    bare = Thought(excused=[{"issuer": "brain:a"}])
    assert bare is thawed(bare, ())
