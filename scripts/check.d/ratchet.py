"""Ratchet: lines, files and public names of each room may fall and may not rise; `--write` keeps what has fallen.

A rise needs a decision in kernel/decisions/ and a line changed by hand in ratchet.toml.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).with_name("ratchet.toml")


def rooms() -> dict[str, list[Path]]:
    """Return the Python files of each room of the kernel, and of the tests."""
    kernel = ROOT / "kernel" / "ganglion"
    found = {"modules of the top": sorted(kernel.glob("*.py"))}
    for folder in sorted(kernel.iterdir()):
        if (folder / "__init__.py").is_file():
            found[folder.name] = sorted(folder.rglob("*.py"))
    return {**found, "kernel": sorted(kernel.rglob("*.py")), "tests": sorted((ROOT / "tests").rglob("*.py"))}


def measured(name: str, paths: list[Path]) -> dict[str, int]:
    """Return lines, files, and public names (functions and classes of modules); of the tests the lines alone."""
    texts = [path.read_text() for path in paths]
    found = {"lines": sum(text.count("\n") for text in texts)}
    if name != "tests":
        nodes = [node for text in texts for node in ast.parse(text).body]
        named = [it for it in nodes if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
        found |= {"files": len(paths), "names": sum(not it.name.startswith("_") for it in named)}
    return found


def main(words: list[str]) -> int:
    """Compare with what is kept; return 1 if a room has grown or is not known."""
    found = {name: measured(name, paths) for name, paths in rooms().items()}
    if words == ["--write"]:
        head = "# Written by `scripts/fix`, which only lets numbers fall; a rise is written by hand, with a decision.\n"
        old = tomllib.loads(KEPT.read_text()) if KEPT.is_file() else {}
        rows = []
        for name, now in found.items():
            kept = {key: min(now[key], old.get(name, now)[key]) for key in now}
            rows.append(f'"{name}" = {{ {", ".join(f"{key} = {count}" for key, count in kept.items())} }}\n')
        KEPT.write_text(head + "".join(rows))
        return 0
    kept = tomllib.loads(KEPT.read_text())
    faults = [f"{name} is a new room" for name in found.keys() - kept.keys()]
    for name, now in found.items():
        for key in now if name in kept else ():
            if now[key] > kept[name][key]:
                faults.append(f"{name} has {now[key]} {key}, at most {kept[name][key]}")
    for fault in sorted(faults):
        sys.stderr.write(f"{fault}: see scripts/check.d/ratchet.toml\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
