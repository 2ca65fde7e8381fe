from __future__ import annotations

from typing import Any

from ganglion.document import schema


def test_header() -> None:
    """The schema names its draft."""
    assert "https://json-schema.org/draft/2020-12/schema" == schema()["$schema"]


def test_every_key_is_described() -> None:
    """Every key of every map has a description, or is a reference that has one."""
    whole = schema()
    lacking = []
    for name, definition in {"": whole, **whole["$defs"]}.items():
        for part in [definition, *definition.get("anyOf", [])]:
            rows = part.get("properties", {}).items()
            lacking += [f"{name}.{key}" for key, value in rows if "description" not in value]

    assert [] == lacking


def test_no_dangling_reference() -> None:
    """Every reference leads to a definition."""
    whole = schema()

    def references(tree: Any) -> list[str]:
        if isinstance(tree, list):
            return [found for part in tree for found in references(part)]
        if not isinstance(tree, dict):
            return []
        own = [tree["$ref"]] if isinstance(tree.get("$ref"), str) else []
        return own + [found for part in tree.values() for found in references(part)]

    assert {f"#/$defs/{name}" for name in whole["$defs"]} >= set(references(whole))


def test_accepted_spellings_are_there() -> None:
    """The other names of keys, text in place of a plugin, and modes in any case are accepted."""
    definitions = schema()["$defs"]

    assert {"workers", "condition"} <= set(definitions["PhaseConfig"]["properties"])
    assert {"agent_name", "experiment_id", "phase_name"} <= set(definitions["Load"]["properties"])
    assert [{"required": ["conditions"]}, {"required": ["condition"]}] == definitions["RunConfig"]["anyOf"]
    text, full = definitions["Plugin"]["anyOf"]
    assert "string" == text["type"]
    assert {"name", "params", "parameters", "on_error"} == set(full["properties"])
    assert "[tT][eE][sS][tT]" in definitions["PhaseConfig"]["properties"]["mode"]["pattern"]
    assert {"const": False} in definitions["Agent"]["properties"]["load"]["anyOf"]


def test_installed_names_are_examples() -> None:
    """Installed plugins are examples, not a closed list."""
    name = schema({"environment": ["hill", "lake"]})["$defs"]["Environment"]["properties"]["name"]

    assert ["hill", "lake"] == name["examples"]
    assert "enum" not in name


def test_defaults_are_those_of_the_plan() -> None:
    """Defaults stand where there are some; a key that may not be null has no default null."""
    definitions = schema()["$defs"]

    assert 1 == definitions["PhaseConfig"]["properties"]["worker"]["default"]
    assert "default" not in definitions["Environment"]["properties"]["name"]
    assert definitions["Agent"]["properties"]["rewards"]["default"] is None
