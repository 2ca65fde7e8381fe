"""The pipe: environments and muscles that are programs with one JSON object per line on standard input and output.

`python -m ganglion.peer.lines COMMAND...` joins the bus in the place of COMMAND, with the same variables.
PROTOCOL.md describes the lines in its section "The pipe".
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, TypeVar

import numpy as np

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.limits import LEAVE_KILL_S, LEAVE_TERMINATE_S, LINE_ANSWER_S, MESSAGE_BYTES
from ganglion.peer.author import Loader
from ganglion.peer.environment.contract import declared_layout
from ganglion.peer.step.layout import Layout
from ganglion.sdk.environment import Environment, EnvironmentBaseline, EnvironmentState, ResetRequest
from ganglion.sdk.flow import SimTime
from ganglion.sdk.information import ActuatorInformation, Information, RewardInformation, SensorInformation
from ganglion.sdk.muscle import Muscle
from ganglion.sdk.part import Part
from ganglion.sdk.spaces import Space

T = TypeVar("T")

_SEED_SHIFT = 10  # seeds have 63 bits here, and 53 in lines: doubles hold these
_CHUNK_BYTES = 65536


class Lines:
    """Run a program that answers each line on its standard input by one line on its standard output."""

    def __init__(self, command: Sequence[str]) -> None:
        self._number = 0  # of the newest line
        self._rest = b""
        variables = {key: value for key, value in os.environ.items() if not key.startswith("GANGLION_")}
        try:
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables, process_group=0, bufsize=0
            )
        except OSError as error:
            raise AuthorError(f"cannot start {command[0]}: {error.strerror or error}") from None
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._stdin, self._stdout = self._child.stdin, self._child.stdout
        os.set_blocking(self._stdin.fileno(), False)
        signal.signal(signal.SIGTERM, self._terminate)

    def ask(self, call: str, **fields: Any) -> dict[str, Any]:
        """Return the object that answers a call; AuthorError names the line and its fault.

        When the program has ended, this process ends in the same way, so that the loss is handled as any other.
        """
        try:
            line = json.dumps({"call": call, **fields}, default=_plain, allow_nan=False, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise AuthorError(f"{call}: it cannot be written as JSON: {error}") from error
        answer = self._exchange(line.encode() + b"\n", call)
        self._number += 1
        try:
            found = json.loads(answer, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise self.wrong("", f"expected a JSON object, found {answer[:80]!r}: {error}") from error
        if type(found) is not dict:
            raise self.wrong("", f"expected a JSON object, found {answer[:80]!r}")
        if "error" in found:
            raise AuthorError(f"{call}: the program answered with the error {found['error']!r:.400}")
        return found

    def wrong(self, field: str, text: str) -> AuthorError:
        """Return the error that names a field of the newest line."""
        return AuthorError(f"line {self._number} of its standard output: {field}{': ' if field else ''}{text}")

    def end(self) -> None:
        """Close the program's standard input, wait for its end, and end the rest of its process group."""
        self._stdin.close()
        status = self._status()
        self._child.wait(LEAVE_KILL_S)
        self._stdout.close()
        if status is None:
            raise AuthorError(f"it did not end within {LEAVE_TERMINATE_S:g} s after its standard input ended")
        if status:
            raise AuthorError(f"expected exit status 0 after its standard input ended, found {status}")

    def _exchange(self, data: bytes, call: str) -> bytes:
        """Write one line and return the next one, within a deadline."""
        if self._rest:
            self._number += 1
            raise self.wrong("", f"expected no line before the call {call}, found {self._rest[:80]!r}")
        until_s = time.monotonic() + LINE_ANSWER_S
        while True:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise AuthorError(f"{call}: expected one line within {LINE_ANSWER_S:g} s, found none")
            readable, writable, _ = select.select([self._stdout], [self._stdin] if data else [], [], left_s)
            if writable:
                try:
                    data = data[os.write(self._stdin.fileno(), data) :]
                except BrokenPipeError:
                    self._ended()
            if not readable:
                continue
            chunk = os.read(self._stdout.fileno(), _CHUNK_BYTES)
            if not chunk:
                self._ended()
            self._rest += chunk
            if len(self._rest) > MESSAGE_BYTES:
                raise AuthorError(f"{call}: expected a line of at most {MESSAGE_BYTES} bytes (message_bytes)")
            if b"\n" in chunk:
                answer, _, self._rest = self._rest.partition(b"\n")
                return answer

    def _ended(self) -> NoReturn:
        """End this process as the program has ended."""
        status = self._status()
        if status is not None and status < 0:
            _end_by(-status)
        found = "closed a standard stream" if status is None else f"ended with exit status {status}"
        sys.stderr.write(f"the program {found} before its standard input ended\n")
        sys.stderr.flush()
        os._exit(status or 1)

    def _status(self) -> int | None:
        """Return the program's exit status, None if it does not end; end the rest of its process group."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(LEAVE_TERMINATE_S)
        status = self._child.returncode
        self._kill()
        return status

    def _terminate(self, signum: int, _: Any) -> None:
        self._kill()
        _end_by(signum)

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)


def _end_by(signum: int) -> NoReturn:
    if signum not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)
    os._exit(128 + signum)  # of a signal that ends no process by default


def _plain(value: Any) -> Any:
    """Return arrays and numbers of numpy as plain lists and numbers."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} is neither a number, a text, a boolean, a list, a map nor an array")


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _value(space: Space, value: Any) -> Any:
    return value if value is None or space.scalar else space.to_vector(value)


