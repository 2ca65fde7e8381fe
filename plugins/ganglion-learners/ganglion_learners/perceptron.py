"""Perceptron: layers as named arrays, their initial values, and their computation with numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

__all__ = ["LOG_ROOT", "Perceptron", "fan_in_layers", "orthogonal_layers"]

Array = NDArray[np.float32]

LOG_ROOT = 0.5 * math.log(2.0 * math.pi)  # of the density of the standard normal distribution


class Perceptron:
    """Compute a perceptron: linear layers, an activation between them.

    The arrays are `<name>.<i>.weight` (inputs, outputs) and `<name>.<i>.bias` (outputs,), float32, i from 0. The result
    of a row has the same bits for any number of rows.

    Args:
        name: The prefix of the arrays' names.
        arrays: These, and any others; not copied.
        inputs: The number of input columns.
        outputs: The number of output columns.
        activation: `tanh` or `relu`.

    Raises:
        ValueError: An array is missing, or has another shape or dtype, or is not finite; the message names it.
    """

    def __init__(self, name: str, arrays: Mapping[str, Any], inputs: int, outputs: int, activation: str) -> None:
        if activation not in _ACTIVATIONS:
            raise ValueError(f"activation: expected {' or '.join(_ACTIVATIONS)}, found {activation!r:.40}")
        self._activate = _ACTIVATIONS[activation]
        count = sum(1 for key in arrays if key.startswith(f"{name}.") and key.endswith(".weight"))
        if not count:
            raise ValueError(f"expected arrays {name}.0.weight and on, found {', '.join(arrays) or 'none'}")
        self._layers: list[tuple[Array, Array]] = []
        width = inputs
        for i in range(count):
            last = i == count - 1
            weight = _take(arrays, f"{name}.{i}.weight", (width, outputs if last else None))
            width = weight.shape[1]
            self._layers.append((weight, _take(arrays, f"{name}.{i}.bias", (width,))))

    @property
    def largest(self) -> float:
        """The size of the largest weight."""
        return max(float(np.abs(weight).max(initial=0.0)) for weight, _ in self._layers)

    def __call__(self, rows: Array) -> Array:
        """Return (k, outputs) float32 of (k, inputs) float32."""
        # A stack of single rows: the rounding of one product of matrices depends on the number of rows.
        found = rows[:, None, :]
        *hidden, (weight, bias) = self._layers
        for inner, shift in hidden:
            found = np.matmul(found, inner)
            found += shift
            self._activate(found)
        found = np.matmul(found, weight)
        found += bias
        result: Array = found[:, 0, :]
        return result


def _tanh(values: Array) -> None:
    np.tanh(values, out=values)


def _relu(values: Array) -> None:
    np.maximum(values, np.float32(0.0), out=values)


_ACTIVATIONS = {"tanh": _tanh, "relu": _relu}


def _take(arrays: Mapping[str, Any], name: str, shape: tuple[int | None, ...]) -> Array:
    """Return a named array; ValueError: it is no finite float32 of this shape (None is any extent)."""
    found = arrays.get(name)
    wanted = ", ".join("any" if n is None else str(n) for n in shape)
    if not isinstance(found, np.ndarray):
        raise ValueError(f"{name}: expected float32 ({wanted}), found {type(found).__name__}")
    fits = len(found.shape) == len(shape) and all(n in (None, m) for n, m in zip(shape, found.shape, strict=True))
    if not fits or found.dtype != np.float32:
        raise ValueError(f"{name}: expected float32 ({wanted}), found {found.dtype} {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError(f"{name}: expected finite numbers, found NaN or infinity")
    return found


def orthogonal_layers(
    rng: Generator, name: str, sizes: Sequence[int], gain: float, last_gain: float
) -> dict[str, Array]:
    """Return the arrays of a perceptron with orthogonal weights and biases of zero.

    Args:
        rng: For the weights.
        name: The prefix of the arrays' names.
        sizes: Widths from the input to the output.
        gain: Factor of hidden weights; `last_gain` of those of the last layer.

    Source: Saxe, McClelland and Ganguli (2014), Exact solutions to the nonlinear dynamics of learning in deep linear
    neural networks, section 3.
    """
    found: dict[str, Array] = {}
    for i, (rows, columns) in enumerate(pairwise(sizes)):
        drawn = rng.standard_normal((max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(drawn)
        q *= np.sign(np.diagonal(r))  # makes it uniform over the orthogonal matrices
        weight = q if rows >= columns else q.T
        factor = last_gain if i == len(sizes) - 2 else gain
        found[f"{name}.{i}.weight"] = np.ascontiguousarray(weight * factor, dtype=np.float32)
        found[f"{name}.{i}.bias"] = np.zeros(columns, dtype=np.float32)
    return found


def fan_in_layers(rng: Generator, name: str, sizes: Sequence[int], copies: int = 0) -> dict[str, Array]:
    """Return the arrays of a perceptron, drawn uniformly from +-1 / sqrt(inputs of the layer).

    With `copies` they are those of so many perceptrons in one: weights (copies, inputs, outputs), biases
    (copies, 1, outputs).

    Source: LeCun, Bottou, Orr and Mueller (1998), Efficient BackProp, section 4.6.
    """
    found: dict[str, Array] = {}
    for i, (rows, columns) in enumerate(pairwise(sizes)):
        bound = 1.0 / np.sqrt(rows)
        weight, bias = (rows, columns), (columns,)
        if copies:
            weight, bias = (copies, *weight), (copies, 1, *bias)  # type: ignore[assignment]
        found[f"{name}.{i}.weight"] = rng.uniform(-bound, bound, weight).astype(np.float32)
        found[f"{name}.{i}.bias"] = rng.uniform(-bound, bound, bias).astype(np.float32)
    return found
