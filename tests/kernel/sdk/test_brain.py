from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError
from ganglion.sdk.brain import Brain, CheckpointableBrain, Evaluation, Transitions, Update, carries_update
from ganglion.sdk.flow import Signal
from ganglion.sdk.models import Models


class Counting(Brain):
    """Answer with the data, and keep it as the model."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.weights = np.zeros(2)

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        self.seen.append((muscle_id, data_from_muscle))
        return data_from_muscle

    def arrays(self) -> dict[str, Any]:
        return {"weights": self.weights}

    def load_arrays(self, arrays: Any) -> None:
        self.weights = arrays["weights"]


class Async(Counting):
    async def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        return data_from_muscle


def _transitions(*data: Any) -> Transitions:
    k = len(data)
    rows, flags = np.zeros((k, 1)), np.zeros(k, dtype=bool)
    muscles, numbers = [f"a/{i}" for i in range(k)], np.arange(k)
    return Transitions(
        rows, rows, flags, rows, rows, flags, flags, flags, muscles, [0] * k, numbers, numbers, list(data)
    )


class Ambiguous:
    """Be several numbers of somebody else's, such as a tensor."""

    def __bool__(self) -> bool:
        raise RuntimeError("ambiguous")


@pytest.mark.parametrize(
    ("result", "carries"),
    [
        (None, False),
        (0, False),
        ([], False),
        ({}, False),
        (False, False),
        (1, True),
        ({"a": 0}, True),
        (np.zeros(1), True),
        (np.zeros(0), True),
        (Update(None), False),
        (Update(np.zeros(1), only=["a/0"]), True),
        (Ambiguous(), True),
    ],
)
def test_what_counts_as_an_update(result: Any, carries: bool) -> None:
    """None and what `bool` calls false are none; an array always is one, and so is what has no truth."""
    assert carries is carries_update(result)


def test_the_default_learn_thinks_row_by_row() -> None:
    """In canonical order; the last update of the round is the round's."""
    brain = Counting()

    assert brain.learn(_transitions(1, 2, None)) == 2
    assert [("a/0", 1), ("a/1", 2), ("a/2", None)] == brain.seen
    assert brain.learn(_transitions(None)) is None
    assert len(_transitions(1, 2)) == 2


def test_the_default_learn_says_that_it_cannot_await() -> None:
    """A coroutine is never mistaken for an update."""
    with pytest.raises(AuthorError, match="async"):
        Async().learn(_transitions(1))


def test_arrays_may_be_async(tmp_path: Path) -> None:
    """The defaults of `store` and `load` wait for what their author made `async def`."""
    found: list[Any] = []

    class Slow(Counting):
        async def arrays(self) -> Any:  # type: ignore[override]
            return {"w": np.arange(3)}

        async def load_arrays(self, arrays: Any) -> None:  # type: ignore[override]
            found.append(arrays["w"].tolist())

    async def play() -> None:
        brain = Slow()
        brain.models = Models(tmp_path)
        for hook in (brain.store, brain.load):
            waited = hook()
            assert waited is not None
            await waited

    asyncio.run(play())

    assert [[0, 1, 2]] == found


def test_the_greatest_signal_wins() -> None:
    """Of several signals in one call the greatest goes out, with the first reason given for it; then none is left."""
    brain = Counting()
    assert brain.pop_signal() is None
    brain.signal(Signal.RESET, "stuck")
    brain.signal(Signal.STOP_PHASE, "solved")
    brain.signal(Signal.STOP_PHASE, "again")

    assert (Signal.STOP_PHASE, "solved") == brain.pop_signal()
    assert brain.pop_signal() is None


def test_optional_hooks_do_nothing() -> None:
    """A brain needs `thinking` alone; a brain without arrays has an empty model."""
    brain = Counting()

    assert [None] * 3 == [brain.setup(), brain.pretrain([]), brain.evaluate(Evaluation(0, []))]
    assert {} == Brain.arrays(brain)
    Brain.load_arrays(brain, {})


def test_checkpoints_are_an_obligation() -> None:
    """A brain that says that it has checkpoints must be able to export and restore them."""
    assert {"export_checkpoint_state", "restore_checkpoint_state", "thinking"} == (
        CheckpointableBrain.__abstractmethods__
    )
