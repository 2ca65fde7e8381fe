"""Networks: policy and values, advantages, and the loss of clipped steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from ganglion_learners.choice import Legal
from ganglion_learners.perceptron import LOG_ROOT, orthogonal_layers
from ganglion_learners.tensors import Parameters, allowed_outputs

__all__ = ["ActorCritic", "advantages"]

Array = NDArray[Any]
Tensor = Any


def advantages(
    rewards: Array, values: Array, next_values: Array, bootstrap: Array, over: Array, discount: float, decay: float
) -> NDArray[np.float64]:
    """Return the generalised advantage of each decision of one body, in the order in which they were made.

    Args:
        rewards: (T,) objectives.
        values: (T,) of the observations; `next_values` (T,) of those that followed.
        bootstrap: (T,) 0 where no future exists, else 1: a truncated decision counts what it led to.
        over: (T,) bool, whether the episode ended with it; errors do not reach back over an end. The last decision
            need not be one: the rollout is cut there, and its own `next_values` stand for the rest.
        discount: In [0, 1].
        decay: Lambda, in [0, 1].

    Source: Schulman et al. (2016), High-dimensional continuous control using generalized advantage estimation, eq. 16;
    for truncation Pardo et al. (2018), Time limits in reinforcement learning, section 3.
    """
    errors = rewards + discount * bootstrap * next_values - values
    carried = np.where(over, 0.0, discount * decay)
    found = np.empty(len(errors))
    after = 0.0
    for t, (error, factor) in enumerate(zip(errors[::-1].tolist(), carried[::-1].tolist(), strict=True)):
        after = error + factor * after
        found[t] = after
    return found[::-1]


class ActorCritic:
    """Hold policy and values: two perceptrons without common layers, and the spread of continuous columns.

    Args:
        rng: For the initial weights, see `orthogonal_layers`.
        inputs: Columns of an observation.
        sizes: Choices of each discrete column; empty for continuous ones.
        columns: Number of continuous columns.
        hidden: Widths of the hidden layers of both.
        activation: Of both.
        legal: What masks allow; None allows all.

    Source: Schulman et al. (2017), Proximal policy optimization algorithms; the network of section 6.1.
    """

    def __init__(
        self,
        rng: Generator,
        inputs: int,
        sizes: Sequence[int],
        columns: int,
        hidden: Sequence[int],
        activation: str,
        legal: Legal | None = None,
    ) -> None:
        self.sizes, self.activation, self.legal = tuple(sizes), activation, legal
        outputs = sum(sizes) or columns
        gain = math.sqrt(2.0)
        arrays: dict[str, Array] = {}
        # A last layer of small weights: the first policy is nearly uniform whatever it sees.
        arrays |= orthogonal_layers(rng, "policy", [inputs, *hidden, outputs], gain, 0.01)
        arrays |= orthogonal_layers(rng, "value", [inputs, *hidden, 1], gain, 1.0)
        if not sizes:
            arrays["log_std"] = np.zeros(columns, dtype=np.float32)
        self.parameters = Parameters(arrays)

    def values(self, observations: Array) -> Array:
        """Return the values, (k,) float64, of observations, (k, n)."""
        with torch.no_grad():
            found = self.parameters.forward("value", torch.from_numpy(observations), self.activation)
        result: Array = found.numpy()[:, 0].astype(np.float64)
        return result

    def log_probability(self, observations: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logarithm of the probability (density) of actions, and the entropy, both (k,).

        Args:
            observations: (k, n).
            actions: Indices, (k, columns) int64, or continuous columns before clipping, float32.
        """
        found = self.parameters.forward("policy", observations, self.activation)
        if not self.sizes:
            log_std = self.parameters.tensors["log_std"]
            deviation = (actions - found) * (-log_std).exp()
            log = (-0.5 * deviation * deviation - log_std).sum(1) - LOG_ROOT * found.shape[1]
            return log, (log_std + (0.5 + LOG_ROOT)).sum().expand(len(found))
        found = allowed_outputs(found, observations, self.legal)
        if len(self.sizes) == 1:
            return _categorical(found, actions)
        parts = found.split(self.sizes, dim=1)
        pairs = [_categorical(part, actions[:, i : i + 1]) for i, part in enumerate(parts)]
        return sum(log for log, _ in pairs), sum(entropy for _, entropy in pairs)

    def loss(
        self, batch: Mapping[str, Tensor], clip: float, entropy_weight: float, value_weight: float
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a minibatch, and its parts.

        Args:
            batch: `observations`, `actions`, `logs` (of the behaviour), `advantages`, `returns`.
            clip: How far the ratio of probabilities may leave 1 before it no longer counts, > 0.
            entropy_weight: Of the bonus for entropy.
            value_weight: Of the mean squared error of the values, c1 in the paper.

        Source: Schulman et al. (2017), eq. 7 and 9; advantages are normalised per minibatch.
        """
        log, entropy = self.log_probability(batch["observations"], batch["actions"])
        values = self.parameters.forward("value", batch["observations"], self.activation)[:, 0]
        gains = batch["advantages"]
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        ratio = (log - batch["logs"]).exp()
        policy = -torch.minimum(ratio * gains, ratio.clamp(1.0 - clip, 1.0 + clip) * gains).mean()
        value = (values - batch["returns"]).square().mean()
        spread = entropy.mean()
        total = policy + value_weight * value
        if entropy_weight:
            total = total - entropy_weight * spread
        return total, {"policy_loss": policy, "value_loss": value, "entropy": spread}

    def cloning_loss(self, batch: Mapping[str, Tensor], value_weight: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a minibatch of recorded decisions, and its parts.

        Args:
            batch: `observations`, `actions`, `returns`.
            value_weight: Of the mean squared error of the values.
        """
        log, entropy = self.log_probability(batch["observations"], batch["actions"])
        values = self.parameters.forward("value", batch["observations"], self.activation)[:, 0]
        policy, value = -log.mean(), (values - batch["returns"]).square().mean()
        return policy + value_weight * value, {"policy_loss": policy, "value_loss": value, "entropy": entropy.mean()}


def _categorical(logits: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    logs = logits.log_softmax(1)
    return logs.gather(1, indices)[:, 0], -(logs.exp() * logs).sum(1)
