from __future__ import annotations

from typing import Any

import pytest

from ganglion.sdk.store import Nondeterministic, StoreError
from ganglion_store.declarations import Declarations, checked, shape_of, shape_text
from ganglion_store.values import Declared


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


def test_an_agent_is_in_an_environment_if_it_is_only_one() -> None:
    """The environment of an agent follows from whose sensors and actuators it has; dots in names do not mislead."""
    declarations = Declarations()
    declarations.add((0, "a", "", "sensor"), _list("a.b.x"))
    declarations.add((0, "a.b", "", "actuator"), _list("a.b.y"))
    declarations.add((0, "", "one", "sensor"), _list("a.b.x"))
    declarations.add((0, "", "both", "sensor"), _list("a.b.x"))
    declarations.add((0, "", "both", "actuator"), _list("a.b.y"))

    assert ["a", None, None] == [declarations.environment_of(0, agent) for agent in ("one", "both", "nobody")]
    assert [("environment", "a"), ("environment", "a.b"), ("agent", "one"), ("agent", "both")] == list(
        declarations.members(0)
    )


@pytest.mark.parametrize(
    "values",
    [
        [0, "grid", None, "smell", []],
        [0, "grid", "ada", "sensor", []],
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


def test_a_static_model_is_declared_as_text() -> None:
    """It is one row of its environment; its text is not looked at."""
    row = ["static_world_model", '{"width": 3}', None, None, []]
    key, rows = checked([0, "grid", None, "static_world_model", [row]])

    assert ((0, "grid", "", "static_world_model"), [(*row[:4], ())]) == (key, rows)


@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4)])
def test_shapes_survive(shape: tuple[int, ...]) -> None:
    """A shape is what it was after it has rested as text."""
    assert shape == shape_of(shape_text(shape))
