from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Optional

import pytest

from ganglion.cli.child import form_of, schema_of
from ganglion.errors import PluginInvalid

if TYPE_CHECKING:
    from nowhere import Thing


@pytest.mark.parametrize(
    ("hint", "form"),
    [
        (int, {"type": "integer"}),
        (bool, {"type": "boolean"}),
        (float, {"type": "number"}),
        (str, {"type": "string"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),  # noqa: UP045 - authors write it
        (Literal["sum", "min", 3], {"enum": ["sum", "min", 3]}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[float], {"type": "array", "items": {"type": "number"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (tuple[int, str], {"type": "array"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, Any], {"type": "object"}),
        (Any, {}),
        (Path, {}),
        (int | Path, {}),
        (list[Path], {"type": "array"}),
    ],
)
def test_types(hint: Any, form: dict[str, Any]) -> None:
    """Plain types, and what is made of them, are said; of anything else nothing is said, so that it is not refused."""
    assert form == schema_of(hint)


class Positional:
    def __init__(self, size: int, /) -> None: ...


class Open:
    def __init__(self, size: int = 3, *, thing: Any = object(), **more: Any) -> None: ...  # noqa: B008 - authors do


class Hidden:
    """Name what is imported for type checkers only."""

    def __init__(self, thing: Thing, size: int = 2) -> None: ...


def test_constructor() -> None:
    """Parameters have type and default; what is not declared is refused unless any keyword is taken."""
    assert {"type": "object", "properties": {"size": {"type": "integer", "default": 3}, "thing": {}}} == form_of(Open)
    assert {
        "type": "object",
        "properties": {"thing": {}, "size": {"default": 2}},
        "additionalProperties": False,
        "description": "Name what is imported for type checkers only.",
    } == form_of(Hidden)


def test_parameter_without_a_name() -> None:
    """A class whose parameters cannot be given by name is blamed."""
    with pytest.raises(PluginInvalid, match="positional-only"):
        form_of(Positional)
