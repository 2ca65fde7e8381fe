"""Unit: a co-simulation unit of FMI 2 or 3 as an environment, by fmpy; simulated time is counted in its steps."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from ganglion.sdk import (
    ActuatorInformation,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    SimTime,
    Space,
    SpaceError,
)
from ganglion_mosaik.link import local_folder
from ganglion_mosaik.values import moment, spaces

__all__ = ["UnitEnvironment"]

_TAKEN = ("Real", "Integer", "Boolean", "Enumeration", "Float", "Int", "UInt")  # FMI 3 has sizes behind the last three
_DISCARD, _TERMINATED = 2, 3  # of FMI 2: a status, and a kind of status


class UnitEnvironment(Environment):
    """Play a co-simulation unit (FMU) of FMI 2 or 3: a step of an episode is one of the unit's, of `step_size`.

    What is set holds during the step, what is read is from its end. An episode is truncated once no whole step fits
    before `stop_time`, and terminated where the unit asks for it.

    Params:
        unit: The file, seen from the folder of the document.
        sensors: Variable -> space as text, such as `Box(low=0.0, high=1.0, shape=())`.
        actuators: Likewise, of inputs; they begin with what the unit has them at.
        rewards: Likewise; variables that are paid. Default none.
        start_values: Variable -> value before the unit is initialised: parameters and start values. Default none.
        step_size: Seconds, > 0. Default None: that of the unit's experiment.
        start_time: Seconds. Default None: that of the unit's experiment, or 0.
        stop_time: Seconds, later than start_time. Default None: that of the unit's experiment.
        seed_as: Which variable gets the seed of an episode, below 2**31. Default None: none does.
        start_date: When the start time is, ISO 8601. Default None: there is no calendar.
    """

    def __init__(
        self,
        unit: str,
        sensors: Mapping[str, str],
        actuators: Mapping[str, str],
        rewards: Mapping[str, str] | None = None,
        start_values: Mapping[str, Any] | None = None,
        step_size: float | None = None,
        start_time: float | None = None,
        stop_time: float | None = None,
        seed_as: str | None = None,
        start_date: str | None = None,
    ) -> None:
        super().__init__()
        self.whose = f"unit {unit}"
        self._path = Path(local_folder() or ".", unit)
        self._sensors, self._actuators = spaces("sensors", sensors), spaces("actuators", actuators)
        self._rewards = spaces("rewards", rewards)
        self._start_values, self._seed_as = dict(start_values or {}), seed_as
        self._times = {"step_size": step_size, "start_time": start_time, "stop_time": stop_time}
        self._date = None if start_date is None else datetime.fromisoformat(start_date)
        self._fmu: Any = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._said, self._running, self._steps = "", False, 0

    def start_environment(self) -> EnvironmentBaseline:
        """Load the unit, make an instance, and initialise it."""
        import fmpy
        import fmpy.simulation

        if not self._path.is_file():
            raise FileNotFoundError(f"{self.whose}: there is no file {self._path}")
        try:
            self._about = about = fmpy.read_model_description(str(self._path))
        except Exception as error:
            raise ValueError(f"{self.whose}: expected an FMU: {error}") from error
        if about.fmiVersion.partition(".")[0] not in ("2", "3"):
            raise ValueError(f"{self.whose}: expected FMI 2 or 3, found {about.fmiVersion}")
        if about.coSimulation is None:
            raise ValueError(f"{self.whose}: expected a unit for co-simulation, found one for model exchange alone")
        self._check_variables()
        self._check_times()
        self._folder = tempfile.TemporaryDirectory(prefix="ganglion-fmu-")
        fmpy.extract(str(self._path), self._folder.name)
        try:
            self._fmu = fmpy.simulation.instantiate_fmu(
                self._folder.name, about, fmi_type="CoSimulation", logger=self._hear
            )
        except Exception as error:
            raise RuntimeError(f"{self.whose}: cannot be loaded: {error}") from error
        return self._begun(self.seed)

    def _check_variables(self) -> None:
        """Hold the document's variables to those of the unit."""
        self._variables = {it.name: it for it in self._about.modelVariables}
        inputs = [name for name, it in self._variables.items() if it.causality == "input"]
        spaces = {**self._sensors, **self._rewards, **self._actuators}
        for name in (*spaces, *self._start_values, *([self._seed_as] if self._seed_as else [])):
            if name not in self._variables:
                known = ", ".join(inputs if name in self._actuators else self._variables)
                raise ValueError(f"{self.whose}: there is no variable {name!r}; expected {known}")
        for name in self._actuators:
            if name not in inputs:
                found = self._variables[name].causality
                raise ValueError(f"{self.whose}: {name} is no input but {found}; expected {', '.join(inputs)}")
        for name, space in spaces.items():
            variable = self._variables[name]
            if not variable.type.startswith(_TAKEN):
                raise ValueError(f"{self.whose}: {name} is a {variable.type}, of which a space has no values")
            size = math.prod(variable.shape or ())
            if space.size != size:
                raise ValueError(f"{self.whose}: {name} has {size} numbers, found {space!r} with {space.size}")

    def _check_times(self) -> None:
        """Fill in what the unit says of times, and hold them to each other."""
        experiment, found = self._about.defaultExperiment, self._times
        for key, attribute in (("step_size", "stepSize"), ("start_time", "startTime"), ("stop_time", "stopTime")):
            if found[key] is None and experiment is not None and getattr(experiment, attribute) is not None:
                found[key] = float(getattr(experiment, attribute))
        begin, step, end = found["start_time"] or 0.0, found["step_size"], found["stop_time"]
        if step is None or end is None:
            lacking = "step_size" if step is None else "stop_time"
            raise ValueError(f"{self.whose}: expected {lacking} in the document or in the unit, found none")
        if step <= 0 or end <= begin:
            raise ValueError(
                f"{self.whose}: expected a step_size > 0 and a stop_time after {begin:g}, found {step:g} and {end:g}"
            )
        self._begin, self._step = begin, step
        self._last = math.floor((end - begin) / step * (1 + 1e-12))
        if self._last < 1:
            raise ValueError(f"{self.whose}: expected a step_size within {end - begin:g} s, found {step:g}")

    def _hear(self, *said: Any) -> None:
        """Keep what the unit says last: its words stand in errors."""
        self._said = b"".join(it for it in said[-1:] if isinstance(it, bytes)).decode(errors="replace").strip()

    def _begun(self, seed: int) -> EnvironmentBaseline:
        """Initialise the instance, and return what it shows."""
        from fmpy.simulation import apply_start_values, settable_in_initialization_mode, settable_in_instantiated

        fmu, about = self._fmu, self._about
        values = {**self._start_values, **({self._seed_as: seed % 2**31} if self._seed_as else {})}
        try:
            if about.fmiVersion == "2.0":
                fmu.setupExperiment(startTime=self._begin)
                values = apply_start_values(fmu, about, values, settable_in_instantiated)
                fmu.enterInitializationMode()
            else:
                values = apply_start_values(fmu, about, values, settable_in_instantiated)
                fmu.enterInitializationMode(startTime=self._begin)
            values = apply_start_values(fmu, about, values, settable_in_initialization_mode)
            if values:
                raise ValueError(f"start_values: {', '.join(values)} cannot be set")
            fmu.exitInitializationMode()
        except Exception as error:
            raise RuntimeError(f"{self.whose}: cannot be initialised: {error}{self._words()}") from error
        self._running, self._steps = True, 0
        setpoints = []
        for name, space in self._actuators.items():
            setpoints.append(ActuatorInformation(self._value(name, space), space, name))
        return EnvironmentBaseline(self._readings(), setpoints, self._time())

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Set the inputs, and make one step of the unit."""
        at, terminated = self._begin + self._steps * self._step, False
        self._set(actuators)
        try:
            # Both ends as multiples of the step, so that steps meet and their sum does not drift.
            told = self._fmu.doStep(at, self._begin + (self._steps + 1) * self._step - at)
        except Exception as error:
            discarded = getattr(error, "status", None) == _DISCARD  # so does FMI 2 say that the unit wants to end
            terminated = discarded and bool(self._fmu.getBooleanStatus(_TERMINATED))
            if not terminated:
                self._running = False
                why = f"the step of {self._step:g} s at {at:g} s is refused: {error}{self._words()}"
                raise RuntimeError(f"{self.whose}: {why}") from error
        else:
            if told is not None:  # FMI 3
                _, terminated, early, until = told
                if early and not terminated:
                    raise RuntimeError(f"{self.whose}: the step at {at:g} s ended early, at {until:g} s")
        self._steps += 1
        paid = [RewardInformation(self._value(name, space), space, name) for name, space in self._rewards.items()]
        over = not terminated and self._steps >= self._last
        return EnvironmentState(
            self._readings(), paid, terminated=bool(terminated), truncated=over, simtime=self._time()
        )

    def _words(self) -> str:
        return f"; it said {self._said!r:.500}" if self._said else ""

    def _set(self, setpoints: Sequence[ActuatorInformation]) -> None:
        for it in setpoints:
            variable = self._variables[it.uid]
            flat = self._actuators[it.uid].to_vector(it.value).tolist()
            whole = not variable.type.startswith(("Real", "Float"))
            getattr(self._fmu, f"set{_kind(variable, self._about)}")(
                [variable.valueReference], [int(value) for value in flat] if whole else flat
            )

    def _value(self, name: str, space: Space) -> Any:
        variable = self._variables[name]
        read = getattr(self._fmu, f"get{_kind(variable, self._about)}")
        found = read([variable.valueReference], space.size) if variable.shape else read([variable.valueReference])
        try:
            return space.from_vector(np.array([int(it) if isinstance(it, bool) else it for it in found]))
        except SpaceError as error:
            raise SpaceError(f"{self.whose}: {name}: {error}") from error

    def _readings(self) -> list[SensorInformation]:
        return [SensorInformation(self._value(name, space), space, name) for name, space in self._sensors.items()]

    def _time(self) -> SimTime:
        return moment(self._steps, self._steps * self._step, self._date)

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        """Begin anew with the same instance, as FMI has it."""
        self._fmu.terminate()
        self._running = False
        self._fmu.reset()
        return self._begun(request.seed)

    def shutdown(self) -> None:
        """Free the unit, and remove what was unpacked."""
        if self._fmu is not None:
            if self._running:
                self._fmu.terminate()
            self._fmu.freeInstance()
        if self._folder is not None:
            self._folder.cleanup()
        self._fmu, self._folder, self._running = None, None, False


def _kind(variable: Any, about: Any) -> str:
    """Return how a variable's getter and setter are called."""
    if variable.type == "Enumeration":
        return "Integer" if about.fmiVersion == "2.0" else "Int64"
    return str(variable.type)
