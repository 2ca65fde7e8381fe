from __future__ import annotations

from pathlib import Path

import pytest
from simulation.calls import by_role, calls_per_step, table

MOST = {  # mode -> calls per step of all participants, and two to spare: a body may need a closer look
    "train": 228,
    "test": 180,
}


@pytest.mark.parametrize("mode", MOST)
def test_one_step_takes_no_more_calls_than_it_did(mode: str, tmp_path: Path) -> None:
    """One step takes no more calls of Python functions, in all four participants, than it did."""
    found = calls_per_step(mode, tmp_path)
    roles = by_role(found)

    assert mode == "test" or all(roles.values()), roles
    assert sum(roles.values()) <= MOST[mode], "\n".join([str(roles), *table(found)])


def test_a_tick_of_eight_bodies_takes_no_more_calls_than_it_did(tmp_path: Path) -> None:
    """A tick of eight bodies that end one by one takes no more calls in controller and environment than it did."""
    found = calls_per_step("bodies", tmp_path)
    roles = by_role(found)

    assert roles["controller"] + roles["environment"] <= 226, "\n".join([str(roles), *table(found)])
