from __future__ import annotations

from typing import Any

import pytest

from ganglion.sdk.store import Nondeterministic, StoreError
from ganglion_store.values import Declarations, Declared, checked, declared_lists


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


@pytest.mark.parametrize(
    ("homes", "rows", "expected"),
    [
        (["lake"], {"": "lake.x"}, {"lake": "lake.x"}),
        (["lake", "moor"], {"": "x"}, {"lake": "lake.x", "moor": "moor.x"}),
        # What looks like a full id may be a local one.
        (["lake", "moor"], {"": "lake.x"}, {"lake": "lake.lake.x", "moor": "moor.lake.x"}),
        # Groups: lake and fen are one, moor is another one.
        (
            ["lake", "moor", "fen"],
            {"lake": "x", "moor": "moor.x", "fen": "x"},
            {"lake": "lake.x", "moor": "moor.x", "fen": "fen.x"},
        ),
        ([], {"": "lake.x"}, {"": "lake.x"}),
    ],
)
def test_what_bodies_declare_is_read_under_full_ids(
    homes: list[str], rows: dict[str, str], expected: dict[str, str]
) -> None:
    """Ids are local where an agent, or a group of its bodies, is in several environments: there the name is added."""
    told = [[0, environment, "ada", "sensor", name, "<f8", "[]", "Box"] for environment, name in rows.items()]
    bodies = [[0, "ada", environment, 0] for environment in homes] + [[0, "bob", "sea", 0], [1, "ada", "sea", 0]]

    found = declared_lists(told, bodies)

    assert {(0, place, "ada", "sensor"): [name] for place, name in expected.items()} == {
        key: [one.id for one in declared] for key, declared in found.items()
    }
