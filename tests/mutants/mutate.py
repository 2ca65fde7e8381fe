"""Mutants: each changes one passage of the code in a copy of the checkout, and tests that are named must fail for it.

A file `<room>.toml` holds tables `[[mutant]]` with five keys: `name` (what is broken, one sentence), `file` (from the
root), `old` (a passage that the file holds once), `new` (what takes its place), `tests` (arguments of pytest).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEST_S = 300.0
"""The longest that the tests of one mutant may take; a mutant that hangs them is caught."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of the code, and the tests that notice it."""

    room: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def faults(self) -> list[str]:
        """Return why the mutant cannot be tried."""
        path = ROOT / self.file
        text = path.read_text() if path.is_file() else ""
        found = []
        if text.count(self.old) != 1:
            found.append(f"{self.file} holds `old` {text.count(self.old)} times, expected once")
        if self.old == self.new:
            found.append("`new` is `old`")
        missing = [test for test in self.tests if not (ROOT / test.partition("::")[0]).exists()]
        return found + [f"there is no {test}" for test in missing]


def mutants(rooms: list[str]) -> list[Mutant]:
    """Return the mutants of some rooms, or of all."""
    paths = sorted(Path(__file__).parent.glob("*.toml"))
    unknown = set(rooms) - {path.stem for path in paths}
    if unknown:
        known = ", ".join(path.stem for path in paths)
        raise SystemExit(f"no mutants of {', '.join(sorted(unknown))}; rooms with mutants: {known}")
    found = []
    for path in paths:
        if not rooms or path.stem in rooms:
            for row in tomllib.loads(path.read_text())["mutant"]:
                found.append(Mutant(path.stem, **{**row, "tests": tuple(row["tests"])}))
    return found


def caught(copy: Path, mutant: Mutant) -> str:
    """Return how the tests ended for a mutant: `caught`, `missed`, or what prevented a verdict."""
    path = copy / mutant.file
    text = path.read_text()
    path.write_text(text.replace(mutant.old, mutant.new))
    # A test that is named by itself may be one of the long part.
    which = ["-m", ""] if all("::" in test for test in mutant.tests) else []
    argv = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", *which, *mutant.tests]
    roots = [copy / "kernel", *sorted(path.parent for path in copy.glob("plugins/*/pyproject.toml"))]
    places = os.pathsep.join(str(root) for root in roots)
    environment = {**os.environ, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run(argv, cwd=copy, env=environment, capture_output=True, text=True, timeout=TEST_S)
    except subprocess.TimeoutExpired:
        return "caught"
    finally:
        path.write_text(text)
    if ended.returncode in (0, 1):
        return "missed" if ended.returncode == 0 else "caught"
    # A mutant that breaks an import ends the collection of tests: that is noticed, and says little.
    return f"pytest ended with {ended.returncode}: {ended.stdout.strip().splitlines()[-1:]}"


def main(rooms: list[str]) -> int:
    """Try the mutants, or with `--check` see that they can be tried; return 1 if one was missed or cannot be."""
    check = "--check" in rooms
    chosen = mutants([room for room in rooms if room != "--check"])
    faults = [f"{mutant.room}: {mutant.name}: {fault}" for mutant in chosen for fault in mutant.faults()]
    if faults:
        sys.stderr.write("\n".join(faults) + "\n")
        return 1
    if check:
        return 0
    failed = 0
    with tempfile.TemporaryDirectory(prefix="ganglion-mutants-") as folder:
        copy = Path(folder) / "checkout"
        skip = shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache")
        made = {"results", "build", "dist"}  # at the top; a room of the kernel may have such a name
        shutil.copytree(
            ROOT, copy, symlinks=True, ignore=lambda at, names: skip(at, names) | (made if Path(at) == ROOT else set())
        )
        for mutant in chosen:
            verdict = caught(copy, mutant)
            failed += verdict != "caught"
            sys.stdout.write(f"{verdict:<8} {mutant.room}: {mutant.name}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - failed} of {len(chosen)} caught\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