def _values(informations: Sequence[Information]) -> dict[str, Any]:
    return {it.uid: _value(it.space, it.value) for it in informations}


class _Piped(Part):
    """Exchange lines with a program that is started for each phase."""

    command: ClassVar[Sequence[str]] = ()
    _lines: Lines

    def _begin(self, call: str, name: Mapping[str, str], **fields: Any) -> dict[str, Any]:
        """Start the program; return its answer to the first call."""
        self._lines = Lines(self.command)
        place = {"worker": self.worker, "mode": self.mode.value, "params": dict(self.params)}
        return self._lines.ask(call, **name, **place, seed=self.seed >> _SEED_SHIFT, **fields)

    def _read(self, kind: Callable[..., T], layout: Layout, given: Any, field: str) -> list[T]:
        """Return the values of a map as informations in declared order."""
        if type(given) is not dict or given.keys() != set(layout.ids):
            found = ", ".join(given) if type(given) is dict else f"{given!r:.80}"
            raise self._lines.wrong(field, f"expected a map with the keys {', '.join(layout.ids)}, found {found}")
        try:
            values = layout.values(layout.checked([[given[uid] for uid in layout.ids]], field), field)
            return [kind(*it) for it in zip(values, layout.spaces, layout.ids, strict=True)]
        except RemoteProtocolError as error:
            raise self._lines.wrong("", str(error)) from None

    def _layout(self, declared: Mapping[str, Any], field: str) -> Layout:
        """Return the layout of a list of `id: space` or `{id, space}`."""
        rows = declared.get(field)
        if type(rows) is not list:
            raise self._lines.wrong(field, f"expected a list of declarations, found {rows!r:.80}")
        try:
            return declared_layout(rows, field)
        except RemoteProtocolError as error:
            raise self._lines.wrong("", str(error)) from None


