"""`ganglion new`: writes the skeleton of a plugin, or of an environment in another language."""

from __future__ import annotations

import importlib.util
import json
import keyword
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

import click

from ganglion import registry
from ganglion.cli.settings import Settings
from ganglion.errors import UsageError
from ganglion.sdk.naming import nearest
from ganglion_conformance.recipes import Recipe, read_recipes

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
    files |= recipe.files
    words = {
        "name": name,
        "language": recipe.language,
        "packages": recipe.packages,
        "files": shlex.join(sorted(files)),
        "fetch": recipe.fetch or ":",
        "build": recipe.build or ":",
        "command": ", ".join(f'"{part}"' for part in command),
        "line": shlex.join(command),
        "variables": "".join(f"{key}={value} " for key, value in recipe.variables.items()),
    }
    for path in ("README.md", "build.sh", "run.yml"):
        files[path] = _fill(f"foreign/{path}", words)
    return files


_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
_PYTHON = "python"
_TESTS = "tests"


@click.command("new")
@click.argument("kind", metavar="environment|muscle|brain|objective|plugin")
@click.argument("name")
@click.option("--lang", metavar="LANGUAGE", help="an environment in another language: c, rust, javascript and others")
@click.option(
    "--into", type=click.Path(path_type=Path), help="the folder to make; default: the name, in the current folder"
)
@click.pass_obj
def command(settings: Settings, kind: str, name: str, lang: str | None, into: Path | None) -> None:
    """Write a distribution that works: installed by pip, documents find it by NAME. Nothing is overwritten."""
    if kind not in KINDS:
        raise UsageError(f"expected one of {', '.join(KINDS)}, found {kind!r}{nearest(kind, list(KINDS))}")
    if _NAME.match(name) is None:
        raise UsageError(f"name: expected small letters, digits and single hyphens, as in `my-tank`, found {name!r}")
    files = _python(kind, name) if lang in (None, _PYTHON) else _foreign(kind, name, str(lang))
    folder = Path(name) if into is None else into
    _write(folder, files)
    if settings.json:
        click.echo(json.dumps({"folder": str(folder), "files": sorted(files)}, indent=2))
        return
    for path in sorted(files):
        click.echo(f"  {folder / path}")
    own, build, document = (shlex.quote(str(folder / part)) for part in ("", "build.sh", "run.yml"))
    step = f"pip install -e {own}" if "pyproject.toml" in files else f"sh {build}"
    click.echo(f"next: {step} · ganglion run {document} · {folder / 'README.md'}")


def _python(kind: str, name: str) -> dict[str, str]:
    """Return the files of a distribution, unless its name is one that something else has."""
    package = name.replace("-", "_")
    if package == _TESTS:
        raise UsageError(f"name: `{name}` is the folder of the distribution's tests; choose another name")
    taken = package in sys.stdlib_module_names or keyword.iskeyword(package)
    if taken or importlib.util.find_spec(package) is not None:
        raise UsageError(f"name: there is a Python package `{package}` already; choose another name")
    for part in KINDS[kind]:
        for entry in registry.entries(part):
            if entry.name == name:
                raise UsageError(f"name: there is a {part} `{name}` of {entry.origin} already; choose another name")
    return skeleton(kind, name)


def _foreign(kind: str, name: str, language: str) -> dict[str, str]:
    """Return the files of an environment in another language."""
    recipes = {key: recipe for key, recipe in read_recipes().items() if recipe.role == "environment"}
    if kind != "environment":
        raise UsageError(f"--lang: there are skeletons of environments only, found {kind!r}")
    if language not in recipes:
        raise UsageError(
            f"--lang: expected one of {', '.join(recipes)}, found {language!r}{nearest(language, list(recipes))}"
        )
    return foreign_skeleton(recipes[language], name)


def _write(folder: Path, files: dict[str, str]) -> None:
    """Write all files into a folder that is not there or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there already; nothing was written")
    for path, text in files.items():
        place = folder / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
            if text.startswith("#!"):
                place.chmod(0o755)
        except OSError as error:
            raise UsageError(f"{place}: cannot be written: {error.strerror}") from error
