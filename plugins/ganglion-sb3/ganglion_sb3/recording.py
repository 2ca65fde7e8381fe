"""Recording: recorded sessions as decisions of Stable-Baselines3, checked before they are learned from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import Session, Transitions
from ganglion_sb3.codec import Actions, Observations
from ganglion_sb3.collector import Decision

__all__ = ["Recording"]

Array = NDArray[Any]


class Recording:
    """Give the decisions of sessions, episode by episode, as often as they are asked for; nothing is kept.

    A last decision of which nobody knows what followed is left out, unless it terminated; the one before it is then
    the one at which the episode was cut off.

    Args:
        sessions: May be iterated more than once; each time the same.
        sensors: Ids and order of what is to be seen; `actuators` likewise of what is set.
        observations: Turns rows of readings into what a policy sees.
        actions: Knows which setpoints there are.
    """

    def __init__(
        self,
        sessions: Iterable[Session],
        sensors: list[str],
        actuators: list[str],
        observations: Observations,
        actions: Actions,
    ) -> None:
        self._sessions, self._observations, self._actions = sessions, observations, actions
        self._ids = {"sensors": sensors, "actuators": actuators}

    def __iter__(self) -> Iterator[list[Decision]]:
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
                found += len(batch)
                self._refuse(session, batch)
                yield self._decisions(batch)
        if not found:
            raise ValueError(
                "sb3 cannot learn from a recording without decisions: expected at least one with what followed it, "
                f"found none in {read} sessions"
            )

    def _decisions(self, batch: Transitions) -> list[Decision]:
        last = len(batch) - 1
        return [
            Decision(
                muscle=batch.muscle[i],
                observation=self._observations(batch.observations[i : i + 1]),
                setpoint=np.asarray(batch.actions[i : i + 1]),
                data=None,
                objective=float(batch.objectives[i]),
                following=self._observations(batch.next_observations[i : i + 1]),
                first=i == 0,
                terminated=bool(batch.terminated[i]),
                truncated=bool(batch.truncated[i]) or (i == last and not batch.terminated[i]),
            )
            for i in range(len(batch))
        ]

    def _refuse(self, session: Session, batch: Transitions) -> None:
        try:
            for what, expected in self._ids.items():
                found = [it.uid for it in getattr(session, what)]
                if found != expected:
                    raise ValueError(f"expected the {what} {', '.join(expected)}, found {', '.join(found)}")
            _refuse_gaps("a reading", batch.observations)
            _refuse_gaps("a reading of what followed", batch.next_observations)
            _refuse_gaps("an objective", batch.objectives[:, None])
            self._actions.check(batch.actions)
        except ValueError as error:
            raise ValueError(
                f"sb3 cannot learn from run {session.run}, phase {session.phase}, agent {session.agent}, worker "
                f"{session.worker}, episode {session.episode}: {error}"
            ) from error


def _refuse_gaps(what: str, rows: Array) -> None:
    for row, column in np.argwhere(np.isnan(np.asarray(rows, dtype=np.float64))).tolist():
        raise ValueError(f"decision {row} has none as {what} (column {column}), expected a number in each of them")
