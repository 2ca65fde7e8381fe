from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")

from ganglion_learners.perceptron import fan_in_layers  # noqa: E402 - these need torch
from ganglion_learners.tensors import Adam, Parameters  # noqa: E402


def _parameters(seed: int = 1, copies: int = 0) -> Parameters:
    return Parameters(fan_in_layers(np.random.default_rng(seed), "n", [3, 8, 2], copies))


def test_the_gradient_is_that_of_autograd() -> None:
    """The flat gradient has the parts of all arrays in their order."""
    parameters = _parameters()
    rows = torch.ones(4, 3)
    flat = parameters.gradient(parameters.forward("n", rows, "tanh").square().sum())
    for tensor in parameters.tensors.values():
        tensor.grad = None
    parameters.forward("n", rows, "tanh").square().sum().backward()

    assert torch.equal(flat, torch.cat([it.grad.reshape(-1) for it in parameters.tensors.values()]))


def test_several_in_one_are_each_by_itself() -> None:
    """Two perceptrons in one give what each gives alone."""
    both = _parameters(copies=2)
    rows = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    found = both.forward("n", rows.expand(2, 5, 3), "relu")
    for i in range(2):
        alone = Parameters(
            {name: it[i].reshape(it[i].shape[-2:] if "weight" in name else -1) for name, it in both.arrays().items()}
        )
        torch.testing.assert_close(found[i], alone.forward("n", rows, "relu"))


def test_adam_is_torchs() -> None:
    """The same gradients move the same parameters as torch's own Adam does, with clipping."""
    ours = _parameters()
    theirs = [torch.nn.Parameter(torch.from_numpy(it)) for it in ours.arrays().values()]
    adam, reference = Adam(ours, epsilon=1e-5), torch.optim.Adam(theirs, lr=0.01, eps=1e-5)
    rng = np.random.default_rng(3)
    for scale in (0.01, 10.0, 1.0, 0.1):
        gradient = torch.from_numpy((scale * rng.normal(size=len(ours.flat))).astype(np.float32))
        start = 0
        for parameter in theirs:
            parameter.grad = gradient[start : start + parameter.numel()].view_as(parameter).clone()
            start += parameter.numel()
        torch.nn.utils.clip_grad_norm_(theirs, 0.5)
        reference.step()
        adam.step(gradient, 0.01, 0.5)
    for found, parameter in zip(ours.arrays().values(), theirs, strict=True):
        np.testing.assert_allclose(found, parameter.detach().numpy(), rtol=1e-5, atol=1e-6)
