"""What `ganglion new` writes: files by path, made of the templates beside this module."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from ganglion.document.recipes import Recipe

__all__ = ["KINDS", "foreign_skeleton", "skeleton"]

# kind -> the parts that its distribution has: an entry point, a module and a test each
KINDS: dict[str, tuple[str, ...]] = {
    "environment": ("environment",),
    "muscle": ("muscle",),
    "brain": ("brain", "muscle"),
    "objective": ("objective",),
    "plugin": ("environment", "muscle", "brain", "objective"),
}
_SUMMARIES = {
    "environment": "An environment of Ganglion: a cart on a rail.",
    "muscle": "A muscle of Ganglion: a linear policy.",
    "brain": "A brain of Ganglion that searches weights at random, and its muscle.",
    "objective": "An objective of Ganglion: rewards less effort.",
    "plugin": "An environment, an objective, a brain and a muscle of Ganglion.",
}
_TEMPLATES = Path(__file__).parent / "skeletons"
_PENDULUM = ("pendulum", ("cos", "sin", "speed"), ("torque",))
_CART = (None, ("position", "speed"), ("force",))  # None: by the name of the skeleton itself
_TEST_PHASE = "  - test:\n      phase_config: {mode: test, episodes: 2}\n"


def skeleton(kind: str, name: str) -> dict[str, str]:
    """Return the files of a distribution of one kind, by their paths in its folder.

    Args:
        kind: A key of `KINDS`.
        name: Of the distribution and of its plugins: small letters, digits and hyphens.
    """
    package = name.replace("-", "_")
    parts = KINDS[kind]
    words = {
        "name": name,
        "kind": kind,
        "package": package,
        "Class": "".join(word.capitalize() for word in name.split("-")),
        "summary": _SUMMARIES[kind],
        "entry_points": "".join(_entry_point(part, name, package) for part in parts),
        **_run_words(parts, name),
    }
    files = {
        f"{package}/__init__.py": f'"""{_SUMMARIES[kind]}"""\n',
        f"{package}/py.typed": "",
        **{path: _fill(path, words) for path in ("pyproject.toml", "README.md", "run.yml")},
    }
    for part in parts:
        files[f"{package}/{part}.py"] = _fill(f"{part}.py", words)
        files[f"tests/test_{part}.py"] = _fill(f"test_{part}.py", words)
    return files


def _fill(path: str, words: Mapping[str, str]) -> str:
    text = (_TEMPLATES / f"{path}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(words).rstrip("\n") + "\n"


def _entry_point(part: str, name: str, package: str) -> str:
    cls = "".join(word.capitalize() for word in [*name.split("-"), part])
    return f'\n[project.entry-points."ganglion.{part}s"]\n{name} = "{package}.{part}:{cls}"\n'


def _run_words(parts: Sequence[str], name: str) -> dict[str, str]:
    """Return the words of a document in which all parts are used, beside what is installed anyway."""
    environment, sensors, actuators = _CART if "environment" in parts else _PENDULUM
    learns = "brain" in parts
    return {
        "first_phase": "train" if learns else "test",
        "episodes": "100" if learns else "3",
        "environment": environment or name,
        "muscle": name if "muscle" in parts else "random",
        "brain": f"          brain: {name}\n" if learns else "",
        "objective": name if "objective" in parts else "aggregate_rewards",
        "sensors": ", ".join(f"world.{uid}" for uid in sensors),
        "actuators": ", ".join(f"world.{uid}" for uid in actuators),
        "test_phase": _TEST_PHASE if learns else "",
    }


def foreign_skeleton(recipe: Recipe, name: str) -> dict[str, str]:
    """Return the files of an environment in another language: the reference pendulum, ready to be built and changed."""
    command = [part.replace("{folder}", "build").replace("{fetched}", "fetched") for part in recipe.run]
    command = ["python3" if part == "{python}" else part for part in command]
    files = {source.name: source.read_text(encoding="utf-8") for source in recipe.sources}
    files |= dict(recipe.files)
    words = {
        "name": name,
        "language": recipe.language,
        "packages": recipe.packages,
        "files": shlex.join(sorted(files)),
        "fetch": recipe.fetch or ":",
        "build": recipe.build or ":",
        "command": ", ".join(f'"{part}"' for part in command),
        "line": shlex.join(command),
        "variables": "".join(f"{key}={value} " for key, value in recipe.variables),
    }
    for path in ("README.md", "build.sh", "run.yml"):
        files[path] = _fill(f"foreign/{path}", words)
    return files
