from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

import ganglion

KERNEL = Path(__file__).parents[2] / "kernel" / "ganglion"


def _assigned(tree: ast.Module) -> list[str] | None:
    """Return the names in `__all__` of a module, or None if it has none that can be read."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return [str(name) for name in ast.literal_eval(node.value)]
    return None


def _dotted(path: Path) -> str:
    """Return the dotted name of a module."""
    return ".".join(path.relative_to(KERNEL.parent).with_suffix("").parts).removesuffix(".__init__")


EXPORTS = {
    _dotted(path): path
    for path in sorted(KERNEL.rglob("*.py"))
    if re.search(r"^__all__ = \[", path.read_text(), re.MULTILINE)
}


@cache
def _exported(module: str) -> tuple[list[str], ast.Module]:
    """Return the names in `__all__` of a module, and its syntax; only who carries a test out parses it."""
    tree = ast.parse(EXPORTS[module].read_text())
    names = _assigned(tree)
    assert names is not None
    return names, tree


@pytest.mark.parametrize("module", EXPORTS)
def test_exported_names_are_there(module: str) -> None:
    """Every name in `__all__` can be had from its module, also where it is loaded late."""
    names, _ = _exported(module)
    loaded = importlib.import_module(module)

    assert [] == [name for name in names if not hasattr(loaded, name)]


@pytest.mark.parametrize("module", EXPORTS)
def test_public_definitions_are_exported(module: str) -> None:
    """What a module defines without a leading underscore is in its `__all__`, where it has one."""
    names, tree = _exported(module)
    kinds = (ast.AsyncFunctionDef, ast.ClassDef, ast.FunctionDef)
    defined = {node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")}

    assert set() == defined - set(names)


@pytest.mark.parametrize("package", ["sdk", "testing"])
def test_authors_get_what_a_type_checker_sees(package: str) -> None:
    """Type checkers look into the modules from which names are loaded late, and each name is there, as the same."""
    loaded = importlib.import_module(f"ganglion.{package}")
    tree = ast.parse((KERNEL / package / "__init__.py").read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = [str(it.module) for it in block.body if isinstance(it, ast.ImportFrom)]

    assert sorted(seen) == sorted(set(loaded._HOME.values()))
    for name, module in loaded._HOME.items():
        assert getattr(importlib.import_module(module), name) is getattr(loaded, name)


def test_what_programs_use_is_there_by_name() -> None:
    """The six names are attributes of the package, others are not; the room `run` is a room and can be called."""
    assert {"run", "check", "results", "connect", "arun", "aconnect"} <= set(dir(ganglion))
    assert importlib.import_module("ganglion.run") is ganglion.run
    assert callable(ganglion.run)
    with pytest.raises(AttributeError, match="has no attribute 'runn'"):
        _ = ganglion.runn
