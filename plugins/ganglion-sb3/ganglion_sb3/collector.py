"""Collector: what is done with each decision, and when an algorithm trains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from ganglion.sdk import Transitions
from ganglion_sb3.codec import Actions, Observations
from ganglion_sb3.stream import Stream

__all__ = ["Collector", "Decision", "path_of"]

Array = NDArray[Any]


def path_of(muscle: str, body: Sequence[Any]) -> str:
    """Return what names the decisions of one body of a muscle, which follow each other: `ada/0[lake/2]`."""
    return f"{muscle}[{body[1]}/{body[2]}]"


@dataclass(frozen=True, slots=True)
class Decision:
    """Hold one completed decision in the form of Stable-Baselines3; axis 0 of observations and action has length 1.

    Args:
        muscle: Uid of who made it, with bodies as of `path_of`.
        observation: What it saw.
        setpoint: Its action as it was set.
        data: What the muscle told: the action as the algorithm stores it, and on-policy its value and the log of its
            probability, flat; None if another muscle made it.
        objective: What it was worth.
        following: What it led to; there also at the end.
        first: Whether an episode began with it.
        terminated: Whether no future exists.
        truncated: Whether the episode was cut off.
    """

    muscle: str
    observation: Any
    setpoint: Array
    data: Array | None
    objective: float
    following: Any
    first: bool
    terminated: bool
    truncated: bool

    @classmethod
    def of(cls, batch: Transitions, i: int, observations: Observations) -> Decision:
        """Return one row of a batch."""
        row, data = slice(i, i + 1), batch.data[i]
        body = batch.body[i]
        return cls(
            muscle=path_of(batch.muscle[i], body) if isinstance(body, tuple) and len(body) > 2 else batch.muscle[i],
            observation=observations(batch.observations[row]),
            setpoint=np.asarray(batch.actions[row]),
            data=None if data is None else np.asarray(data, dtype=np.float64),
            objective=float(batch.objectives[i]),
            following=observations(batch.next_observations[row]),
            first=int(batch.step[i]) == 0,
            terminated=bool(batch.terminated[i]),
            truncated=bool(batch.truncated[i]),
        )

    @property
    def done(self) -> bool:
        """Whether the episode ended with it."""
        return self.terminated or self.truncated


class Collector(ABC):
    """Do what the `learn` of an algorithm does between steps of an environment, without an environment.

    Args:
        model: The algorithm; its counters are kept up to date.
        actions: The codec of its actions.
        muscles: Uids of who acts, in order; with bodies as of `path_of`, each of them.
        stream: What training draws from.
    """

    def __init__(self, model: Any, actions: Actions, muscles: list[str], stream: Stream) -> None:
        self.model, self.actions, self.muscles, self.stream = model, actions, muscles, stream

    @abstractmethod
    def pretrain(self, recorded: Iterable[list[Decision]], steps: int | None, epochs: int) -> None:
        """Learn from recorded decisions, episode by episode; nothing of it counts as decided here.

        Args:
            recorded: May be iterated more than once.
            steps: Of the optimiser, of who learns from a replay; None is one for each decision.
            epochs: Passes, of who learns from rollouts.
        """

    @property
    @abstractmethod
    def exploration(self) -> dict[str, Any]:
        """What a muscle is told beside its parameters: `random`, to act by chance alone, else `rate` of that."""

    @abstractmethod
    def add(self, decision: Decision) -> bool:
        """Take a decision; train where that is due. Says whether muscles should hear of it."""

    def trained(self) -> dict[str, float]:
        """Return what the algorithm recorded of its last training, and forget it."""
        found = {
            name: float(value)
            for name, value in self.model.logger.name_to_value.items()
            if isinstance(value, int | float | np.number)
        }
        self.model.logger.name_to_value.clear()
        return found

    def _count(self) -> None:
        """Count a decision, on which schedules depend."""
        model: BaseAlgorithm = self.model
        model.num_timesteps += 1
        if model._total_timesteps:  # noqa: SLF001 - the collecting loop is ours, so are its counters
            now = min(model.num_timesteps, model._total_timesteps)  # noqa: SLF001
            model._update_current_progress_remaining(now, model._total_timesteps)  # noqa: SLF001

    @abstractmethod
    def arrays(self) -> dict[str, Array]:
        """Return what was collected and not trained on yet, or is to be trained on again."""

    @abstractmethod
    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take over what `arrays` returned."""
