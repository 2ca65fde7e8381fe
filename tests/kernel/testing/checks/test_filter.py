from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import ContractBroken
from ganglion.sdk import Box, Filter, SensorInformation
from ganglion.testing import check_filter

WIDE = Box(-100.0, 100.0, ())


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


@pytest.mark.parametrize("cls", [Filter, Totals])
def test_those_that_keep_the_contract_pass(cls: type[Filter]) -> None:
    """The defaults are sound; a half with a state goes on where its state was taken."""
    check_filter(cls)


@pytest.mark.parametrize(
    ("base", "methods", "text"),
    [
        (Filter, {"brain_post_process": lambda self, update: set(update)}, "update: a .*set cannot travel"),
        (
            Totals,
            {"load_state": lambda self, state: None},
            "all that `load_state` needs to go on, bit for bit: found another answer",
        ),
        (
            Totals,
            {"save_state": lambda self: {"total": object()}},
            "what `save_state` returns can travel.*total: a .*object cannot travel",
        ),
        (
            Totals,
            {"receive": lambda self, arrays: 1 / (self.muscle is not None)},
            "both halves `receive` what was published.*ZeroDivisionError",
        ),
        (Filter, {"muscle_pre_process": lambda self, it, moved: (it[1:], moved)}, r"'world\.level' is missing"),
        (
            Filter,
            {
                "muscle_pre_process": lambda self, it, moved: (
                    [SensorInformation(50.0, WIDE, it[0].uid), *it[1:]],
                    moved,
                )
            },
            "world.level",
        ),
        (Remembers, {}, "`reset` begins anew"),
        (Differs, {}, "both halves declare the same"),
        (Filter, {"muscle_post_process": lambda self, setpoints, data: (setpoints, {1, 2})}, "cannot travel"),
    ],
)
def test_what_is_broken_is_named(base: type[Filter], methods: dict[str, Any], text: str) -> None:
    """The class, the clause, and what was found."""
    with pytest.raises(ContractBroken, match=f"Broken: .*{text}"):
        check_filter(type("Broken", (base,), methods))
