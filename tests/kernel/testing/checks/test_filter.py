from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import ContractBroken
from ganglion.sdk import Box, Filter, SensorInformation
from ganglion.testing import check_filter


def test_a_filter_that_changes_nothing_keeps_the_contract() -> None:
    """The defaults are sound."""
    check_filter(Filter)


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


class SendsASet(Filter):
    """Change updates to what cannot travel."""

    def brain_post_process(self, update: Any) -> Any:
        return set(update)


class Totals(Filter):
    """Add up objectives, in a state that a successor gets."""

    total = 0.0

    def brain_objective(self, muscle_id: str, objective: float | None) -> float | None:
        self.total += (objective or 0.0) + self.rng.normal()
        return self.total

    def publish(self) -> Any:
        return {"total": np.array(self.total)}

    def save_state(self) -> Any:
        return {"total": np.array(self.total)}

    def load_state(self, state: Any) -> None:
        self.total = float(state["total"])


class LosesItsState(Totals):
    """Take no state."""

    def load_state(self, state: Any) -> None:
        pass


class KeepsAnObject(Totals):
    """Have a state that cannot travel."""

    def save_state(self) -> Any:
        return {"total": object()}


class ReceivesInOne(Totals):
    """Take what was published in the muscle's half alone."""

    def receive(self, arrays: Any) -> None:
        assert self.muscle is not None, "no muscle"


def test_a_half_with_a_state_keeps_the_contract() -> None:
    """It goes on where its state was taken."""
    check_filter(Totals)


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (SendsASet, "update: a .*set cannot travel"),
        (LosesItsState, "all that `load_state` needs to go on: found another answer"),
        (KeepsAnObject, "what `save_state` returns can travel.*total: a .*object cannot travel"),
        (ReceivesInOne, "both halves `receive` what was published.*no muscle"),
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
