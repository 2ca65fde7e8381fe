from __future__ import annotations

import numpy as np
import pytest

from ganglion_learners.perceptron import Perceptron, fan_in_layers, orthogonal_layers


def _layers(sizes=(3, 8, 2), seed=1):
    return fan_in_layers(np.random.default_rng(seed), "n", sizes)


def test_computes_layers_by_hand() -> None:
    """Linear, activation, linear."""
    arrays = {
        "n.0.weight": np.array([[1.0, -1.0]], dtype=np.float32),
        "n.0.bias": np.array([0.0, 0.5], dtype=np.float32),
        "n.1.weight": np.array([[2.0], [3.0]], dtype=np.float32),
        "n.1.bias": np.array([1.0], dtype=np.float32),
    }
    rows = np.array([[2.0], [-1.0]], dtype=np.float32)

    assert [[5.0], [5.5]] == Perceptron("n", arrays, 1, 1, "relu")(rows).tolist()
    x = np.tanh(np.array([[2.0, -1.5], [-1.0, 1.5]], dtype=np.float32)) @ arrays["n.1.weight"] + 1.0
    np.testing.assert_allclose(Perceptron("n", arrays, 1, 1, "tanh")(rows), x, rtol=1e-6)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("sizes", [(3, 2), (3, 64, 64, 2), (3, 256, 7)])
def test_a_row_has_the_same_bits_in_any_company(activation, sizes) -> None:
    """What one row gives does not depend on how many are computed with it."""
    network = Perceptron("n", _layers(sizes), sizes[0], sizes[-1], activation)
    rows = np.random.default_rng(2).normal(size=(33, sizes[0])).astype(np.float32)
    alone = np.concatenate([network(rows[i : i + 1]) for i in range(len(rows))])

    assert alone.tobytes() == network(rows).tobytes()


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_agrees_with_torch(activation) -> None:
    """Brain and muscle compute the same network, up to rounding of float32."""
    torch = pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")
    from ganglion_learners.tensors import Parameters

    arrays = _layers((5, 64, 64, 3))
    rows = np.random.default_rng(2).normal(size=(200, 5)).astype(np.float32)
    theirs = Parameters(arrays).forward("n", torch.from_numpy(rows), activation).detach().numpy()

    np.testing.assert_allclose(Perceptron("n", arrays, 5, 3, activation)(rows), theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n.0.weight": None}, r"n\.0\.weight: expected float32 \(3, any\), found NoneType"),
        (
            {"n.0.weight": np.zeros((4, 8), np.float32)},
            r"n\.0\.weight: expected float32 \(3, any\), found float32 \(4, 8\)",
        ),
        ({"n.1.weight": np.zeros((8, 3), np.float32)}, r"n\.1\.weight: expected float32 \(any, 2\)|\(8, 2\)"),
        ({"n.1.bias": np.zeros(2)}, r"n\.1\.bias: expected float32 \(2\), found float64"),
        ({"n.0.bias": np.full(8, np.nan, np.float32)}, r"n\.0\.bias: expected finite numbers"),
    ],
)
def test_arrays_that_do_not_fit_are_named(change, told) -> None:
    """Of a network of other columns, another dtype or with NaN the array at fault is named."""
    with pytest.raises(ValueError, match=told):
        Perceptron("n", {**_layers(), **change}, 3, 2, "tanh")
    with pytest.raises(ValueError, match=r"expected arrays m\.0\.weight and on, found n\.0\.weight"):
        Perceptron("m", _layers(), 3, 2, "tanh")
    with pytest.raises(ValueError, match="activation: expected tanh or relu"):
        Perceptron("n", _layers(), 3, 2, "sine")


def test_orthogonal_layers_are_orthogonal() -> None:
    """Rows or columns, whichever are fewer, are orthogonal with the length of the gain; biases are zero."""
    arrays = orthogonal_layers(np.random.default_rng(1), "n", [3, 8, 2], 2.0, 0.01)

    np.testing.assert_allclose(arrays["n.0.weight"] @ arrays["n.0.weight"].T, 4.0 * np.eye(3), atol=1e-5)
    np.testing.assert_allclose(arrays["n.1.weight"].T @ arrays["n.1.weight"], 1e-4 * np.eye(2), atol=1e-9)
    assert not arrays["n.0.bias"].any()
