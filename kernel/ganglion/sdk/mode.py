"""Mode: whether an episode trains, tests or evaluates."""

from __future__ import annotations

from enum import Enum

__all__ = ["Mode"]


class Mode(str, Enum):  # noqa: UP042 - StrEnum would print `train`; a `repr` in a message must show that it is a Mode
    """Say what an episode is for.

    In `TRAIN` every completed decision goes to the brain. In `TEST` no brain is asked anything and muscles act by the
    loaded policy. `EVALUATE` is the mode of the evaluation episodes within a training phase, and of phases that are
    called so.
    """

    TRAIN = "train"
    TEST = "test"
    EVALUATE = "evaluate"
