from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import ContractBroken
from ganglion.sdk import Box, Filter, SensorInformation
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


class Forgets(Filter):
    """Show one sensor less than it declares."""

    def muscle_pre_process(self, sensors: Any, actuators: Any) -> Any:
        return sensors[1:], actuators


class Widens(Filter):
    """Show values that its declaration does not contain."""

    def muscle_pre_process(self, sensors: Any, actuators: Any) -> Any:
        wide = Box(-100.0, 100.0, ())
        return [SensorInformation(50.0, wide, sensors[0].uid), *sensors[1:]], actuators


class Remembers(Filter):
    """Carry a reading into the next episode."""

    last = 0.0

    def muscle_pre_process(self, sensors: Any, actuators: Any) -> Any:
        shown = SensorInformation(self.last, sensors[0].space, sensors[0].uid)
        self.last = sensors[0].value
        return [shown, *sensors[1:]], actuators


class Differs(Filter):
    """Be another one each time that it is made."""

    made = 0

    def declare(self, sensors: Any, actuators: Any) -> Any:
        type(self).made += 1
        return [*sensors, SensorInformation(None, Box(0.0, self.made, ()), "world.more")], actuators


class Wraps(Filter):
    """Send data that cannot travel."""

    def muscle_post_process(self, setpoints: Any, data: Any) -> Any:
        return setpoints, {1, 2}


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (Forgets, r"'world\.level' has no value"),
        (Widens, "world.level"),
        (Remembers, "`reset` begins anew"),
        (Differs, "both halves declare the same"),
        (Wraps, "cannot travel"),
    ],
)
def test_what_is_broken_is_named(cls: type[Filter], text: str) -> None:
    """The class, the clause, and what was found."""
    with pytest.raises(ContractBroken, match=f"{cls.__name__}: .*{text}"):
        check_filter(cls)
