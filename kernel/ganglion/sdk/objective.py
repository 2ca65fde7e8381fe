"""Objective: one number for what an agent wants, from its memory."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, ClassVar

import numpy as np

from ganglion.errors import AuthorError
from ganglion.sdk.construct import Part
from ganglion.sdk.memory import Memory


class Objective(Part, ABC):
    """Judge each decision of one muscle, in its process.

    The constructor takes the document's parameters by keyword, or all of them as one map named `params`.
    """

    takes_params: ClassVar[bool] = True

    @abstractmethod
    def internal_reward(self, memory: Memory, **kwargs: Any) -> float | Awaitable[float | None] | None:
        """Return the objective of the newest decision.

        Called once per decision, when its row is complete but for the objective.

        Args:
            memory: Of the muscle; `memory.tail(1)` is the row of the decision.
            kwargs: Nothing today.

        Returns:
            A finite or infinite number, higher is better; an array of one element is a number. None is no value: it
            is null in the tables, in no window of a condition, and NaN in the brain's memory. Anything else, a list or
            a text too, and NaN are errors of the objective.
        """


def objective_value(result: Any) -> float | None:
    """Return what `internal_reward` returned as a float, or None.

    Raises:
        AuthorError: It is neither None nor one number, or it is NaN.
    """
    if result is None or (type(result) is float and not math.isnan(result)):
        return result
    known = isinstance(result, int | float) or hasattr(result, "__array__")  # neither lists nor texts are numbers
    array = np.asarray(result if known else None)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise AuthorError(f"internal_reward: expected one number or None, found {result!r:.100}")
    number = float(array.reshape(()).item())
    if math.isnan(number):
        raise AuthorError("internal_reward: expected one number or None, found NaN")
    return number
