"""The parameters of installed plugins as JSON Schemas, read off their constructors in a child process."""

from __future__ import annotations

import inspect
import json
import os
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from ganglion import registry
from ganglion.cli.child import Children
from ganglion.errors import LaunchError, PluginInvalid

_MODULE = "ganglion.cli.parameters"  # `__name__` is another one in the child
_DEADLINE_S = 120.0  # importing torch from a cold disk takes tens of seconds
_SIMPLE = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_LISTS = (list, tuple, set, frozenset, Sequence)
_MAPS = (dict, Mapping)


def parameters(groups: Sequence[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return group -> name -> JSON Schema of the map of parameters; a plugin that cannot be imported is left out.

    A name is also there as `distribution:name`. Authors' modules are imported by a child process.

    Raises:
        LaunchError: the child process gave no answer.
    """
    rows = [[e.group, e.distribution, e.name] for group in groups for e in registry.entries(group)]
    answer = Children().ask(_MODULE, rows, _DEADLINE_S)
    if answer.status != 0:
        how = "took too long" if answer.status is None else f"ended with exit status {answer.status}"
        raise LaunchError(f"the process that imports plugins {how}")
    found: dict[str, dict[str, dict[str, Any]]] = {group: {} for group in groups}
    for group, distribution, name, form in json.loads(answer.text):
        found[group].setdefault(name, form)
        found[group][f"{distribution}:{name}"] = form
    return found


def form_of(cls: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of the parameters that a class takes."""
    from ganglion.sdk.part import parameters_of

    taken, is_open = parameters_of(cls)
    try:
        hints = typing.get_type_hints(cls.__init__)
    except (AttributeError, NameError, SyntaxError, TypeError, ValueError):  # names for type checkers only
        hints = {}
    properties = {}
    for name, parameter in taken.items():
        form = schema_of(hints.get(name, Any))
        if _is_plain(parameter.default):
            form["default"] = parameter.default
        properties[name] = form
    found: dict[str, Any] = {"type": "object", "properties": properties}
    about = (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ")
    if about:
        found["description"] = about
    return found if is_open else {**found, "additionalProperties": False}


def schema_of(hint: Any) -> dict[str, Any]:
    """Return what a type accepts; of what is neither plain nor made of plain types nothing is said."""
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    origin, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(parts)} if all(_is_plain(part) for part in parts) else {}
    if origin in (typing.Union, types.UnionType):
        choices = [schema_of(part) for part in parts]
        return {"anyOf": choices} if all(choices) else {}
    if origin in _LISTS:
        item = schema_of(parts[0]) if parts and (origin is not tuple or parts[1:] == (...,)) else {}
        return {"type": "array", "items": item} if item else {"type": "array"}
    if origin in _MAPS:
        value = schema_of(parts[1]) if len(parts) == 2 else {}
        return {"type": "object", "additionalProperties": value} if value else {"type": "object"}
    return {}


def _is_plain(value: object) -> bool:
    """Say whether a value can stand in a document as it is."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError):
        return False


def _child() -> None:
    """Answer with a row for each plugin; what plugins print while they are imported goes to stderr."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    found = []
    for group, distribution, name in json.load(sys.stdin):
        try:
            form = form_of(registry.load(group, f"{distribution}:{name}"))
        except PluginInvalid as error:
            sys.stderr.write(f"{error}\n")
        else:
            found.append([group, distribution, name, form])
    with answer:
        json.dump(found, answer)


if __name__ == "__main__":
    _child()
