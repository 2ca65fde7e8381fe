from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.peer.agent.decision import Policy, alike
from ganglion.peer.step.layout import Layout
from ganglion.sdk import Box, Discrete
from ganglion.sdk.models import Models

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


def test_the_newest_policy_comes_from_the_brain(tmp_path: Path) -> None:
    """Everything else, and the policy of a brain that has none, from the files."""
    files = Models(tmp_path)
    files.save_value("stored", "policy")
    files.save({"a": np.zeros(1)}, "other")

    assert "fresh" == Policy(lambda: (True, "fresh"), files).load("policy")
    assert "stored" == Policy(lambda: (False, None), files).load("policy")
    assert ["a"] == list(Policy(lambda: (True, "fresh"), files).load("other"))
    assert Policy(lambda: (False, None), None).load() is None
