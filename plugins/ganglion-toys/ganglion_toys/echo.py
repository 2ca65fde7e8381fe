"""Echo muscle: answers that prove which readings a decision was made on."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from ganglion.sdk import ActuatorInformation, Muscle, SensorInformation

__all__ = ["MODULUS", "EchoMuscle", "checksum"]

# The largest prime below 10^6 + 4: every answer fits in seven digits, and 31 has an inverse, so no reading is lost.
MODULUS = 1_000_003
FACTOR = 31


def checksum(readings: Iterable[Any]) -> int:
    """Return the checksum of a body's readings, in 0 .. 1000002.

    It starts at 0 and becomes (31 c + v + 1) mod 1000003 for each value v.

    Args:
        readings: Numbers or arrays in declared order; arrays are read in C order, values truncated to integers.
    """
    c = 0
    for reading in readings:
        for value in np.asarray(reading).ravel().tolist():
            c = (FACTOR * c + int(value) + 1) % MODULUS
    return c


class EchoMuscle(Muscle):
    """Set every actuator to the checksum of the readings.

    Params:
        offset: Added to the checksum, modulo 1000003; an integer, default 0.
        delay_s: How long each decision takes, in seconds, >= 0; default 0.0. For tests of slow muscles.
    """

    def __init__(self, offset: int = 0, delay_s: float = 0.0) -> None:
        super().__init__()
        self.offset = offset
        self.delay_s = delay_s

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> list[ActuatorInformation]:
        """Set each actuator to (checksum + offset) mod 1000003."""
        if self.delay_s:
            time.sleep(self.delay_s)
        answer = (checksum(sensor.value for sensor in sensors) + self.offset) % MODULUS
        for actuator in actuators_available:
            actuator.value = answer
        return actuators_available
