"""Recording: the decisions of recorded sessions, checked for the learner that is to learn from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import ActuatorInformation, SensorInformation, Session, Transitions

__all__ = ["Recording"]

Array = NDArray[Any]
Information = SensorInformation | ActuatorInformation


class Recording:
    """Give the decisions of sessions, episode by episode, as often as they are asked for; nothing is kept.

    A last decision without a known outcome is left out, unless it terminated.

    Args:
        sessions: May be iterated more than once; each time the same.
        algorithm: Of the learner, for messages.
        sensors: What is to be seen, in order.
        actuators: What is set, in order.
        check: Says by a ValueError that actions, (k, columns), are none of the agent's.
    """

    def __init__(
        self,
        sessions: Iterable[Session],
        algorithm: str,
        sensors: Sequence[Information],
        actuators: Sequence[Information],
        check: Callable[[Array], None],
    ) -> None:
        self._sessions, self._algorithm = sessions, algorithm
        self._sensors, self._actuators, self._check = sensors, actuators, check

    def __iter__(self) -> Iterator[Transitions]:
        """Yield the decisions of each session that has some.

        Raises:
            ValueError: A session has other sensors or actuators, or readings, actions or objectives that cannot be
                learned from; or there is no decision at all. The message names session and decision.
        """
        read = found = 0
        for session in self._sessions:
            read += 1
            batch = session.transitions()
            if len(batch):
                self._refuse(session, batch)
                found += len(batch)
                yield batch
        if not found:
            raise ValueError(
                f"{self._algorithm} cannot learn from a recording without decisions: expected at least one with what "
                f"followed it, found none in {read} sessions"
            )

    def _refuse(self, session: Session, batch: Transitions) -> None:
        try:
            _refuse_others("sensors", session.sensors, self._sensors, batch.observations)
            _refuse_others("actuators", session.actuators, self._actuators, batch.actions)
            _refuse_gaps("a reading", batch.observations)
            _refuse_gaps("a reading of what followed", batch.next_observations)
            _refuse_gaps("an objective", batch.objectives[:, None])
            self._check(batch.actions)
        except ValueError as error:
            raise ValueError(
                f"{self._algorithm} cannot learn from run {session.run}, phase {session.phase}, agent {session.agent}, "
                f"worker {session.worker}, episode {session.episode}: {error}"
            ) from error


def _refuse_others(what: str, recorded: Sequence[Any], own: Sequence[Any], rows: Array) -> None:
    """Refuse what is not recorded of the same ids in the same order, or in other columns."""
    expected, found = ([it.uid for it in many] for many in (own, recorded))
    if expected != found:
        raise ValueError(f"expected the {what} {', '.join(expected)}, found {', '.join(found)}")
    columns = sum(it.space.size for it in own)
    if rows.shape[1] != columns:
        raise ValueError(f"expected {columns} columns of {what}, found {rows.shape[1]}")


def _refuse_gaps(what: str, rows: Array) -> None:
    """Refuse numbers that are none; found where the sum is none, which costs least."""
    if np.isfinite(rows.sum(dtype=np.float64)):
        return
    for row, column in np.argwhere(~np.isfinite(rows)).tolist():
        found = rows[row, column]
        raise ValueError(
            f"decision {row} has {'none' if np.isnan(found) else found} as {what} (column {column}), expected a "
            "finite number"
        )
