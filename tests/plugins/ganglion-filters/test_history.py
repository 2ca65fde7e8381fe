from __future__ import annotations

from ganglion.sdk import ActuatorInformation, Discrete
from ganglion_filters.history import Setpoints

TEN = Discrete(10)


def test_setpoints_may_come_in_any_order() -> None:
    """They are told apart by their ids."""
    one, two = ActuatorInformation(0, TEN, "x"), ActuatorInformation(1, TEN, "y")
    history = Setpoints([one, two], 1)
    history.note([ActuatorInformation(5, TEN, "y"), ActuatorInformation(4, TEN, "x")])

    assert [("LAST-1-x", 4), ("LAST-1-y", 5)] == [(it.uid, it.value) for it in history.sensors()]
    assert ["LAST-1-x (setpoint)", "LAST-1-y"] == [it.uid for it in Setpoints([one, two], 1, ["LAST-1-x"]).sensors()]
    assert [None, None] == [it.value for it in history.sensors(declared=True)]
