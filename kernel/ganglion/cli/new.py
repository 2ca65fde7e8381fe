"""`ganglion new`: write the skeleton of a plugin, or of an environment in another language."""

from __future__ import annotations

import importlib.util
import json
import keyword
import re
import shlex
import sys
from pathlib import Path

import click

from ganglion import registry
from ganglion.cli.settings import Settings
from ganglion.cli.skeleton import KINDS, foreign_skeleton, skeleton
from ganglion.document.fault import nearest
from ganglion.document.recipes import read_recipes
from ganglion.errors import UsageError

__all__ = ["command"]

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
_PYTHON = "python"
_TESTS = "tests"


@click.command("new")
@click.argument("kind", metavar="environment|muscle|brain|objective|plugin")
@click.argument("name")
@click.option(
    "--lang", metavar="LANGUAGE", help="an environment in another language: c, rust, javascript, ..."
)
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    help="the folder to make; default: the name, in the current folder",
)
@click.pass_obj
def command(settings: Settings, kind: str, name: str, lang: str | None, into: Path | None) -> None:
    """Write a distribution that works: installed by pip, documents find it by NAME. Nothing is overwritten."""
    if kind not in KINDS:
        raise UsageError(f"expected one of {', '.join(KINDS)}, found {kind!r}{nearest(kind, list(KINDS))}")
    if _NAME.match(name) is None:
        raise UsageError(
            f"name: expected small letters, digits and single hyphens, as in `my-tank`, found {name!r}"
        )
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
                raise UsageError(
                    f"name: there is a {part} `{name}` of {entry.origin} already; choose another name"
                )
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
