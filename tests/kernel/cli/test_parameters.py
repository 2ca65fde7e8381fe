from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Optional

import pytest
from jsonschema import Draft202012Validator

from ganglion import registry
from ganglion.cli.parameters import form_of, parameters, schema_of
from ganglion.document.schema import PARAMETERISED
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


def test_description_is_the_first_sentence() -> None:
    """What stands before the first empty line of a docstring is the description, on one line."""

    class Free:
        __doc__ = "Do one thing,\n    on two lines.\n\n    And explain it.\n    "

        def __init__(self, scale: float = 1.5) -> None: ...

    assert "Do one thing, on two lines." == form_of(Free)["description"]


def test_parameter_without_a_name() -> None:
    """A class whose parameters cannot be given by name is blamed."""
    with pytest.raises(PluginInvalid, match="positional-only"):
        form_of(Positional)


def test_installed_plugins(capfd: pytest.CaptureFixture[str]) -> None:
    """Each installed plugin of a document's kinds has a schema under both of its names; asking imports none here."""
    found = parameters(PARAMETERISED)

    for kind in PARAMETERISED:
        for entry in registry.entries(kind):
            form = found[kind][entry.name]
            Draft202012Validator.check_schema(form)
            assert form == found[kind][f"{entry.distribution}:{entry.name}"]
    dummy = found["environment"]["dummy"]
    assert {"type": "integer", "default": 10} == dummy["properties"]["max_iter"]
    assert dummy["additionalProperties"] is False
    assert "additionalProperties" not in found["condition"]["agent_objective"]
    assert "" == capfd.readouterr().err
