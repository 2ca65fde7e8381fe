from __future__ import annotations

from typing import Any

import pytest

from ganglion.sdk import Filter
from ganglion.testing import check_filter
from ganglion_filters.action_time_shift import ActionTimeShift
from ganglion_filters.delta_action import DeltaAction
from ganglion_filters.delta_obs import DeltaObs
from ganglion_filters.delta_step import DeltaStep
from ganglion_filters.deviation import AbsoluteDeviation, QuadraticPenalty
from ganglion_filters.merge_steps import MergeSteps
from ganglion_filters.norm import Norm


@pytest.mark.parametrize(
    ("cls", "params"),
    [
        (AbsoluteDeviation, {}),
        (ActionTimeShift, {"steps": 2}),
        (DeltaAction, {}),
        (DeltaObs, {"replace": False}),
        (DeltaStep, {"scale": "range"}),
        (MergeSteps, {"merge_actuators": True}),
        (Norm, {"batch_size": 3, "norm_objective_after": 5}),
        (QuadraticPenalty, {}),
    ],
)
def test_shipped_filters_keep_the_contract(cls: type[Filter], params: dict[str, Any]) -> None:
    """Each of ours passes."""
    check_filter(cls, params)
