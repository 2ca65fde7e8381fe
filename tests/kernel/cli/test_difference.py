from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ganglion.cli.verify import first_difference


class FakeReader:
    """Give rows from memory: table -> run -> rows."""

    def __init__(self, tables: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
        self._tables = tables

    def tables(self) -> dict[str, list[str]]:
        """Return the tables."""
        return {name: [] for name in self._tables}

    def rows(self, table: str, runs: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a run."""
        yield from self._tables[table][runs[0]]


def _step(run: str, step: int, value: Any, **more: Any) -> dict[str, Any]:
    return {"run": run, "worker": 0, "step": step, "sensors": {"g.a": 1, "g.b": value}, **more}


def _found(table: str, a: list[dict[str, Any]], b: list[dict[str, Any]]) -> Any:
    reader: Any = FakeReader({"runs": {"a": [{"run": "a"}], "b": [{"run": "b"}]}, table: {"a": a, "b": b}})
    return first_difference(reader, "a", "b")


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ([(1, 2), (2, 3)], [(1, 2), (2, 4)], "steps, row 1 (worker 0, step 2): sensors.g.b 3 against 4"),
        ([(1, 2)], [(1, None)], "steps, row 0 (worker 0, step 1): sensors.g.b 2 against null"),
        ([(1, 2)], [(1, 2), (2, 3)], "steps, row 1 (worker 0, step 2): no row against a row"),
        ([(1, 2)], [], "steps, row 0 (worker 0, step 1): a row against no row"),
        ([(1, 2)], [(5, 2)], "steps, row 0 (worker 0, step 1): step 1 against 5"),
    ],
)
def test_the_first_difference_is_named(a: list[Any], b: list[Any], text: str) -> None:
    """The first row that differs is named by its keys, with the value and both sides."""
    found = _found("steps", [_step("a", *row) for row in a], [_step("b", *row) for row in b])

    assert text == str(found)
    assert found.table == "steps"
