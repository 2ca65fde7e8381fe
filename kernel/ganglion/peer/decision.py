"""Decisions: what a muscle's host knows of one whose outcome is open, and what it makes of proposals and updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ganglion.errors import AuthorError
from ganglion.peer.layout import Layout, thaw
from ganglion.sdk.information import ActuatorInformation
from ganglion.sdk.models import Models
from ganglion.wire.messages import Thought

POLICY = "policy"  # the tag of the last update beside a model


@dataclass(slots=True)
class Decision:
    """A decision whose outcome is not known yet; `settled` once its objective is."""

    index: int
    readings: list[Any]
    readings_row: list[Any]  # as they travel
    setpoints: list[Any]
    setpoints_row: list[Any]
    data: Any
    frozen: Any  # the data as they travel; what their author changes later changes nothing
    blobs: list[bytes]
    seen_row: list[Any] | None = None  # the readings after filters, as they travel
    proposed_row: list[Any] | None = None  # the setpoints before filters, as they travel
    rewards: list[Any] | None = None
    objective: float | None = None
    settled: bool = False


@dataclass(slots=True)
class Seen:
    """Readings as filters show them, as they travel too, and the actuators to be set."""

    values: list[Any]
    row: list[Any]
    available: list[ActuatorInformation]


class Policy:
    """Read the newest policy from the brain that is training, all else from the model that the phase began with."""

    def __init__(self, newest: Callable[[], tuple[bool, Any]], files: Models | None) -> None:
        self._newest, self._files = newest, files

    def load(self, tag: str = "") -> Any:
        """Return what was saved under a tag, None if nothing was."""
        if tag == POLICY:
            found, policy = self._newest()
            if found:
                return policy
        return None if self._files is None else self._files.load(tag)


def thawed(thought: Thought, parts: Sequence[bytes]) -> Thought:
    """Return an answer of a brain with its arrays."""
    if not thought.fresh and thought.filters is None:
        return thought
    update = thaw(thought.update, parts, "update") if thought.fresh else None
    return replace(thought, update=update, filters=thaw(thought.filters, parts, "thought.filters"))


def alike(own: Layout, applied: Layout) -> bool:
    """Say whether proposals of an agent can stand in the table of setpoints: the same ids, and values of one form."""
    if own.ids != applied.ids:
        return False
    return all(
        one.scalar == other.scalar and (one.scalar or (one.dtype, one.size) == (other.dtype, other.size))
        for one, other in zip(own.spaces, applied.spaces, strict=True)
    )


def finite(layout: Layout, values: list[Any]) -> list[Any]:
    """Return setpoints; AuthorError names the first that is infinite, which spaces without bounds contain."""
    infinite = layout.infinite(values)
    if infinite is not None:
        raise AuthorError(f"setpoint {infinite}: expected a finite number, found {values!r:.80}")
    return values
