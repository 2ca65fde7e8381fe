"""Checkpoints: all that a brain's host needs to go on bit by bit, as a tree that can travel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.peer.layout import freeze, thaw
from ganglion.peer.state import Generators
from ganglion.sdk.brain import CheckpointableBrain
from ganglion.sdk.memory import Memory

_TIMES_COST = 20.0  # a checkpoint may take a twentieth of the time


@dataclass(slots=True)
class Checkpoints:
    """Say when a brain's next checkpoint is due: not before `every_s`, nor before 20 times what the last one took."""

    every_s: float
    clock: Callable[[], float]
    last_s: float = 0.0
    cost_s: float = 0.0

    def __post_init__(self) -> None:
        self.last_s = self.clock()

    @property
    def due(self) -> bool:
        """Say whether it is time for one."""
        return self.clock() - self.last_s >= max(self.every_s, _TIMES_COST * self.cost_s)

    def taken(self, began_s: float) -> None:
        """Note that one was taken, or could not be."""
        self.last_s = self.clock()
        self.cost_s = self.last_s - began_s


def export(brain: CheckpointableBrain, memory: Memory, generators: Generators, books: Mapping[str, Any]) -> list[Any]:
    """Return what `restore` needs; `books` are the host's own.

    Raises:
        AuthorError: Something of it cannot travel.
    """
    state = brain.export_checkpoint_state()
    tree = {
        "format": brain.CHECKPOINT_FORMAT,
        "schema": brain.CHECKPOINT_SCHEMA_VERSION,
        "brain": state if isinstance(state, bytes) else dict(state),
        "memory": memory.export(),
        "generators": generators.save(),
        "books": dict(books),
    }
    blobs: list[bytes] = []
    # What authors sent stands deeper here than where it travelled, and no body holds it.
    return [freeze(tree, blobs, "checkpoint", -8), blobs]


def restore(brain: CheckpointableBrain, memory: Memory, generators: Generators, checkpoint: Any) -> Mapping[str, Any]:
    """Put back what `export` returned; return the host's books.

    Raises:
        AuthorError: It is of another format than the brain's.
        RemoteProtocolError: It is no checkpoint.
    """
    try:
        tree, blobs = checkpoint
        state = thaw(tree, blobs, "checkpoint")
        found = (state["format"], state["schema"])
        expected = (brain.CHECKPOINT_FORMAT, brain.CHECKPOINT_SCHEMA_VERSION)
        if found != expected:
            raise AuthorError(f"checkpoint: expected format and version {expected}, found {found}")
        brain.restore_checkpoint_state(state["brain"])
        memory.restore(state["memory"])
        generators.restore(state["generators"])
        books: Mapping[str, Any] = state["books"]
    except (KeyError, TypeError, ValueError) as error:
        raise RemoteProtocolError(f"checkpoint: {type(error).__name__}: {error}") from error
    return books
