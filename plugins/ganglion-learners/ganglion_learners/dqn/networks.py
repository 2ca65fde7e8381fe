"""Networks: values of all actions, their slow copy, and the loss against double targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.random import Generator

from ganglion_learners.choice import Legal
from ganglion_learners.perceptron import fan_in_layers
from ganglion_learners.tensors import Parameters, allowed_outputs

__all__ = ["Values"]

Tensor = Any


class Values:
    """Hold the values of all actions, and the target network that follows them.

    Args:
        rng: For the initial weights, see `fan_in_layers`.
        inputs: Columns of an observation.
        actions: The number of actions.
        hidden: Widths of the hidden layers.
        activation: Between layers.
        legal: The masks; None allows all.
    """

    def __init__(
        self,
        rng: Generator,
        inputs: int,
        actions: int,
        hidden: Sequence[int],
        activation: str,
        legal: Legal | None = None,
    ) -> None:
        self.activation, self.legal = activation, legal
        arrays = fan_in_layers(rng, "values", [inputs, *hidden, actions])
        self.parameters = Parameters(arrays)
        self.target = Parameters(arrays, learned=False)

    def targets(self, objectives: Tensor, next_observations: Tensor, bootstrap: Tensor, discount: float) -> Tensor:
        """Return the targets of decisions, (k,): the objective plus the discounted target value of the best action.

        The learned network chooses the best action, the slow one gives its value.

        Source: van Hasselt, Guez and Silver (2016), Deep reinforcement learning with double Q-learning, eq. 4.
        """
        with torch.no_grad():
            found = self.parameters.forward("values", next_observations, self.activation)
            chosen = allowed_outputs(found, next_observations, self.legal).argmax(1, keepdim=True)
            worth = self.target.forward("values", next_observations, self.activation).gather(1, chosen)[:, 0]
            return objectives + discount * bootstrap * worth

    def loss(self, observations: Tensor, actions: Tensor, targets: Tensor, caution: float = 0.0) -> Tensor:
        """Return the mean Huber loss (its bend at 1) of the values of actions, (k,) int64.

        With `caution` that is the weight of how far the soft maximum of all actions' values is above that of these.

        Source: Mnih et al. (2015), Human-level control through deep reinforcement learning, methods, where errors are
        clipped to [-1, 1]; for caution Kumar et al. (2020), Conservative Q-learning for offline reinforcement learning,
        eq. 4.
        """
        found = self.parameters.forward("values", observations, self.activation)
        taken = found.gather(1, actions[:, None])[:, 0]
        loss = torch.nn.functional.smooth_l1_loss(taken, targets)
        if caution:
            found = allowed_outputs(found, observations, self.legal)
            loss = loss + caution * (found.logsumexp(1) - taken).mean()
        return loss
