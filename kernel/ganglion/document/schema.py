"""The JSON Schema (2020-12) of run documents, made from the model, with all accepted spellings."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from ganglion.document.model import Agent, Document, Entry, Form, PhaseConfig, RunConfig, Simulation, forms_within
from ganglion.document.spelling import MODES

_EXAMPLES = {  # definition and key -> kinds of plugins whose installed names are examples of the key
    ("Environment", "name"): ("environment",),
    ("Simulation", "name"): ("controller",),
    ("Muscle", "name"): ("muscle",),
    ("Plugin", "name"): ("brain", "objective", "condition", "reward", "transformer", "filter"),
}
_USES: dict[tuple[str, str], str] = {}  # definition and key -> kind of the plugin that the key names
for _form in (Entry, Agent, RunConfig, PhaseConfig, Simulation):
    _kinds = {key: kind for key, kind in _form.kinds.items() if kind != "environment"}
    _kinds |= {other: _kinds[key] for other, key in _form.spellings.items() if key in _kinds}
    _USES |= {(_form.__name__, key): kind for key, kind in _kinds.items()}
PARAMETERISED = ("environment", "controller", *dict.fromkeys(_USES.values()))
"""Kinds of plugins whose parameters a document has."""


def schema(installed: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
    """Return the JSON Schema of run documents.

    `installed` maps kinds of plugins to short names; these become examples, since other names may be installed later.
    """
    tree = Document.model_json_schema()
    document = {key: value for key, value in tree.items() if key != "$defs"}
    definitions: dict[str, Any] = {**tree["$defs"], "Document": document}
    for form in _forms(Document):
        _spellings(definitions[form.__name__], form.spellings)
    for (owner, key), kinds in _EXAMPLES.items():
        names = [short for kind in kinds for short in (installed or {}).get(kind, ())]
        if names:
            definitions[owner]["properties"][key]["examples"] = list(dict.fromkeys(names))
    _shorthands(definitions)
    whole = definitions.pop("Document")
    whole["patternProperties"] = {"^x-": {"description": "ignored: a place for anchors"}}
    header = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Ganglion run document"}
    return {**header, **cleaned(whole), "$defs": cleaned(definitions)}


def _forms(form: type[Form]) -> dict[type[Form], None]:
    """Return a form and all forms within it, each once."""
    inner = {one: None for below in forms_within(form).values() for one in _forms(below)}
    return {form: None, **inner}


def _spellings(definition: dict[str, Any], spellings: Mapping[str, str]) -> None:
    """Add the other names of keys; either name satisfies a required key."""
    properties = definition["properties"]
    required: list[str] = definition.get("required", [])
    for other, key in spellings.items():
        properties[other] = {**properties[key], "description": f"accepted for `{key}`"}
        if other == "condition":
            one = {"$ref": "#/$defs/Plugin"}
            several = {"type": "array", "items": one}
            properties[other] = {"anyOf": [one, several], "description": "accepted for `conditions`; one will do"}
        if key in required:
            required.remove(key)
            definition.setdefault("anyOf", []).extend([{"required": [key]}, {"required": [other]}])
    if not required:
        definition.pop("required", None)


def _shorthands(definitions: dict[str, Any]) -> None:
    """Accept text as a plugin's name, `false` as no model, a map as the schedule, and modes in any case."""
    for name in ("Plugin", "Muscle", "Simulation"):
        full = definitions.pop(name)
        text = {"type": "string", "minLength": 1, "description": "short for `{name: ...}`"}
        definitions[name] = {"anyOf": [text, full]}
    agent = definitions["Agent"]["properties"]
    agent["load"]["anyOf"].append({"const": False})
    schedule = definitions["Document"]["properties"]["schedule"]
    phases = schedule.pop("items")
    lists = {"type": "array", "minItems": 1, "items": {**phases, "minProperties": 1, "maxProperties": 1}}
    schedule.pop("type")
    schedule["anyOf"] = [lists, phases]
    mode = definitions["PhaseConfig"]["properties"]["mode"]
    words = sorted(MODES)
    pattern = "^(" + "|".join("".join(f"[{c}{c.upper()}]" for c in word) for word in words) + ")$"
    mode.pop("enum")
    names = list(dict.fromkeys(MODES.values()))
    told = f"expected one of {', '.join(names)}"  # a keyword of editors, which else show the pattern
    mode |= {"type": "string", "pattern": pattern, "patternErrorMessage": told, "examples": names}


def with_parameters(
    tree: Mapping[str, Any], parameters: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> dict[str, Any]:
    """Return a schema with the definitions of run documents, in which known plugins take their own parameters.

    `parameters` maps kinds of plugins (`PARAMETERISED`) to names to the JSON Schema of `params`.
    """
    found: dict[str, Any] = copy.deepcopy(dict(tree))
    definitions = found["$defs"]
    for (owner, key), kind in _USES.items():
        properties = _properties(definitions[owner])
        properties[key] = _renamed(properties[key], f"#/$defs/{kind.capitalize()}Plugin")
    for kind in dict.fromkeys(_USES.values()):
        cases = _cases(parameters.get(kind, {}))
        form = "Muscle" if kind == "muscle" else "Plugin"
        definitions[f"{kind.capitalize()}Plugin"] = {"allOf": [{"$ref": f"#/$defs/{form}"}, *cases]}
    for owner, kind in (("Environment", "environment"), ("Simulation", "controller")):
        definitions[owner]["allOf"] = _cases(parameters.get(kind, {}))
    return found


def _properties(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a map, or of the one form of a definition that is a map."""
    forms = [definition, *definition.get("anyOf", ())]
    found: dict[str, Any] = next(form["properties"] for form in forms if "properties" in form)
    return found


def _renamed(tree: Any, reference: str) -> Any:
    """Return a schema with references to any plugin replaced by references to one kind."""
    if isinstance(tree, list):
        return [_renamed(part, reference) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("$ref") in ("#/$defs/Plugin", "#/$defs/Muscle"):
        return {**tree, "$ref": reference}
    return {key: _renamed(part, reference) for key, part in tree.items()}


def _cases(forms: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the conditions on parameters by name; the parameters of one plugin are written once."""
    found: list[dict[str, Any]] = []
    if forms:
        short = [name for name in forms if ":" not in name]
        found.append({"if": {"type": "object"}, "then": {"properties": {"name": {"examples": short}}}})
    for name, form in forms.items():
        same = [other for other in forms if forms[other] == form]
        if same[0] == name:
            named = {"type": "object", "required": ["name"], "properties": {"name": {"enum": same}}}
            own = {"params": form, "parameters": form, "per_worker": {"items": form}}
            found.append({"if": named, "then": {"properties": own}})
    return found


def cleaned(tree: Any) -> Any:
    """Return a schema without titles, and without the default null of keys that may not be null."""
    if isinstance(tree, list):
        return [cleaned(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    found = {key: cleaned(part) for key, part in tree.items() if key != "title" or not isinstance(part, str)}
    if "default" in found and found["default"] is None and not _takes_null(found):
        del found["default"]
    return found


def _takes_null(field: Mapping[str, Any]) -> bool:
    choices = [field, *field.get("anyOf", ())]
    free = not {"type", "anyOf", "$ref", "enum", "const"} & set(field)
    return free or any("null" in (choice.get("type") or ()) for choice in choices)
