"""An environment that does not last."""

from __future__ import annotations

from typing import Any

from ganglion.sdk import ActuatorInformation, Discrete, Environment, RewardInformation, SensorInformation


class Crumbling(Environment):
    """Count as the dummy does, and raise in `step`; 0 is never."""

    def __init__(self, step: int = 0) -> None:
        super().__init__()
        self.step, self.count = step, 0

    def start_environment(self) -> Any:
        self.count = 0
        return [SensorInformation(0, Discrete(11), "0")], [ActuatorInformation(0, Discrete(100), "0")]

    def update(self, actuators: list[ActuatorInformation]) -> Any:
        self.count += 1
        if self.count == self.step:
            raise OSError("the simulator has crashed")
        reward = RewardInformation(self.count % 10, Discrete(11), "reward")
        return [SensorInformation(self.count % 10, Discrete(11), "0")], [reward], self.count >= 10
