from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk import StoreError
from ganglion_store.command import canonical, first_difference, results_digest

Rows = dict[str, list[dict[str, Any]]]


class FakeReader:
    """Give rows from memory: run -> table -> rows."""

    def __init__(self, **runs: Rows) -> None:
        self._runs = runs

    def tables(self) -> dict[str, list[str]]:
        return {name: [] for name in ("signals", "steps", "phases", "brains", "runs", "evaluations")}

    def rows(self, table: str, runs: Sequence[str]) -> Iterator[dict[str, Any]]:
        for row in self._runs[runs[0]].get(table, []):
            yield {"run": runs[0], **row}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, width=16) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)
ROWS = st.lists(st.fixed_dictionaries({"step": st.integers(0, 3), "sensors": VALUES}), max_size=3)


@given(ROWS, ROWS)
def test_the_digest_agrees_with_the_difference(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> None:
    """Two runs have one digest exactly if no difference between them is found."""
    reader: Any = FakeReader(a={"steps": a}, b={"steps": b})
    first, second = results_digest(reader, "a"), results_digest(reader, "b")

    assert (first == second) == (first_difference(reader, "a", "b") is None)


@given(VALUES)
def test_the_order_of_keys_does_not_count(value: Any) -> None:
    """A map is equal to one with the same keys in another order, however deep it is."""

    def turned(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: turned(part[key]) for key in reversed(part)}
        return [turned(inner) for inner in part] if isinstance(part, list) else part

    assert canonical(value) == canonical(turned(value))
    assert value == json.loads(canonical(value))


def _step(step: int, value: Any) -> dict[str, Any]:
    return {"worker": 0, "step": step, "sensors": {"g.a": 1, "g.b": value}}


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
    reader: Any = FakeReader(a={"steps": [_step(*row) for row in a]}, b={"steps": [_step(*row) for row in b]})

    assert text == str(first_difference(reader, "a", "b"))


def test_bytes_and_keys_that_json_lacks_are_kept_apart() -> None:
    """Bytes, and keys that are no text, have forms of their own; whatever else there is is refused."""
    assert len({canonical(v) for v in (b"a", "a", {"1": 2}, {b"1": 2}, {None: 2}, [1, 2])}) == 6
    with pytest.raises(StoreError, match="expected a plain value in a row, found object"):
        canonical({"a": object()})


class NewerReader(FakeReader):
    """Give a table of bodies, too."""

    def tables(self) -> dict[str, list[str]]:
        return {**super().tables(), "bodies": []}

    def count(self, table: str, runs: Sequence[str]) -> int:
        return len(self._runs[runs[0]].get(table, []))


def test_a_run_without_bodies_keeps_its_digest() -> None:
    """A store that has a table of bodies gives the digest that one gave before it; bodies count where there are any."""
    run: Rows = {"steps": [{"step": 1, "sensors": {}}]}
    older: Any = FakeReader(a=run)
    newer: Any = NewerReader(a=run, b={**run, "bodies": [{"agent": "ada"}]})

    assert results_digest(older, "a") == results_digest(newer, "a") != results_digest(newer, "b")
