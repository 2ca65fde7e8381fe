"""Tensors: named parameters in one flat vector of torch, what is computed of them, and how they are moved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ganglion_learners.choice import FORBIDDEN, Legal

__all__ = ["Adam", "Parameters", "allowed_outputs"]

Array = NDArray[Any]
Tensor = Any  # torch.Tensor; torch may be absent where types are checked


def allowed_outputs(found: Tensor, observations: Tensor, legal: Legal | None) -> Tensor:
    """Return what a network gives for choices, (k, choices), with `FORBIDDEN` in the place of what masks forbid."""
    if not legal:
        return found
    free = (observations[:, torch.from_numpy(legal.places)] != 0) | torch.from_numpy(legal.free)
    return found.masked_fill(~free, FORBIDDEN)


class Parameters:
    """Hold named float32 arrays as views of one flat vector, so that moving all of them is one operation.

    Args:
        arrays: What they begin as, by name; they are copied.
        learned: Whether gradients are wanted; False for targets that only follow.
    """

    def __init__(self, arrays: Mapping[str, Array], learned: bool = True) -> None:
        self.shapes = {name: array.shape for name, array in arrays.items()}
        self.flat: Tensor = torch.from_numpy(
            np.concatenate([np.asarray(array, dtype=np.float32).ravel() for array in arrays.values()])
        )
        self.tensors: dict[str, Tensor] = {}
        start = 0
        for name, shape in self.shapes.items():
            end = start + math.prod(shape)
            view = self.flat[start:end].view(shape)
            self.tensors[name] = view.requires_grad_() if learned else view
            start = end

    def forward(self, name: str, rows: Tensor, activation: str) -> Tensor:
        """Return what the perceptron `name` makes of (k, inputs): (k, outputs).

        Of several perceptrons in one, (copies, k, inputs) gives (copies, k, outputs).
        """
        i, found = 0, rows
        many = rows.dim() == 3
        while True:
            weight, bias = self.tensors[f"{name}.{i}.weight"], self.tensors[f"{name}.{i}.bias"]
            found = torch.baddbmm(bias, found, weight) if many else torch.addmm(bias, found, weight)
            i += 1
            if f"{name}.{i}.weight" not in self.tensors:
                return found
            found = found.tanh() if activation == "tanh" else found.relu()

    def gradient(self, loss: Tensor) -> Tensor:
        """Return the gradient of a loss, flat; zero where a parameter does not occur in it."""
        found = torch.autograd.grad(loss, list(self.tensors.values()))
        return torch.cat([part.reshape(-1) for part in found])

    def arrays(self, prefix: str = "") -> dict[str, Array]:
        """Return copies by name, with `prefix` before each."""
        return {f"{prefix}{name}": tensor.detach().numpy().copy() for name, tensor in self.tensors.items()}

    def load(self, arrays: Mapping[str, Array], prefix: str = "") -> None:
        """Take over what `arrays` returned."""
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(torch.from_numpy(np.array(arrays[f"{prefix}{name}"], dtype=np.float32)))

    def follow(self, other: Parameters, share: float) -> None:
        """Move by a share of the way towards others of the same shapes, in (0, 1]."""
        with torch.no_grad():
            self.flat.lerp_(other.flat, share)


class Adam:
    """Move parameters against gradients, each by its own measure.

    Source: Kingma and Ba (2015), Adam: a method for stochastic optimization, algorithm 1, in the form at the end of
    section 2; `norm_max` clips as Pascanu et al. (2013), On the difficulty of training recurrent neural networks,
    algorithm 1.
    """

    FIRST, SECOND = 0.9, 0.999

    def __init__(self, parameters: Parameters, epsilon: float = 1e-8) -> None:
        self._parameters, self._epsilon = parameters, epsilon
        self.first: Tensor = torch.zeros_like(parameters.flat)
        self.second: Tensor = torch.zeros_like(parameters.flat)
        self.steps = 0

    def step(self, gradient: Tensor, rate: float, norm_max: float | None = None) -> None:
        """Move once.

        Args:
            gradient: Flat, as `Parameters.gradient` returns it; it is overwritten.
            rate: Learning rate, > 0.
            norm_max: A longer gradient is shortened to this length; None leaves it.
        """
        with torch.no_grad():
            if norm_max is not None:
                length = float(gradient.norm())
                if length > norm_max:
                    gradient.mul_(norm_max / (length + 1e-6))
            self.steps += 1
            self.first.lerp_(gradient, 1.0 - self.FIRST)
            self.second.mul_(self.SECOND).addcmul_(gradient, gradient, value=1.0 - self.SECOND)
            root = math.sqrt(1.0 - self.SECOND**self.steps)
            size = rate * root / (1.0 - self.FIRST**self.steps)
            width = self.second.sqrt().add_(self._epsilon * root)
            self._parameters.flat.addcdiv_(self.first, width, value=-size)

    def arrays(self, prefix: str) -> dict[str, Array]:
        """Return its state, with `prefix` before each name."""
        return {
            f"{prefix}first": self.first.numpy().copy(),
            f"{prefix}second": self.second.numpy().copy(),
            f"{prefix}steps": np.array(self.steps, dtype=np.int64),
        }

    def load(self, arrays: Mapping[str, Array], prefix: str) -> None:
        """Take over what `arrays` returned."""
        self.first.copy_(torch.from_numpy(np.array(arrays[f"{prefix}first"], dtype=np.float32)))
        self.second.copy_(torch.from_numpy(np.array(arrays[f"{prefix}second"], dtype=np.float32)))
        self.steps = int(arrays[f"{prefix}steps"])
