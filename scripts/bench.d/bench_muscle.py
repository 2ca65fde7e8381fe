"""A muscle's own work in a decision: arrays against an object per value, with 20 sensors and one body."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from measure import Options, Row, compare, interleave

from ganglion.peer.agent.muscle import MuscleHost
from ganglion.peer.author import Loader
from ganglion.peer.participant import Participant
from ganglion.sdk import Batch, Box, Muscle, Objective
from ganglion.sdk.seed import words
from ganglion.wire.conversation import Request
from ganglion.wire.envelope import Head
from ganglion.wire.messages import Act, MuscleSetup
from ganglion.wire.verb import Verb

GATE = 3.0
SENSORS = 20
WEIGHTS = np.full((SENSORS, 1), 0.01)
ROW = np.random.default_rng(1).random(SENSORS).tolist()
REQUEST = Request("r/controller/0", Head(Verb.CALL, 1, "muscle.act"), b"", ())


class Objects(Muscle):
    """Decide by a linear policy on objects."""

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        """Set the actuator."""
        actuators_available[0].value = (np.array([it.value for it in sensors]) @ WEIGHTS).item()
        return actuators_available


class Arrays(Objects):
    """Decide by the same policy on arrays."""

    batched = True

    def propose_batch(self, batch: Batch) -> Any:
        """Return the setpoints."""
        return batch.observations @ WEIGHTS


class Nothing(Objective):
    """Judge nothing."""

    def internal_reward(self, memory: Any, **kwargs: Any) -> None:
        """Return None."""


@dataclass(frozen=True)
class _Classes(Loader):
    folder: str = ""
    allow: tuple[str, ...] = ()
    classes: Mapping[str, type[Any]] = field(default_factory=dict)

    def load(self, kind: str, name: str) -> type[Any]:
        return self.classes[kind]


def rows(options: Options) -> list[Row]:
    """Measure what a host does from the row of the wire to the row of setpoints, and the whole of an act beside it."""
    own = {cls.__name__: _decide(_host(cls)) for cls in (Arrays, Objects)}
    whole = {cls.__name__: _act(_host(cls)) for cls in (Arrays, Objects)}
    found = []
    for name, work, gate in (("decision", own, GATE), ("act with memory and objective", whole, None)):
        meters = {form: _meter(do, options.round_s) for form, do in work.items()}
        rates = interleave(meters, options.rounds)
        title = f"muscle, {name}, {SENSORS} sensors: arrays x objects"
        found.append(compare(title, rates["Arrays"], rates["Objects"], gate))
    return found


def _host(cls: type[Muscle]) -> MuscleHost:
    host = MuscleHost(_Classes(classes={"muscle": cls, "objective": Nothing}))
    host.participant = Participant(lambda: None, {}, pulse=False)  # type: ignore[arg-type, return-value]
    unit = Box(0.0, 1.0, ()).to_wire()
    sensors = [{"id": f"w.{i}", "space": unit} for i in range(SENSORS)]
    plugin = {"name": "own", "params": {}}
    streams = (words(1, ["muscle"]), words(1, ["objective"]))
    actuators, rewards = [{"id": "w.a", "space": unit, "value": 0.0}], [{"id": "w.r", "space": unit}]
    place = ("r", 0, "one", "test", 0, "a")
    setup = MuscleSetup(*place, plugin, plugin, sensors, actuators, rewards, *streams)
    host.setup(Request("r/controller/0", Head(Verb.CALL, 1, "muscle.setup"), b"", ()), setup)
    return host


def _act(host: MuscleHost) -> Callable[[], Any]:
    host.act(REQUEST, Act([ROW]))
    act = Act([ROW], [[0.5]])
    return lambda: host.act(REQUEST, act)


def _decide(host: MuscleHost) -> Callable[[], Any]:
    muscle, columns = host._muscle, host._columns  # noqa: SLF001 - a part of an act has no name of its own
    assert muscle is not None

    def decide() -> Any:
        matrix = None if columns is None else columns.matrix([ROW], "act.readings")
        readings = ROW if matrix is not None else host._from_row(ROW)  # noqa: SLF001 - likewise
        return host._propose(muscle, readings, ROW, matrix)  # noqa: SLF001 - likewise

    return decide


def _meter(do: Callable[[], Any], seconds: float) -> Callable[[], float]:
    """Return what measures how often something can be done in a second."""

    def measure() -> float:
        count, begin_s, now_s = 0, time.perf_counter(), 0.0
        while now_s - begin_s < seconds:
            for _ in range(200):
                do()
            count += 200
            now_s = time.perf_counter()
        return count / (now_s - begin_s)

    return measure
