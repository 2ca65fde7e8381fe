"""Chance: generators that palaestrAI's classes would take from the operating system, from the seed of the run."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["Chance"]


class Chance:
    """Give the worlds and spaces of Gymnasium in this process, and torch, seeds that are drawn from one generator.

    Gymnasium makes a generator from the entropy of the operating system wherever it is given no seed, and palaestrAI's
    classes give none. The newest object of a process counts.

    Args:
        rng: What seeds are drawn from.
    """

    _rng: np.random.Generator | None = None

    def __init__(self, rng: np.random.Generator) -> None:
        if Chance._rng is None:
            self._install()
        Chance._rng = rng
        seed = self.draw()  # always: what comes next does not depend on what this process has imported
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(seed)

    @staticmethod
    def draw() -> int:
        """Return a seed in [0, 2**31)."""
        assert Chance._rng is not None
        return int(Chance._rng.integers(2**31))

    @staticmethod
    def _install() -> None:
        import gymnasium
        from gymnasium.utils import seeding

        made, opened = seeding.np_random, gymnasium.Env.reset

        def np_random(seed: int | None = None) -> Any:
            return made(Chance.draw() if seed is None else seed)

        def reset(self: Any, *, seed: int | None = None, options: Any = None) -> Any:
            return opened(self, seed=Chance.draw() if seed is None else seed, options=options)

        seeding.np_random = np_random
        gymnasium.Env.reset = reset  # type: ignore[method-assign]
