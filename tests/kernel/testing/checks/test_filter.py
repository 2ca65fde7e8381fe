from __future__ import annotations

from typing import Any

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
