"""Decisions: the state of an open one, the contents of replies, and their checks against declarations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ganglion.errors import AuthorError, OutOfActionSpaceError, RemoteProtocolError
from ganglion.peer.author import ToleratedErrors, wrong_answer
from ganglion.peer.step.layout import Field, Layout
from ganglion.peer.values import deserialize
from ganglion.peer.worker.world import Actor
from ganglion.sdk.brain import Brain, EvaluationResult
from ganglion.sdk.flow import Signal
from ganglion.sdk.information import ActuatorInformation
from ganglion.sdk.models import Models
from ganglion.wire.messages import Acted, BrainEvaluated, Thought

BRAIN = "brain."
"""Prefix of the names of a brain's statistics, which share one column with those of its muscles."""


class Notes:
    """Keep tolerated errors and statistics of a brain's host for the worker of their row."""

    def __init__(self, tolerated_errors: ToleratedErrors) -> None:
        self._tolerated_errors = tolerated_errors
        self.due = False  # whether there is anything for any worker
        self._excused: dict[int, list[dict[str, Any]]] = {}
        self._noted: dict[int, dict[str, float]] = {}

    def take(self, worker: int, brain: Brain) -> None:
        """Keep for a worker the errors and statistics since the last call; of each key the newest number."""
        noted = brain.pop_statistics()
        if noted:
            self.due = True
            self._noted.setdefault(worker, {}).update({f"{BRAIN}{key}": noted[key] for key in noted})
        excused = self._tolerated_errors.pop() if self._tolerated_errors.due else None
        if excused:
            self.due = True
            self._excused.setdefault(worker, []).extend(excused)

    def pop(self, worker: int) -> tuple[list[dict[str, Any]] | None, dict[str, float] | None]:
        """Return the tolerated errors and the statistics for a worker; None where there are none."""
        found = self._excused.pop(worker, None), self._noted.pop(worker, None)
        self.due = bool(self._excused or self._noted)
        return found

    def left(self) -> list[dict[str, Any]] | None:
        """Return the tolerated errors not sent to any worker, at the end of a phase; None without any."""
        left = [excuse for excused in self._excused.values() for excuse in excused]
        self._excused = {}
        return left or None

    def export(self) -> dict[str, Any]:
        """Return the state that `restore` needs, as plain values."""
        return {
            "excused": [[worker, excused] for worker, excused in self._excused.items()],
            "noted": [[worker, noted] for worker, noted in self._noted.items()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `export` returned."""
        self._excused = {worker: list(excused) for worker, excused in state["excused"]}
        self._noted = {worker: dict(noted) for worker, noted in state["noted"]}
        self.due = bool(self._excused or self._noted)


POLICY = "policy"  # the tag of the last update, stored with a model


@dataclass(slots=True)
class Decision:
    """Hold an open decision; `settled` once its objective is known."""

    index: int
    readings: list[Any]
    told_readings: Field  # in wire form, like all fields named `told_`
    setpoints: list[Any]
    told_setpoints: Field
    data: Any = None
    frozen: Any = None  # the data in wire form; later changes by the author have no effect
    blobs: Sequence[bytes] = ()
    seen: Field | None = None  # the readings after filters
    proposed: Field | None = None  # the setpoints before filters
    rewards: Field | None = None
    objective: float | None = None
    settled: bool = False


@dataclass(slots=True)
class Seen:
    """Filtered readings, as values and in wire form, and the actuators to set."""

    values: list[Any]
    told: Field
    available: list[ActuatorInformation]


class Policy:
    """Read the newest policy from the training brain, other tags from the model with which the phase began."""

    def __init__(self, newest: Callable[[], tuple[bool, Any]], files: Models | None) -> None:
        self._newest, self._files = newest, files

    def load(self, tag: str = "") -> Any:
        """Return the value saved under a tag, None if there is none."""
        if tag == POLICY:
            found, policy = self._newest()
            if found:
                return policy
        return None if self._files is None else self._files.load(tag)


def deserialized(thought: Thought, parts: Sequence[bytes]) -> Thought:
    """Return the reply of a brain with its arrays deserialized."""
    if not thought.fresh and thought.filters is None:
        return thought
    update = deserialize(thought.update, parts, "update") if thought.fresh else None
    return replace(thought, update=update, filters=deserialize(thought.filters, parts, "thought.filters"))


def alike(own: Layout, applied: Layout) -> bool:
    """Return whether proposals of an agent fit the table of setpoints: the same ids, and values of the same form."""
    if own.ids != applied.ids:
        return False
    return all(
        one.scalar == other.scalar and (one.scalar or (one.dtype, one.size) == (other.dtype, other.size))
        for one, other in zip(own.spaces, applied.spaces, strict=True)
    )


def finite(layout: Layout, values: list[Any]) -> list[Any]:
    """Return setpoints; AuthorError names the first infinite one, which spaces without bounds contain."""
    infinite = layout.infinite(values)
    if infinite is not None:
        raise AuthorError(f"setpoint {infinite}: expected a finite number, found {values!r:.80}")
    return values


_ACT = "muscle.act"


def heard(actors: Sequence[Actor], answers: Sequence[Acted], counts: Sequence[int] | None = None) -> list[Acted]:
    """Return the replies of these muscles in the form of our own hosts.

    Our hosts check what they send. An invalid reply of a program raises CallFailed, which names the program. With
    bodies, `counts` are the numbers of bodies that decide.
    """
    expected = [None] * len(answers) if counts is None else counts
    return [
        _checked(actor, answer, count) if actor.program else answer
        for actor, answer, count in zip(actors, answers, expected, strict=True)
    ]


def setpoints_of(actor: Actor, answer: Acted) -> Field:
    """Return the setpoints of a reply as blocks; CallFailed names the muscle if there are none."""
    try:
        return actor.actuators.checked(answer.setpoints or [], "setpoints", finite=True)
    except RemoteProtocolError as error:
        raise wrong_answer(actor.peer, _ACT, error) from error


def _checked(actor: Actor, answer: Acted, count: int | None) -> Acted:
    layout, rows = actor.actuators, 1 if count is None else count
    setpoints, proposed = answer.setpoints, answer.proposed
    try:
        if setpoints is not None and actor.masks is not None and count is None:
            setpoints = layout.checked(setpoints, "setpoints", True)
            actor.masks.check(actor.sensors.layout.matrices(actor.row, 1), layout.matrices(setpoints, 1))
        return replace(
            answer,
            setpoints=None if setpoints is None else layout.checked(setpoints, "setpoints", True, rows),
            proposed=None if proposed is None else layout.checked(proposed, "proposed", True, rows),
            objective=_objective(answer.objective, count is not None),
            signal=_signal(actor, answer.signal),
            excused=_excused(answer.excused),
        )
    except (RemoteProtocolError, OutOfActionSpaceError) as error:
        raise wrong_answer(actor.peer, _ACT, error) from error


def _objective(found: list[Any] | None, several: bool) -> list[float | None] | None:
    if found is None:
        return None
    right = all(value is None or (type(value) in (int, float) and math.isfinite(value)) for value in found)
    if not right or (len(found) != 1 and not several):
        raise RemoteProtocolError(f"objective: expected a list of one finite number or nil, found {found!r:.60}")
    return [None if value is None else float(value) for value in found]


def _signal(actor: Actor, found: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the signal that a brain requests, which its muscle passes on."""
    if found is None:
        return None
    if actor.setup.get("brain") is None:
        raise RemoteProtocolError(f"signal: there is no brain that could signal, found {found!r:.60}")
    name, reason = found.get("signal"), found.get("reason", "")
    known = isinstance(name, str) and name in Signal.__members__ and Signal[name].effect.scope != "run"
    if not known or not isinstance(reason, str):
        text = f"expected a signal up to STOP_PHASE and a reason in text, found {found!r:.60}"
        raise RemoteProtocolError(f"signal: {text}")
    return found


def _excused(found: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    for excuse in found or ():
        if not all(isinstance(excuse.get(key), str) for key in ("issuer", "hook", "reason")):
            raise RemoteProtocolError(f"excused: expected issuer, hook and reason as text, found {excuse!r:.60}")
    return found


def evaluated(found: Any) -> BrainEvaluated:
    """Return the result of `evaluate` in wire form: finite numbers by name."""
    result = found if isinstance(found, EvaluationResult) else EvaluationResult(found or {})
    if not isinstance(result.metrics, Mapping):
        raise AuthorError(f"metrics: expected a map name -> number, found {type(result.metrics).__name__}")
    metrics: dict[str, Any] = {}
    for name, value in result.metrics.items():
        if not isinstance(name, str):
            raise AuthorError(f"metrics: the names are texts, found {name!r}")
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise AuthorError(f"metrics.{name}: expected a number, found {value!r:.80}") from error
        if not math.isfinite(number):
            raise AuthorError(f"metrics.{name}: expected a finite number, found {number}")
        metrics[name] = number
    return BrainEvaluated(metrics, result.checkpoint_id, result.checkpoint_hash)


def signal_of(signal: Signal, reason: str) -> dict[str, Any]:
    """Return a brain's requested signal in wire form; AuthorError if the brain may not request it."""
    if signal.effect.scope == "run":
        raise AuthorError(f"a brain may signal up to STOP_PHASE, found {signal.name}")
    return {"signal": signal.name, "reason": reason}
