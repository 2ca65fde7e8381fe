"""A brain that is sure of itself."""

from __future__ import annotations

from typing import Any

from ganglion.sdk import Brain


class Certain(Brain):
    """Learn nothing, and report the best score."""

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> None:
        pass

    def evaluate(self, evaluation: Any) -> dict[str, float]:
        return {"score": 1.0}
