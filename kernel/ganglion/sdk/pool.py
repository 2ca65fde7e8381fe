"""Pool: decisions of agents in a process of their own, a table of a document, which several brains ask."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ganglion.sdk.brain import Transitions
from ganglion.sdk.part import Part

INSERT = "insert"
"""What is asked when decisions are to be kept."""
Ask = Callable[..., Any]
"""Ask a table for something, by its word and keyword arguments that can travel; return what it answers."""


class Pool(Part, ABC):
    """Keep decisions of agents, and answer what their brains ask.

    Where several agents use it in lockstep, `judge` and `answer` see what was there when the round began, in any
    order; `insert` and `note` are called when the round is over, in the order of the agents.

    Attributes:
        name: The table's uid.
    """

    feed: Sequence[str] = ()  # the agents whose decisions come, in document order
    serve: Sequence[str] = ()  # the agents whose brains may ask, in document order
    face: ClassVar[Any]  # what a brain finds under the table's uid in `Brain.tables`; made as `face(uid, ask)`

    @classmethod
    def mixed(cls, uid: str, parts: Mapping[str, tuple[Any, float]]) -> Any:
        """Return what a brain finds under the uid of a mix: of the faces of tables, each with its share."""
        raise ValueError(f"table {uid}: {cls.__name__} cannot be mixed")

    def setup(self) -> None:
        """Prepare; `rng` is there."""

    @abstractmethod
    def judge(self, agent: str, what: str, given: Mapping[str, Any]) -> str | None:
        """Say why something cannot be done yet, None if it can; `what` is INSERT or a word of the face.

        Raises:
            ValueError: It can never be done.
        """

    @abstractmethod
    def insert(self, agent: str, given: Mapping[str, Any]) -> None:
        """Keep decisions: columns as of `columns`, in canonical order."""

    @abstractmethod
    def answer(self, agent: str, what: str, given: Mapping[str, Any]) -> Any:
        """Return what was asked for, as values that can travel; what others are answered must not change by it."""

    def note(self, agent: str, what: str, given: Mapping[str, Any]) -> None:
        """Take in what was answered, where that changes what others are answered."""

    @abstractmethod
    def state(self) -> Mapping[str, int | float | str | None]:
        """Return what is shown of it by `ganglion ps`."""


def columns(batch: Transitions, versions: Sequence[int]) -> dict[str, Any]:
    """Return decisions as tables keep them: a map of arrays, and `streams`, which body of which worker each is of.

    `versions` are the numbers of the updates by which they were made, 0 before the first, -1 where it is not known.
    """
    names = ("observations", "actions", "objectives", "rewards", "next_observations", "terminated", "truncated")
    streams = [
        f"{muscle} {body[1]}/{body[2]}" if len(body) > 2 else muscle
        for muscle, body in zip(batch.muscle, batch.body, strict=True)
    ]
    numbers = {"episodes": batch.episode, "ticks": batch.step, "versions": np.asarray(versions, np.int64)}
    return {**{name: getattr(batch, name) for name in names}, **numbers, "streams": streams}
