"""Networks: a squashed Gaussian policy, two critics in one, and the losses of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from ganglion_learners.perceptron import LOG_ROOT, fan_in_layers
from ganglion_learners.sac.muscle import LOG_STD_MAX, LOG_STD_MIN
from ganglion_learners.tensors import Parameters

__all__ = ["SoftActorCritic"]

Array = NDArray[Any]
Tensor = Any


class SoftActorCritic:
    """Hold policy, two critics and their slow copies, and the logarithm of the temperature.

    Args:
        rng: For the initial weights, see `fan_in_layers`.
        inputs: Columns of an observation.
        columns: Of an action.
        hidden: Widths of the hidden layers of policy and critics.
        activation: Of all.
        temperature: At first, > 0.
    """

    def __init__(
        self, rng: Generator, inputs: int, columns: int, hidden: Sequence[int], activation: str, temperature: float
    ) -> None:
        self.activation = activation
        critics = fan_in_layers(rng, "critics", [inputs + columns, *hidden, 1], copies=2)
        self.policy = Parameters(fan_in_layers(rng, "policy", [inputs, *hidden, 2 * columns]))
        self.critics = Parameters(critics)
        self.target = Parameters(critics, learned=False)
        self.temperature = Parameters({"log_temperature": np.array([math.log(temperature)])})

    @property
    def log_temperature(self) -> Tensor:
        """The logarithm of the weight of entropy, (1,)."""
        return self.temperature.tensors["log_temperature"]

    def act(self, observations: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions in (-1, 1), (k, columns), and the logarithm of their density, (k,).

        Args:
            observations: (k, n).
            noise: (k, columns), drawn from the standard normal distribution.

        Source: Haarnoja et al. (2018), Soft actor-critic: off-policy maximum entropy deep reinforcement learning with a
        stochastic actor, appendix C; log(1 - tanh(x)^2) is written 2 (log 2 - x - softplus(-2 x)), which keeps its
        digits far from 0.
        """
        mean, log_std = self.policy.forward("policy", observations, self.activation).chunk(2, dim=1)
        log_std = log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
        raw = mean + log_std.exp() * noise
        normal = -0.5 * noise * noise - log_std - LOG_ROOT
        squash = 2.0 * (math.log(2.0) - raw - torch.nn.functional.softplus(-2.0 * raw))
        return raw.tanh(), (normal - squash).sum(1)

    def judge(self, parameters: Parameters, observations: Tensor, actions: Tensor) -> Tensor:
        """Return what both critics (or their slow copies) hold of actions, (2, k)."""
        rows = torch.cat([observations, actions], dim=1)
        both = rows.expand(2, *rows.shape)
        found: Tensor = parameters.forward("critics", both, self.activation)[:, :, 0]
        return found

    def targets(
        self, objectives: Tensor, following: Tensor, bootstrap: Tensor, discount: float, noise: Tensor
    ) -> Tensor:
        """Return what decisions are worth, (k,): the objective, and the discounted soft value of what followed.

        Source: Haarnoja et al. (2018), Soft actor-critic algorithms and applications, eq. 3 and 5, with the smaller of
        two critics (section 5).
        """
        with torch.no_grad():
            actions, logs = self.act(following, noise)
            worth = self.judge(self.target, following, actions).amin(0)
            soft = worth - self.log_temperature.exp() * logs
            return objectives + discount * bootstrap * soft

    def critic_loss(self, observations: Tensor, actions: Tensor, targets: Tensor) -> Tensor:
        """Return half the mean squared error of each critic, summed; eq. 5."""
        errors = self.judge(self.critics, observations, actions) - targets
        return 0.5 * errors.square().mean(1).sum()

    def policy_loss(
        self, observations: Tensor, noise: Tensor, recorded: Tensor = None, caution: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of the policy (eq. 7 and 9), and the logarithms of density, (k,), without their graph.

        With `caution` that is the weight of the mean squared distance to recorded actions, (k, columns), in shares of
        the mean size of what the critics hold of the policy's.

        Source: for caution Fujimoto and Gu (2021), A minimalist approach to offline reinforcement learning, eq. 3 to 5.
        """
        actions, logs = self.act(observations, noise)
        worth = self.judge(self.critics, observations, actions).amin(0)
        loss = (self.log_temperature.detach().exp() * logs - worth).mean()
        if caution:
            size = worth.detach().abs().mean()
            loss = loss + caution * size * (actions - recorded).square().mean()
        return loss, logs.detach()

    def temperature_loss(self, logs: Tensor, entropy_target: float) -> Tensor:
        """Return the loss of the temperature, of its logarithm, which keeps it positive; eq. 18."""
        return -(self.log_temperature * (logs.mean() + entropy_target)).sum()
