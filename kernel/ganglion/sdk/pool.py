"""Pool: decisions of agents in a process of their own, a table of a document, which several brains share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ganglion.sdk.brain import Transitions
from ganglion.sdk.part import Part

INSERT = "insert"
"""The request to keep decisions."""
Ask = Callable[..., Any]
"""Send a request to a table, by word and keyword arguments; return the answer."""


class Pool(Part, ABC):
    """Keep decisions of agents, and answer requests of their brains.

    If several agents use the table in lockstep, `judge` and `answer` see the state at the begin of the round, in any
    order; `insert` and `note` are called at the end of the round, in the order of the agents.

    Attributes:
        name: The table's uid.
    """

    feed: Sequence[str] = ()  # the agents whose decisions are kept, in document order
    serve: Sequence[str] = ()  # the agents whose brains may send requests, in document order
    face: ClassVar[Any]  # the class of the object in `Brain.tables` under the table's uid; made as `face(uid, ask)`

    @classmethod
    def mixed(cls, uid: str, parts: Mapping[str, tuple[Any, float]]) -> Any:
        """Return the object in `Brain.tables` under the uid of a mix, made of the tables' faces and shares."""
        raise ValueError(f"table {uid}: {cls.__name__} cannot be mixed")

    def setup(self) -> None:
        """Prepare; `rng` is set."""

    @abstractmethod
    def judge(self, agent: str, what: str, given: Mapping[str, Any]) -> str | None:
        """Return why a request cannot be answered yet, None if it can; `what` is INSERT or a word of the face.

        Raises:
            ValueError: The request can never be answered.
        """

    @abstractmethod
    def insert(self, agent: str, given: Mapping[str, Any]) -> None:
        """Keep decisions: columns as of `columns`, in canonical order."""

    @abstractmethod
    def answer(self, agent: str, what: str, given: Mapping[str, Any]) -> Any:
        """Return the answer to a request, as values that can be sent, without changing the answers to others."""

    def note(self, agent: str, what: str, given: Mapping[str, Any]) -> None:
        """Record an answer, if it changes later answers."""

    @abstractmethod
    def state(self) -> Mapping[str, int | float | str | None]:
        """Return the values that `ganglion ps` shows."""


def columns(batch: Transitions, versions: Sequence[int]) -> dict[str, Any]:
    """Return decisions as tables keep them: a map of arrays, with `streams`, the worker and body of each.

    `versions` are the numbers of the updates that the decisions were made by, 0 before the first, -1 if unknown.
    """
    names = ("observations", "actions", "objectives", "rewards", "next_observations", "terminated", "truncated")
    streams = [
        f"{muscle} {body[1]}/{body[2]}" if len(body) > 2 else muscle
        for muscle, body in zip(batch.muscle, batch.body, strict=True)
    ]
    numbers = {"episodes": batch.episode, "ticks": batch.step, "versions": np.asarray(versions, np.int64)}
    return {**{name: getattr(batch, name) for name in names}, **numbers, "streams": streams}
