"""An environment and a muscle whose parameters are large and deep."""

from __future__ import annotations

from typing import Any

from ganglion_toys.dummy import DummyEnvironment, DummyMuscle


class WideEnvironment(DummyEnvironment):
    """Take a table of many rows, and what lies deep; end after as many updates as the table has thousands of rows."""

    def __init__(self, table: dict[str, list[int]], deep: Any) -> None:
        levels = 0
        while isinstance(deep, dict | list):
            deep = deep[0] if isinstance(deep, list) else next(iter(deep.values()))
            levels += 1
        assert (levels, deep) == (40, "bottom")
        assert all(row == [i, 2 * i] for i, row in enumerate(table.values()))
        super().__init__(max_iter=len(table) // 1000)


class WideMuscle(DummyMuscle):
    """Take many numbers."""

    def __init__(self, numbers: list[int]) -> None:
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > 10_000
        super().__init__()
