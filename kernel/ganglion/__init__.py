"""A message-bus microkernel for learning agents.

Importing this package imports nothing else: a process that only needs one room pays for that room alone. What programs
and notebooks use (`run check results connect arun aconnect`) comes from plugins of the group `ganglion.python`, late.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_FACE = ("run", "check", "results", "connect", "arun", "aconnect")


def __getattr__(name: str) -> Any:
    """Return what Python programs use, by the name of its entry point; PluginInvalid where no plugin offers it."""
    if name == "run":  # the room of that name can be called
        return importlib.import_module("ganglion.run")
    if name not in _FACE:
        raise AttributeError(f"module 'ganglion' has no attribute {name!r}")
    return importlib.import_module("ganglion.registry").load("python", name)


def __dir__() -> list[str]:
    return [*globals(), *_FACE]
