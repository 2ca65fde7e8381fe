"""What the tests of all plugins share: objects made as the bus makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import Mode
from ganglion.sdk.part import construct


@pytest.fixture
def make() -> Callable[..., Any]:
    """Return a function that makes an object of a plugin: attributes first, then the constructor."""

    def _make(cls: type[Any], *, seed: int = 42, mode: Mode = Mode.TRAIN, **params: Any) -> Any:
        attributes = {
            "uid": "part",
            "name": "part",
            "worker": 0,
            "mode": mode,
            "seed": seed,
            "rng": np.random.default_rng(seed),
            "params": params,
        }
        return construct(cls, params, {"uid": "part", "seed": seed, "broker_uri": ""}, attributes)

    return _make
