"""Scenario: the environment of a run that is a simulator in a scenario of mosaik."""

from __future__ import annotations

import os
import socket
from typing import Any

from ganglion.sdk import (
    ActuatorInformation,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    RewardInformation,
    SensorInformation,
    SimTime,
    Space,
)
from ganglion_mosaik.link import Link
from ganglion_mosaik.values import plain, spaces

__all__ = ["ADDRESS", "ScenarioEnvironment"]

ADDRESS = "GANGLION_MOSAIK"
"""The variable by which `GanglionSimulator` tells the processes of its run where it listens: host:port:token."""


class ScenarioEnvironment(Environment):
    """A scenario of mosaik, of which the run is a simulator: sensors, actuators, spaces and time are the scenario's.

    It has one episode, which is truncated when the scenario ends. If its process is lost the run ends: a scenario does
    not go back. Any other process is replaced, as always.

    Params:
        answer_s: How long the other simulators may take for a step, in s. Default 600.
    """

    def __init__(self, answer_s: float = 600.0) -> None:
        super().__init__()
        self._answer_s = answer_s
        self._link: Link | None = None
        self._sensors: dict[str, Space] = {}
        self._rewards: dict[str, Space] = {}

    def start_environment(self) -> EnvironmentBaseline:
        """Connect to the simulator of the scenario; its first inputs are the first readings."""
        address = os.environ.get(ADDRESS, "")
        host, _, rest = address.partition(":")
        port, _, token = rest.partition(":")
        if not token:
            raise RuntimeError("a scenario of mosaik starts this run: see ganglion_mosaik.simulator:GanglionSimulator")
        if self._link is not None:
            raise RuntimeError("a scenario of mosaik has one episode: say `episodes: 1`")
        if int(os.environ.get("GANGLION_INCARNATION", "1")) > 1:
            raise RuntimeError("the process of a scenario's environment was lost, and a scenario does not go back")
        self._link = Link(socket.create_connection((host, int(port))), "the scenario of mosaik", self._answer_s)
        self._link.say({"token": token})
        told = self._link.hear()
        self._sensors, self._rewards = spaces("sensors", told["sensors"]), spaces("rewards", told["rewards"])
        actuators = spaces("actuators", told["actuators"])
        setpoints = [ActuatorInformation(space.default(), space, uid) for uid, space in actuators.items()]
        return EnvironmentBaseline(self._readings(told), setpoints, SimTime(told["time"], None))

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Hand the setpoints on; the inputs of the next step are what came of them."""
        assert self._link is not None
        self._link.say({it.uid: plain(it.value) for it in actuators})
        told = self._link.hear()
        paid = [RewardInformation(told["values"][uid], space, uid) for uid, space in self._rewards.items()]
        time = SimTime(told["time"], None)
        return EnvironmentState(self._readings(told), paid, terminated=False, truncated=told["over"], simtime=time)

    def _readings(self, told: Any) -> list[SensorInformation]:
        return [SensorInformation(told["values"][uid], space, uid) for uid, space in self._sensors.items()]

    def shutdown(self) -> None:
        """Leave the scenario."""
        if self._link is not None:
            self._link.close()
