"""Simulator: a run of Ganglion in a scenario of mosaik."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mosaik_api_v3

from ganglion_mosaik.link import Link
from ganglion_mosaik.scenario import ADDRESS

__all__ = ["GanglionSimulator"]

JOIN_S = 120.0  # how long the processes of a run may take to start


class GanglionSimulator(mosaik_api_v3.Simulator):  # type: ignore[misc]
    """Let the agents of a run act in a scenario: their readings are its inputs, their setpoints its outputs.

    The document has one environment `mosaik_scenario` and one phase with one episode. The scenario calls
    `world.start(name, document=..., sensors=..., actuators=...)` and creates one `Run`.
    """

    def __init__(self) -> None:
        super().__init__({"type": "time-based", "models": {}})
        self._run: subprocess.Popen[bytes] | None = None
        self._link: Link | None = None
        self._values: dict[str, Any] = {}
        self._setpoints: dict[str, Any] = {}
        self._time = 0

    def init(
        self,
        sid: str,
        time_resolution: float = 1.0,
        *,
        document: str,
        sensors: Mapping[str, str],
        actuators: Mapping[str, str],
        rewards: Mapping[str, str] | None = None,
        initial: Mapping[str, Any] | None = None,
        step_size: int = 1,
    ) -> Any:
        """Take what the scenario says.

        Args:
            sid: Given by mosaik, like `time_resolution`.
            document: The run document.
            sensors: Attribute that is an input -> space as text; one source each.
            actuators: Attribute that is an output -> space as text.
            rewards: Attributes that are inputs, too, and are paid.
            initial: Attribute -> value where nothing is connected at first.
            step_size: Ticks between two decisions.
        """
        self._document, self._step_size = document, step_size
        self._told = {"sensors": dict(sensors), "actuators": dict(actuators), "rewards": dict(rewards or {})}
        self._values = dict(initial or {})
        attributes = [*dict.fromkeys((*sensors, *(rewards or {}))), *actuators]
        self.meta["models"] = {"Run": {"public": True, "params": [], "attrs": attributes}}
        return self.meta

    def create(self, num: int, model: str, **params: Any) -> Any:
        """Make the one entity `run`."""
        if num != 1 or self._run is not None:
            raise ValueError(f"expected one Run in a simulator, found {num}")
        return [{"eid": "run", "type": model}]

    def step(self, time: int, inputs: Any, max_advance: int) -> int:
        """Let the agents decide on these inputs."""
        for attribute, given in inputs.get("run", {}).items():
            if len(given) != 1:
                raise ValueError(f"{attribute}: expected one source, found {', '.join(given)}")
            self._values[attribute] = next(iter(given.values()))
        lacking = [uid for uid in (*self._told["sensors"], *self._told["rewards"]) if self._values.get(uid) is None]
        if lacking:
            raise ValueError(f"{', '.join(lacking)}: expected a value at time {time}, found none; give `initial`")
        self._time = time
        if self._link is None:
            self._start()
        else:
            self._say(over=False)
        assert self._link is not None
        self._setpoints = self._link.hear()
        return time + self._step_size

    def _start(self) -> None:
        """Start the run; its environment connects back with a token that no other process knows."""
        token = secrets.token_hex(16)
        with socket.create_server(("127.0.0.1", 0)) as server:
            host, port = server.getsockname()
            variables = {**os.environ, ADDRESS: f"{host}:{port}:{token}"}
            command = [str(Path(sys.executable).with_name("ganglion")), "run", "-q", self._document]
            self._run = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL)
            server.settimeout(1.0)
            for _ in range(int(JOIN_S)):
                if self._run.poll() is not None:
                    raise RuntimeError(f"the run of {self._document} has ended with status {self._run.returncode}")
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                link = Link(connection, f"the run of {self._document}", JOIN_S)
                if secrets.compare_digest(str(link.hear().get("token")), token):
                    self._link = link
                    self._say(over=False)
                    return
                link.close()
        raise TimeoutError(f"the run of {self._document} has not joined within {JOIN_S:g} s")

    def _say(self, over: bool) -> None:
        assert self._link is not None
        self._link.say({**self._told, "values": self._values, "time": self._time, "over": over})

    def get_data(self, outputs: Any) -> Any:
        """Return the setpoints of the newest decision."""
        return {entity: {name: self._setpoints[name] for name in names} for entity, names in outputs.items()}

    def finalize(self) -> None:
        """End the episode and wait for the run to finish."""
        if self._link is not None:
            with contextlib.suppress(OSError):  # it has ended already; its status says why
                self._say(over=True)
        if self._run is not None:
            status = self._run.wait(timeout=JOIN_S)
            if status != 0:
                raise RuntimeError(f"the run of {self._document} has ended with status {status}")
