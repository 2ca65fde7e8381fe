"""Programs of other languages: recipes (`plugins/foreign/recipes.yml`), and what is built of them, in a cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ganglion.document.fault import Fault, report
from ganglion.document.marks import Node, Source, compose
from ganglion.errors import DocumentError, LaunchError

RECIPES = "recipes.yml"


class Probe(BaseModel):
    """Hold a line of shell that succeeds where something is there, and the words for what is lacking where it fails."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    line: str = Field(alias="try")
    lacks: str


class Recipe(BaseModel):
    """Say how one program is built and run.

    `sources` are the files that its build begins with, `files` texts that are written beside them. `fetch` and `build`
    are lines of shell; `run` is a command. `{folder}` stands for the folder where it is built, `{fetched}` for the one
    that `fetch` filled, `{python}` for our own interpreter. CURVE (`auth`) is tested by us, as far as the program's
    library has it, or not there at all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    sources: tuple[Path, ...]
    language: str
    packages: str
    probe: tuple[Probe, ...]
    run: tuple[str, ...]
    auth: Literal["tested", "library", "token"]
    role: Literal["environment", "pipe", "bodies", "muscle", "actor"] = "environment"
    versions: str = ""
    fetch: str = ""
    build: str = ""
    files: dict[str, str] = {}
    variables: dict[str, str] = {}
    note: str = ""

    @property
    def curve(self) -> bool:
        """Say whether it can be asked to speak CURVE."""
        return self.auth != "token"

    def key(self) -> str:
        """Return what changes whenever its build may come out otherwise: 16 hexadecimal digits."""
        return _digest(self.fetch, self.build, self.files, *(p.name + p.read_text() for p in self.sources))

    def fetch_key(self) -> str:
        """Return what changes whenever something else is to be fetched."""
        return _digest(self.fetch, self.files)


def _digest(*parts: str | dict[str, str]) -> str:
    texts = [part if isinstance(part, str) else repr(tuple(part.items())) for part in parts]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def foreign_folder() -> Path:
    """Return the folder of the programs: that of the wheel, else that of the checkout."""
    package = Path(__file__).parent
    packed = package / "foreign"
    return packed if packed.is_dir() else package.parents[1] / "foreign"


def read_recipes(folder: Path | None = None) -> dict[str, Recipe]:
    """Return all recipes of a folder by name, in their order; DocumentError has every fault of the file."""
    folder = foreign_folder() if folder is None else folder
    path = folder / RECIPES
    text = path.read_text()
    root, faults = compose(Source(str(path), text), text)
    recipes: dict[str, Recipe] = {}
    for name, node in () if root is None else root.map.items():
        recipe, wrong = _recipe(name, node, folder)
        faults += wrong
        if recipe is not None:
            recipes[name] = recipe
    if faults:
        raise DocumentError(report(faults), faults)
    return recipes


def _recipe(name: str, node: Node, folder: Path) -> tuple[Recipe | None, list[Fault]]:
    tree = node.plain()
    if not isinstance(tree, dict):
        return None, [node.fault(f"expected a recipe, a map, found {node.found()}")]
    place = folder / str(tree.pop("folder", name))
    own, uses = tree.pop("own", ()), tree.pop("uses", ())
    sources = [place / str(file) for file in own] or sorted(path for path in place.glob("*") if path.is_file())
    sources += [place / str(file) for file in uses]
    missing = [node.fault(f"{name}: expected the file {file}, found none") for file in sources if not file.is_file()]
    try:
        return Recipe.model_validate({**tree, "name": name, "sources": sources}), missing
    except ValidationError as error:
        return None, [_fault(node, detail["loc"], detail["msg"]) for detail in error.errors()]


def _fault(node: Node, location: Sequence[str | int], text: str) -> Fault:
    """Return what is wrong at a location of a recipe, at the nearest place that there is."""
    place = node
    for part in location:
        inner = place.map.get(str(part)) if isinstance(part, str) else place.items[part]
        if inner is None:
            break
        place = inner
    done: Fault = place.fault(f"{'.'.join(map(str, location))}: {text}")
    return done


def _command(recipe: Recipe) -> str:
    first, *rest = recipe.run
    words = [first.replace("{folder}/", "./").replace("{python}", "python"), *rest]
    return " ".join(words).replace("{folder}/", "").replace("{folder}", ".")


_ROLES = {"muscle": " (a muscle)", "bodies": " (several bodies)", "pipe": " (the pipe)"}
_ROLES |= {"actor": " (a muscle, several bodies)"}
_CURVE = {"tested": "tested", "library": "by its library", "token": "no: token on this machine only"}


def recipe_table(recipes: dict[str, Recipe]) -> str:
    """Return the table of all recipes as Markdown."""
    rows = [
        (
            recipe.language + _ROLES.get(recipe.role, ""),
            f"`{recipe.sources[0].parent.name}/`",
            f"`{recipe.packages}`" + (f" ({recipe.versions})" if recipe.versions else ""),
            f"`{'; '.join(recipe.build.strip().splitlines())}`" if recipe.build else "-",
            f"`{_command(recipe)}`",
            _CURVE[recipe.auth],
        )
        for recipe in recipes.values()
    ]
    return markdown(("language", "folder", "needs (Debian 12)", "build", "run", "CURVE"), rows)


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as Markdown."""
    lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
    lines += [" | ".join(str(cell).replace("|", "\\|") for cell in row) for row in rows]
    return "".join(f"| {line} |\n" for line in lines)


