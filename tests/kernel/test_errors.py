from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from ganglion import errors

ROOT = Path(__file__).parents[2]
CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == errors.__name__
}
LEAVES = sorted(name for name, value in CLASSES.items() if not value.__subclasses__())


def _drawn() -> dict[str, str | None]:
    """Return the tree of the docstring as child -> parent."""
    assert errors.__doc__ is not None
    block = re.search(r"```text\n(.*?)```", errors.__doc__, re.DOTALL)
    assert block is not None, "errors.py draws its tree in a block fenced as text"
    path: list[str] = []
    parents: dict[str, str | None] = {}
    for line in block[1].splitlines():
        bars, name = re.match(r"([│├└─\s]*)(\w+)", line).groups()
        path[len(bars) // 4 :] = [name]
        parents[name] = path[-2] if len(path) > 1 else None
    return parents


def _raised() -> set[str]:
    """Return the names of the leaves that kernel or plugins raise or make, outside errors.py, and others."""
    names: set[str] = set()
    for path in [*(ROOT / "kernel").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]:
        text = path.read_text()
        if path.name == "errors.py" or not any(name in text for name in LEAVES if name not in names):
            continue  # parsing takes its time
        for node in ast.walk(ast.parse(text)):
            made = node.func if isinstance(node, ast.Call) else node.exc if isinstance(node, ast.Raise) else None
            if isinstance(node, ast.Assign):  # `refusal = OutOfActionSpaceError`: raised by what inherits it
                made = node.value
            if isinstance(made, ast.Name):
                names.add(made.id)
            elif isinstance(made, ast.Attribute):
                names.add(made.attr)
    return names


def test_drawn_tree_equals_the_classes() -> None:
    """The tree in the docstring names every class below its parent, and nothing else."""
    classes = {
        name: next((base.__name__ for base in value.__bases__ if base.__name__ in CLASSES), None)
        for name, value in CLASSES.items()
    }

    assert classes == _drawn()


def test_every_error_is_raised_somewhere() -> None:
    """There is no class of errors that nothing raises."""
    raised = _raised()

    assert [] == [name for name in LEAVES if name not in raised]


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_error_has_an_exit_status_and_a_kind(name: str) -> None:
    """Every error ends a command with 1 (a run failed) or 2 (nothing was started) and has a word for the wire."""
    assert CLASSES[name].exit_status in {1, 2}
    assert re.fullmatch("[a-z_]+", CLASSES[name].kind)


def test_call_failed_tells_what_the_peer_said() -> None:
    """An ERROR of a peer keeps kind, message, place and traceback, and names peer and call."""
    error = errors.CallFailed(
        "run/env.0", "environment.update", {"kind": "author", "message": "boom", "where": "a.py:3"}
    )

    assert "run/env.0 answered environment.update with author: boom" == str(error)
    assert ("author", "a.py:3", None) == (error.remote_kind, error.where, error.remote_traceback)
    assert "peer answered x with failed: no reason given" == str(errors.CallFailed("peer", "x", {}))