class LinesEnvironment(_Piped, Environment):
    """Let a program play an environment."""

    def start_environment(self) -> EnvironmentBaseline:
        """Start the program; return its declarations."""
        if len(self.bodies) > 1:
            raise AuthorError(f"a program that speaks lines has one body, environment {self.uid} {len(self.bodies)}")
        declared = self._begin("start", {"uid": self.uid})
        self._sensors, actuators, self._rewards = (
            self._layout(declared, field) for field in ("sensors", "actuators", "rewards")
        )
        try:
            self._actuators = actuators.noops(declared["actuators"])
        except RemoteProtocolError as error:
            raise self._lines.wrong("actuators.value", str(error)) from None
        return self._begun(declared)

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        """Ask for the next episode."""
        return self._begun(self._lines.ask("reset", episode=request.episode, seed=request.seed >> _SEED_SHIFT))

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Ask for one step."""
        answer = self._lines.ask("update", setpoints=_values(actuators))
        flags = {key: answer.get(key) for key in ("done", "terminated", "truncated")}
        for key, flag in flags.items():
            if flag is not None and type(flag) is not bool:
                raise self._lines.wrong(key, f"expected true or false, found {flag!r:.80}")
        rewards = self._read(RewardInformation, self._rewards, answer.get("rewards"), "rewards")
        return EnvironmentState(self._readings(answer), rewards, simtime=self._time(answer), **flags)

    def shutdown(self) -> None:
        """End the program."""
        self._lines.end()

    def _begun(self, answer: Mapping[str, Any]) -> EnvironmentBaseline:
        rewards = [RewardInformation(None, space, uid) for uid, space in self._rewards.pairs()]
        time = self._time(answer) or SimTime(0, None)
        return EnvironmentBaseline(self._readings(answer), self._actuators, time, rewards_available=rewards)

    def _readings(self, answer: Mapping[str, Any]) -> list[SensorInformation]:
        return self._read(SensorInformation, self._sensors, answer.get("readings"), "readings")

    def _time(self, answer: Mapping[str, Any]) -> SimTime | None:
        ticks = answer.get("ticks")
        if ticks is not None and type(ticks) is not int:
            raise self._lines.wrong("ticks", f"expected an integer, found {ticks!r:.80}")
        return None if ticks is None else SimTime(ticks, None)


class LinesMuscle(_Piped, Muscle):
    """Let a program play a muscle; the host of this object calls the brain."""

    def setup(self) -> None:
        """Start the program with the agent's sensors and actuators."""
        self._layout_out = Layout([it.uid for it in self.actuators], [it.space for it in self.actuators])
        sensors = [{"id": it.uid, "space": it.space.to_wire()} for it in self.sensors]
        actuators = [
            {"id": it.uid, "space": it.space.to_wire(), "value": _value(it.space, it.value)} for it in self.actuators
        ]
        self._begin("setup", {"agent": self.name}, sensors=sensors, actuators=actuators)

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> tuple[list[ActuatorInformation], Any]:
        """Ask for a decision."""
        answer = self._lines.ask("act", readings=_values(sensors))
        found = self._read(ActuatorInformation, self._layout_out, answer.get("setpoints"), "setpoints")
        for actuator, one in zip(actuators_available, found, strict=True):
            actuator.value = one.value
        return actuators_available, answer.get("data")

    def update(self, update: Any) -> None:
        """Send the brain's update to the program."""
        self._lines.ask("update", update=update)

    def reset(self) -> None:
        """Tell the program that an episode begins."""
        self._lines.ask("reset")

    def teardown(self) -> None:
        """End the program."""
        self._lines.end()


_CLASSES: dict[str, type[Part]] = {"environment": LinesEnvironment, "muscle": LinesMuscle}


@dataclass(frozen=True, slots=True)
class LinesLoader(Loader):
    """Load the class of this module for the program's role, every other class as usual."""

    command: Sequence[str] = ()

    def load(self, kind: str, name: str) -> type[Any]:
        """Return the class."""
        own = _CLASSES.get(kind)
        if own is None:
            return super(LinesLoader, self).load(kind, name)
        return type(own.__name__, (own,), {"command": self.command, "__module__": __name__})

    def blame(self, kind: str, name: str) -> str:
        """Return the program for error messages."""
        return f"program {self.command[0]}" if kind in _CLASSES else super(LinesLoader, self).blame(kind, name)


if __name__ == "__main__":
    from ganglion.peer.main import main

    sys.exit(main({**os.environ, "GANGLION_PLUGIN": "lines"}, sys.argv[1:]))