_PROBE_S, _BUILD_S = 30.0, 300.0
_SHELL = ("/bin/sh", "-e", "-u", "-c")
_FETCHED = "GANGLION_FETCHED"
_WORDS = 2000  # characters of what a build says that are told


@dataclass(frozen=True, slots=True)
class Program:
    """Say how a program is started: its command, and variables beside those of its place."""

    argv: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)


def lacking(recipe: Recipe) -> str | None:
    """Return what this machine lacks for a recipe, as `Octave: no package zeromq`; None if all is there."""
    for probe in recipe.probe:
        try:
            done = _shell(probe.line, None, {}, _PROBE_S)
        except subprocess.TimeoutExpired:
            return f"{recipe.language}: `{probe.line}` takes more than {_PROBE_S:g} s"
        if done.returncode:
            return f"{recipe.language}: no {probe.lacks}"
    return None


def build(recipe: Recipe, cache: Path) -> Program | str:
    """Return the program that a recipe makes, from the cache if it was made before; text says what cannot be fetched.

    Raises:
        LaunchError: it cannot be built; its compiler's words are in the message.
    """
    fetched = cache
    if recipe.fetch:
        found = _cached(cache / f"{recipe.name}.{recipe.fetch_key()}", lambda folder: _fetch(recipe, folder))
        if isinstance(found, str):
            return f"{recipe.language}: {found}"
        fetched = found
    folder = _cached(cache / f"{recipe.name}-{recipe.key()}", lambda folder: _make(recipe, folder, fetched))
    assert isinstance(folder, Path), folder
    words = {"{folder}": str(folder), "{fetched}": str(fetched), "{python}": sys.executable}
    variables = {name: _filled(value, words) for name, value in recipe.variables.items()}
    return Program([_filled(word, words) for word in recipe.run], variables)


def _filled(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _cached(folder: Path, make: Callable[[Path], str | None]) -> Path | str:
    """Return the folder that `make` has filled, now or earlier, or why it could not; none is seen half-made."""
    if folder.exists():
        return folder
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    fresh.mkdir(parents=True)
    try:
        wrong = make(fresh)
        if wrong is not None:
            return wrong
        try:
            fresh.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was quicker
                raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _fetch(recipe: Recipe, folder: Path) -> str | None:
    _write(recipe, folder)
    try:
        done = _shell(recipe.fetch, folder, {}, _BUILD_S)
    except subprocess.TimeoutExpired:
        return f"`{recipe.fetch.strip()}` takes more than {_BUILD_S:g} s"
    if done.returncode == 0:
        return None
    return f"`{recipe.fetch.strip()}` failed: {done.stdout.strip()[-_WORDS:]}"


def _make(recipe: Recipe, folder: Path, fetched: Path) -> None:
    for source in recipe.sources:
        shutil.copy(source, folder / source.name)
    _write(recipe, folder)
    if not recipe.build:
        return
    try:
        done = _shell(recipe.build, folder, {_FETCHED: str(fetched)}, _BUILD_S)
    except subprocess.TimeoutExpired as error:
        raise LaunchError(f"{recipe.language}: the build takes more than {_BUILD_S:g} s") from error
    if done.returncode:
        words = done.stdout.strip()[-_WORDS:]
        raise LaunchError(f"{recipe.language}: `{recipe.build.strip()}` failed:\n{words}")


def _write(recipe: Recipe, folder: Path) -> None:
    for name, text in recipe.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _shell(
    line: str, folder: Path | None, variables: Mapping[str, str], span_s: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_SHELL, line],
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="backslashreplace",
        timeout=span_s,
        check=False,
    )
