from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from ganglion import registry
from ganglion.document import schema
from ganglion.document.schema import PARAMETERISED, with_parameters


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


def test_editors_and_loader_know_the_same_kinds() -> None:
    """Each kind of plugin that stands in a document has a place for its parameters, and is a kind that there is."""
    assert set(registry.GROUPS) >= set(PARAMETERISED)
    assert {"environment", "muscle", "brain", "objective", "condition", "controller"} <= set(PARAMETERISED)


SIZE = {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}, "additionalProperties": False}
PARAMETERS = {
    kind: {"own": SIZE, "mine:own": SIZE, "free": {"type": "object", "properties": {}}} for kind in PARAMETERISED
}
PLACES = {  # kind -> path of a `{name, params}` in `document`
    "environment": ["schedule", 0, "one", "environments", 0, "environment"],
    "reward": ["schedule", 0, "one", "environments", 0, "reward"],
    "transformer": ["schedule", 0, "one", "environments", 0, "state_transformer"],
    "muscle": ["schedule", 0, "one", "agents", 0, "muscle"],
    "brain": ["schedule", 0, "one", "agents", 0, "brain"],
    "objective": ["schedule", 0, "one", "agents", 0, "objective"],
    "filter": ["schedule", 0, "one", "agents", 0, "filters", 0],
    "controller": ["schedule", 0, "one", "simulation"],
    "condition": ["run_config", "conditions", 0],
}


def document(kind: str, plugin: dict[str, Any]) -> dict[str, Any]:
    """Return a document in which one plugin has these keys."""
    own = {"name": "other", "params": {"size": "any"}}
    whole: dict[str, Any] = {
        "uid": "u",
        "seed": 1,
        "run_config": {"conditions": [own]},
        "schedule": [
            {
                "one": {
                    "environments": [{"environment": {"uid": "e", **own}, "reward": own, "state_transformer": own}],
                    "agents": [{"name": "a", "muscle": own, "brain": own, "objective": own, "filters": [own]}],
                    "simulation": own,
                }
            }
        ],
    }
    whole = json.loads(json.dumps(whole))
    *path, last = PLACES[kind]
    place: Any = whole
    for part in path:
        place = place[part]
    place[last] = {**({"uid": "e"} if kind == "environment" else {}), **plugin}
    return whole


@pytest.mark.parametrize("kind", PARAMETERISED)
def test_parameters_of_known_plugins(kind: str) -> None:
    """A plugin that is known takes its own parameters only, under each of its names and spellings; others take any."""
    plain, full = (Draft202012Validator(tree) for tree in (schema(), with_parameters(schema(), PARAMETERS)))

    for name in ("own", "mine:own"):
        for key in ("params", "parameters"):
            assert full.is_valid(document(kind, {"name": name, key: {"size": 4}}))
            for wrong in ({"sise": 4}, {"size": "four"}):
                assert not full.is_valid(document(kind, {"name": name, key: wrong}))
                assert plain.is_valid(document(kind, {"name": name, key: wrong}))
    for sound in ({"name": "free", "params": {"x": 1}}, {"name": "unknown", "params": {"x": 1}}, {"params": {"x": 1}}):
        assert full.is_valid(document(kind, sound)) == plain.is_valid(document(kind, sound))
    assert full.is_valid(document(kind, {"name": "unknown", "params": {"sise": 4}}))


def test_parameters_leave_the_schema_as_it_is() -> None:
    """Adding parameters makes another schema; the first one is unchanged, and both are schemas."""
    tree = schema()
    before = json.dumps(tree)

    Draft202012Validator.check_schema(with_parameters(tree, PARAMETERS))
    Draft202012Validator.check_schema(tree)
    assert before == json.dumps(tree)


EXAMPLES = [*(Path(__file__).parents[2] / "documents").rglob("*.yml"), Path(registry.load("document", "demo"))]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_fits(path: Path) -> None:
    """Each document that we ship or test with is accepted, as it is written."""
    Draft202012Validator(schema()).validate(yaml.safe_load(path.read_text()))
