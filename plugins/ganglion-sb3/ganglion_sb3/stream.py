"""Stream: the random numbers that torch and numpy draw globally, as one object's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["Stream", "generator_array", "restore_generator"]

Array = NDArray[Any]


WORD = 2**64


def generator_array(generator: np.random.Generator) -> Array:
    """Return the state of a PCG64, which Gymnasium's spaces draw from, as (6,) uint64."""
    state: Any = generator.bit_generator.state
    numbers = state["state"]["state"], state["state"]["inc"]
    words = [word for number in numbers for word in divmod(number, WORD)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], dtype=np.uint64)


def restore_generator(generator: np.random.Generator, array: Array) -> None:
    """Take over what `generator_array` returned."""
    high, low, step_high, step_low, has_half, half = np.asarray(array).tolist()
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": high * WORD + low, "inc": step_high * WORD + step_low},
        "has_uint32": has_half,
        "uinteger": half,
    }


class Stream:
    """Keep the states of torch's and numpy's global generators, which Stable-Baselines3 draws from.

    They are in force inside `with stream.running():` only, so that nothing else in the process draws from them, and
    they can be stored.

    Args:
        seed: Both begin as `stable_baselines3.common.utils.set_random_seed` makes them; numpy's takes 32 bits of it.
    """

    def __init__(self, seed: int) -> None:
        self._torch = torch.Generator().manual_seed(seed).get_state()
        self._numpy: Any = np.random.RandomState(seed % 2**32).get_state()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let all that is drawn in the block come from this stream."""
        outside = np.random.get_state()  # noqa: NPY002 - that generator it is
        np.random.set_state(self._numpy)  # noqa: NPY002
        try:
            with self.running_torch():
                yield
        finally:
            self._numpy = np.random.get_state()  # noqa: NPY002
            np.random.set_state(outside)  # noqa: NPY002

    @contextmanager
    def running_torch(self) -> Iterator[None]:
        """Let what torch draws in the block come from this stream; where nothing else is drawn this is quicker."""
        outside = torch.get_rng_state()
        torch.set_rng_state(self._torch)
        try:
            yield
        finally:
            self._torch = torch.get_rng_state()
            torch.set_rng_state(outside)

    def arrays(self) -> dict[str, Array]:
        """Return the states as arrays."""
        _, key, position, has_gauss, gauss = self._numpy
        return {
            "torch": self._torch.numpy().copy(),
            "numpy": np.array(key),
            "numpy-rest": np.array([position, has_gauss, gauss], dtype=np.float64),
        }

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take over what `arrays` returned."""
        position, has_gauss, gauss = np.asarray(arrays["numpy-rest"]).tolist()
        self._torch = torch.from_numpy(np.array(arrays["torch"], dtype=np.uint8))
        self._numpy = ("MT19937", np.array(arrays["numpy"], np.uint32), int(position), int(has_gauss), gauss)
