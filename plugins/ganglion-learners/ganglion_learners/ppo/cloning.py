"""Cloning: makes recorded actions likely, and values what came of them, without a decision of our own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from ganglion.sdk import Transitions
from ganglion_learners.ppo.config import PpoConfig
from ganglion_learners.ppo.networks import ActorCritic, advantages
from ganglion_learners.tensors import Adam

__all__ = ["Cloning"]

Array = NDArray[Any]

# Decisions that are mixed with each other; so many are held at a time, however long the recording is.
MIXED = 65_536
# What is left of a continuous policy's spread, in units of half the range: who never varies finds nothing better.
SPREAD_LEAST = 0.2


class Cloning:
    """Move networks towards what was recorded, by a measure (Adam) of its own.

    The loss of a minibatch is the mean of minus the logarithm of the probability (density) of the recorded actions, and
    `value_weight` times the mean squared error of the values against the discounted returns; what follows an episode
    that did not terminate counts by what it is thought to be worth at the time.

    Args:
        networks: They are moved in place.
        encode: Turns setpoints, (k, columns), into the actions of the networks.
        config: `pretrain_epochs minibatch learning_rate discount value_weight` of it count.
        rng: Decides the order of decisions.
        finite: Returns a loss, or raises that it is none.

    Source: Pomerleau (1991), Efficient training of artificial neural networks for autonomous navigation (behavioural
    cloning), as maximum likelihood; Sutton and Barto (2018), Reinforcement Learning, section 9.3, gradient Monte Carlo;
    for truncation Pardo et al. (2018), Time limits in reinforcement learning, section 3.
    """

    def __init__(
        self,
        networks: ActorCritic,
        encode: Callable[[Array], Array],
        config: PpoConfig,
        rng: Generator,
        finite: Callable[[float], float],
    ) -> None:
        self._networks, self._encode, self._config = networks, encode, config
        self._rng, self._finite = rng, finite
        self._adam = Adam(networks.parameters, epsilon=1e-5)

    def run(self, recorded: Iterable[Transitions]) -> dict[str, float]:
        """Learn from all episodes as often as `pretrain_epochs`; return the parts of the last loss."""
        noted: dict[str, float] = {}
        for _ in range(self._config.pretrain_epochs):
            for batch in self._mixed(recorded):
                noted = self._pass(batch)
        return noted

    def _mixed(self, recorded: Iterable[Transitions]) -> Iterator[dict[str, Any]]:
        """Yield so many decisions as are mixed: `observations`, `actions`, `returns`."""
        waiting: list[dict[str, Array]] = []
        for batch in recorded:
            waiting.append(self._rows(batch))
            while sum(len(rows["returns"]) for rows in waiting) >= MIXED:
                joined = _joined(waiting)
                yield _tensors({name: rows[:MIXED] for name, rows in joined.items()})
                waiting = [{name: rows[MIXED:] for name, rows in joined.items()}]
        if any(len(rows["returns"]) for rows in waiting):
            yield _tensors(_joined(waiting))

    def _rows(self, batch: Transitions) -> dict[str, Array]:
        """Return what is learned from one episode."""
        following = np.zeros(len(batch))
        last = np.array(batch.next_observations[-1:], dtype=np.float32)  # recorded arrays are read-only
        following[-1:] = self._networks.values(last)
        nothing, over = np.zeros(len(batch)), batch.terminated | batch.truncated
        # Without values and decay the advantage is the whole discounted return.
        returns = advantages(batch.objectives, nothing, following, batch.bootstrap, over, self._config.discount, 1.0)
        return {
            "observations": np.array(batch.observations, dtype=np.float32),
            "actions": self._encode(batch.actions),
            "returns": returns.astype(np.float32),
        }

    def _pass(self, batch: dict[str, Any]) -> dict[str, float]:
        """Step by all minibatches of some decisions, in a drawn order."""
        config, parameters = self._config, self._networks.parameters
        count = len(batch["returns"])
        order = torch.from_numpy(self._rng.permutation(count))
        for start in range(0, count, config.minibatch):
            drawn = {name: rows[order[start : start + config.minibatch]] for name, rows in batch.items()}
            loss, parts = self._networks.cloning_loss(drawn, config.value_weight)
            self._finite(loss.item())
            self._adam.step(parameters.gradient(loss), config.learning_rate)
            if "log_std" in parameters.tensors:
                with torch.no_grad():
                    parameters.tensors["log_std"].clamp_(min=math.log(SPREAD_LEAST))
        return {name: part.item() for name, part in parts.items()}


def _joined(parts: list[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.concatenate([rows[name] for rows in parts]) for name in parts[0]}


def _tensors(arrays: dict[str, Array]) -> dict[str, Any]:
    return {name: torch.from_numpy(np.ascontiguousarray(rows)) for name, rows in arrays.items()}
