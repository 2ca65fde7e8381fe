from __future__ import annotations

from typing import Any

import pytest

from ganglion.sdk.store import Nondeterministic, StoreError
from ganglion_store.values import Declarations, Declared, checked


def _list(*ids: str) -> list[Declared]:
    return [Declared(name, "<f8", ()) for name in ids]


def test_the_same_again_is_harmless() -> None:
    """A list is new once; another one under its key is refused with what differs."""
    declarations = Declarations()
    key = (0, "grid", "", "sensor")
    assert declarations.add(key, _list("grid.a", "grid.b"))
    assert not declarations.add(key, _list("grid.a", "grid.b"))

    with pytest.raises(
        Nondeterministic, match=r"sensors of environment grid, phase 0: declared grid\.b .* now grid\.c"
    ):
        declarations.add(key, _list("grid.a", "grid.c"))
    with pytest.raises(Nondeterministic, match="declared 2 before, now 1"):
        declarations.add(key, _list("grid.a"))


@pytest.mark.parametrize(
    "values",
    [
        [0, "grid", None, "smell", []],
        [0, None, None, "sensor", []],
        [0, "grid", None, "sensor", [["grid.a", "Box", None, "<f8"]]],
        [0, "grid", None, "sensor", [["grid.a", "Box", None, "<f8", [1.5]]]],
        [0, "grid", None, "sensor", [[3, "Box", None, "<f8", []]]],
    ],
)
def test_malformed_declarations_are_refused(values: list[Any]) -> None:
    """A record that declares nothing readable is refused."""
    with pytest.raises(StoreError, match="record declare: expected"):
        checked(values)
