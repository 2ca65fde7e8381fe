"""An environment that kills its own process in its second episode, as `kill -9` would from another terminal."""

import os
import signal

from ganglion.sdk import (
    ActuatorInformation,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    RewardInformation,
    SensorInformation,
)


class Doomed(Environment):
    def start_environment(self):
        return EnvironmentBaseline([SensorInformation(0, Discrete(9), "s")], [ActuatorInformation(0, Discrete(2), "a")])

    def update(self, actuators):
        if self.episode == 1:
            os.kill(os.getpid(), signal.SIGKILL)  # or: kill -9, from another terminal
        return EnvironmentState([SensorInformation(0, Discrete(9), "s")], [RewardInformation(1, Discrete(2), "r")])
