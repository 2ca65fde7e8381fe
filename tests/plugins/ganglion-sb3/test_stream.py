from __future__ import annotations

import pytest

pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
)
import numpy as np
import torch

from ganglion_sb3.stream import Stream


def _draw(stream):
    with stream.running():
        return torch.rand(3).tolist(), np.random.rand(3).tolist()  # noqa: NPY002 - that generator it is


def test_is_an_objects_own() -> None:
    """What others draw changes nothing of it, nor it of theirs; it begins as Stable-Baselines3 seeds."""
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    outside = torch.get_rng_state()
    one, two = Stream(2**40 + 7), Stream(2**40 + 7)
    found = [_draw(one), _draw(one)]
    assert torch.equal(outside, torch.get_rng_state())
    torch.rand(5)
    assert found == [_draw(two), _draw(two)]
    torch.manual_seed(2**40 + 7)
    np.random.seed((2**40 + 7) % 2**32)  # noqa: NPY002
    assert found[0] == (torch.rand(3).tolist(), np.random.rand(3).tolist())  # noqa: NPY002


def test_goes_on_from_its_arrays() -> None:
    """What is stored draws what the stream would have drawn."""
    one, two = Stream(1), Stream(2)
    _draw(one)
    two.restore({name: array.copy() for name, array in one.arrays().items()})

    assert _draw(one) == _draw(two)
