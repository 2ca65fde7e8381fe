"""Cloning: makes recorded actions likely for PPO and A2C, and values what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.utils import obs_as_tensor

from ganglion_sb3.codec import Actions
from ganglion_sb3.collector import Decision
from ganglion_sb3.stream import Stream

__all__ = ["Cloning"]

Array = NDArray[Any]

MIXED = 16_384  # decisions that are mixed with each other; so many are held, however long the recording is
MINIBATCH = 64  # of an algorithm that has none


class Cloning:
    """Move a policy of Stable-Baselines3 towards what was recorded, by an optimiser of its own.

    The loss of a minibatch is the mean of minus the logarithm of the probability (density) of the recorded actions, and
    `vf_coef` times the mean squared error of the values against the discounted returns; what follows an episode that
    did not terminate counts by what it is thought to be worth at the time. How far continuous actions spread stays as
    it is: who never varies finds nothing better.

    Args:
        model: PPO or A2C; its `batch_size`, learning rate, `gamma` and `vf_coef` count.
        actions: The codec of its actions.
        stream: Decides the order of decisions.
        value: Returns the value of an observation.

    Source: Pomerleau (1991), Efficient training of artificial neural networks for autonomous navigation (behavioural
    cloning), as maximum likelihood; Sutton and Barto (2018), Reinforcement Learning, section 9.3, gradient Monte Carlo.
    """

    def __init__(self, model: Any, actions: Actions, stream: Stream, value: Callable[[Any], torch.Tensor]) -> None:
        self._model, self._actions, self._stream, self._value = model, actions, stream, value
        policy = model.policy
        learned = [it for name, it in policy.named_parameters() if name != "log_std"]
        self._optimiser = policy.optimizer_class(learned, lr=model.lr_schedule(1.0), **policy.optimizer_kwargs)

    def run(self, recorded: Iterable[list[Decision]], epochs: int) -> None:
        """Learn from all episodes so many times."""
        with self._stream.running():
            for _ in range(epochs):
                for rows in self._mixed(recorded):
                    self._pass(rows)
        self._model.policy.set_training_mode(False)

    def _mixed(self, recorded: Iterable[list[Decision]]) -> Iterator[list[tuple[Any, Array, float]]]:
        """Yield so many rows as are mixed: observation, action, return."""
        rows: list[tuple[Any, Array, float]] = []
        for episode in recorded:
            rows += self._rows(episode)
            while len(rows) >= MIXED:
                yield rows[:MIXED]
                rows = rows[MIXED:]
        if rows:
            yield rows

    def _rows(self, episode: list[Decision]) -> list[tuple[Any, Array, float]]:
        last = episode[-1]
        worth = 0.0 if last.terminated else float(self._value(last.following))
        found = []
        for decision in reversed(episode):
            worth = decision.objective + self._model.gamma * worth
            found.append((decision.observation, self._actions.actions(decision.setpoint), worth))
        return found[::-1]

    def _pass(self, rows: list[tuple[Any, Array, float]]) -> None:
        """Step by all minibatches of some rows, in a drawn order."""
        policy = self._model.policy
        size = int(getattr(self._model, "batch_size", MINIBATCH))
        order = torch.randperm(len(rows)).tolist()
        for start in range(0, len(rows), size):
            drawn = [rows[i] for i in order[start : start + size]]
            policy.set_training_mode(True)
            seen = obs_as_tensor(_stacked([row[0] for row in drawn]), self._model.device)
            actions = torch.as_tensor(np.concatenate([row[1] for row in drawn]))
            returns = torch.tensor([row[2] for row in drawn], dtype=torch.float32)
            values, logs, _ = policy.evaluate_actions(seen, actions)
            errors = (values.flatten() - returns).square().mean()
            loss = self._model.vf_coef * errors - logs.mean()
            self._optimiser.zero_grad()
            loss.backward()
            self._optimiser.step()


def _stacked(observations: list[Any]) -> Any:
    """Return observations, each with an axis of rows, as one."""
    if isinstance(observations[0], Mapping):
        return {name: np.concatenate([it[name] for it in observations]) for name in observations[0]}
    return np.concatenate(observations)
