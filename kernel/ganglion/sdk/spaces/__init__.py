"""SPACES: what values a sensor, an actuator or a reward can have."""

from __future__ import annotations

from ganglion.sdk.spaces.kinds import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from ganglion.sdk.spaces.space import Space
from ganglion.sdk.spaces.text import parse_space, space_from_wire

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
