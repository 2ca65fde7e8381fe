"""Learning muscles and brains of Ganglion: one with numpy alone, three with torch.

A public name is loaded at its first use. An object of `TorchFunctionalEnvironment` and `unroll` need torch, all else
needs numpy alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganglion_learners.choice import Choices as Choices
    from ganglion_learners.functional import TorchFunctionalEnvironment as TorchFunctionalEnvironment
    from ganglion_learners.functional import unroll as unroll
    from ganglion_learners.ranges import refuse_outside as refuse_outside
    from ganglion_learners.recording import Recording as Recording
    from ganglion_learners.update import refused as refused

_HOME = {
    "Choices": "choice",
    "Recording": "recording",
    "TorchFunctionalEnvironment": "functional",
    "unroll": "functional",
    "refuse_outside": "ranges",
    "refused": "update",
}


def __getattr__(name: str) -> Any:
    """Load a public name."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
