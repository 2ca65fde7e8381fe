"""Gymnasium environments on the Ganglion bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganglion_gymnasium.space import from_gymnasium, to_gymnasium, value_to_gymnasium
    from ganglion_gymnasium.wrapper import as_gymnasium

__all__ = ["as_gymnasium", "from_gymnasium", "to_gymnasium", "value_to_gymnasium"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: Gymnasium takes longer to import than a worker to start."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ganglion_gymnasium import space, wrapper

    return getattr(wrapper if name == "as_gymnasium" else space, name)
