"""Manuals: what the class of a plugin says of itself and of its parameters, read from its source and not imported."""

from __future__ import annotations

import ast
import importlib.util
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from ganglion.registry import Entry

__all__ = ["manual"]


def manual(entry: Entry) -> str | None:
    """Return the docstring of a plugin's class or function; None where its source cannot be found, or says nothing."""
    module, _, name = entry.value.partition(":")
    spec = _spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    try:
        tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    parts = (node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return next((ast.get_docstring(node) for node in parts if node.name == name), None)


def _spec(module: str) -> ModuleSpec | None:
    """Return where a module lies; none of its packages is imported."""
    top, *parts = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    path = top
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            return None
        path = f"{path}.{part}"
        spec = PathFinder.find_spec(path, list(spec.submodule_search_locations))
    return spec
