"""None brain: the one that never learns."""

from __future__ import annotations

from typing import Any

from ganglion.sdk import Brain

__all__ = ["NoneBrain"]


class NoneBrain(Brain):
    """Stand where no brain is wanted: it sends no update and stores nothing."""

    takes_groups = True

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> None:
        """Return None: there is nothing to learn."""

    def store(self) -> None:
        """Store nothing: there is no model."""
