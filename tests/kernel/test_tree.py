"""The tree of modules in kernel/README.md; as a program it prints the tree, with `--write` it writes it there."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "kernel" / "ganglion"
README = ROOT / "kernel" / "README.md"
BEGIN, END = "<!-- tree: written by scripts/fix -->\n```text\n", "```\n<!-- end of tree -->"


def _first_line(path: Path) -> str:
    """Return the first line of a module's docstring, without its full stop."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring, f"{path.relative_to(ROOT)} has no docstring"
    return docstring.splitlines()[0].removesuffix(".")


def _places() -> list[str]:
    """Return rooms and top modules from the lowest to the highest, as the layer contract has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [name.strip() for layer in reversed(layers) for name in layer.split("|")]


def _rows(folder: Path, depth: int) -> list[tuple[str, str]]:
    """Return (indented name, description) of a package and of everything below it."""
    rows = [("  " * depth + folder.name + "/", _first_line(folder / "__init__.py"))]
    for path in sorted(folder.iterdir()):
        if (path / "__init__.py").is_file():
            rows += _rows(path, depth + 1)
        elif path.suffix == ".py" and path.name != "__init__.py":
            rows.append(("  " * (depth + 1) + path.name, _first_line(path)))
    return rows


def tree() -> str:
    """Return the tree of the kernel: one line per module, lowest room first."""
    rows = [("ganglion/", _first_line(KERNEL / "__init__.py"))]
    for name in _places():
        if (KERNEL / name).is_dir():
            rows += _rows(KERNEL / name, 1)
        else:
            rows.append((f"  {name}.py", _first_line(KERNEL / f"{name}.py")))
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {line}\n" for name, line in rows)


def _drawn() -> str:
    """Return the tree that kernel/README.md shows."""
    assert README.is_file(), "there is no kernel/README.md to show the tree of modules"
    text = README.read_text()
    assert BEGIN in text, f"{README.relative_to(ROOT)} marks no tree with {BEGIN!r}"
    return text.partition(BEGIN)[2].partition(END)[0]


def test_readme_shows_the_tree() -> None:
    """The tree in kernel/README.md is the first line of every module's docstring; scripts/fix writes it."""
    assert tree() == _drawn()


def test_room_opens_with_its_reason() -> None:
    """The docstring of each room opens with its reason to exist, in capitals."""
    rooms = {path.parent.name: _first_line(path) for path in KERNEL.glob("*/__init__.py")}

    assert {} == {room: line for room, line in rooms.items() if not line.split(":")[0].isupper()}


def _write() -> None:
    """Replace the tree in kernel/README.md."""
    old = _drawn()
    README.write_text(README.read_text().replace(BEGIN + old, BEGIN + tree()))


if __name__ == "__main__":
    _write() if sys.argv[1:] == ["--write"] else sys.stdout.write(tree())
