"""SPACES: what values a sensor, an actuator or a reward can have."""

from __future__ import annotations

from ganglion.sdk.spaces.box import Box
from ganglion.sdk.spaces.composite import Dict, Tuple
from ganglion.sdk.spaces.discrete import Discrete
from ganglion.sdk.spaces.form import space_from_wire
from ganglion.sdk.spaces.multi_binary import MultiBinary
from ganglion.sdk.spaces.multi_discrete import MultiDiscrete
from ganglion.sdk.spaces.space import Space
from ganglion.sdk.spaces.text import parse_space

__all__ = [
    "Box",
    "Dict",
    "Discrete",
    "MultiBinary",
    "MultiDiscrete",
    "Space",
    "Tuple",
    "parse_space",
    "space_from_wire",
]
