"""Types: spaces, times and modes under the names of `palaestrai.types`."""

from __future__ import annotations

from ganglion.sdk import (
    Box,
    Dict,
    Discrete,
    Mode,
    MultiBinary,
    MultiDiscrete,
    OutOfActionSpaceError,
    OutOfObservationSpaceError,
    SimTime,
    Space,
    Tuple,
)
from ganglion.sdk import Signal as SimulationFlowControl

__all__ = [
    "Box",
    "Dict",
    "Discrete",
    "Mode",
    "MultiBinary",
    "MultiDiscrete",
    "OutOfActionSpaceError",
    "OutOfObservationSpaceError",
    "SimTime",
    "SimulationFlowControl",
    "Space",
    "Tuple",
]
