"""Programs of other languages: recipes (`plugins/foreign/recipes.yml`), and what is built of them, in a cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ganglion.document.fault import Fault, report
from ganglion.document.marks import Node, Source, compose
from ganglion.errors import DocumentError, LaunchError

__all__ = [
    "RECIPES",
    "Probe",
    "Program",
    "Recipe",
    "build",
    "foreign_folder",
    "lacking",
    "read_recipes",
    "recipe_table",
]

RECIPES = "recipes.yml"
_TEXTS = ("language", "packages", "versions", "folder", "role", "fetch", "build", "auth", "note")
_LISTS = ("run", "own", "uses")
_MAPS = ("files", "variables")
_NEEDED = ("language", "packages", "probe", "run", "auth")
_AUTHS = ("tested", "library", "token")  # CURVE: by our tests, as far as the library has it, not at all
_ROLES = ("environment", "muscle")


@dataclass(frozen=True, slots=True)
class Probe:
    """Hold a line of shell that succeeds where something is there, and the words for what is lacking where it fails."""

    line: str
    lacks: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """Say how one program is built and run.

    `sources` are the files that its build begins with, `files` texts that are written beside them. `fetch` and `build`
    are lines of shell; `run` is a command. `{folder}` stands for the folder where it is built, `{fetched}` for the one
    that `fetch` filled, `{python}` for our own interpreter.
    """

    name: str
    language: str
    packages: str
    probes: tuple[Probe, ...]
    run: tuple[str, ...]
    auth: str
    sources: tuple[Path, ...]
    role: str = "environment"
    versions: str = ""
    fetch: str = ""
    build: str = ""
    files: tuple[tuple[str, str], ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    note: str = ""

    @property
    def curve(self) -> bool:
        """Say whether it can be asked to speak CURVE."""
        return self.auth != "token"

    def key(self) -> str:
        """Return what changes whenever its build may come out otherwise: 16 hexadecimal digits."""
        parts = [self.fetch, self.build, repr(self.files), *(p.name + p.read_text() for p in self.sources)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def fetch_key(self) -> str:
        """Return what changes whenever something else is to be fetched."""
        return hashlib.sha256("\0".join([self.fetch, repr(self.files)]).encode()).hexdigest()[:16]


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
        wrong = list(_faults(node))
        faults += wrong
        if not wrong:
            recipes[name] = _recipe(name, node, folder)
            missing = [source for source in recipes[name].sources if not source.is_file()]
            faults += [node.fault(f"{name}: expected the file {source}, found none") for source in missing]
    if faults:
        raise DocumentError(report(faults), faults)
    return recipes


def _recipe(name: str, node: Node, folder: Path) -> Recipe:
    tree: dict[str, Any] = node.plain()
    place = folder / tree.get("folder", name)
    own = [place / used for used in tree.get("own", ())]
    own = own or sorted(path for path in place.glob("*") if path.is_file())
    return Recipe(
        name,
        tree["language"],
        tree["packages"],
        tuple(Probe(probe["try"], probe["lacks"]) for probe in tree["probe"]),
        tuple(tree["run"]),
        tree["auth"],
        (*own, *(place / used for used in tree.get("uses", ()))),
        tree.get("role", "environment"),
        tree.get("versions", ""),
        tree.get("fetch", ""),
        tree.get("build", ""),
        tuple(tree.get("files", {}).items()),
        tuple(tree.get("variables", {}).items()),
        tree.get("note", ""),
    )


def _faults(node: Node) -> list[Fault]:
    if not isinstance(node.value, dict):
        return [node.fault(f"expected a recipe, a map, found {node.found()}")]
    faults = [node.fault(f"expected the key {key}, found none") for key in _NEEDED if key not in node.map]
    for key, value in node.map.items():
        if key in _TEXTS:
            right = isinstance(value.value, str)
        elif key in _LISTS:
            right = isinstance(value.value, list) and all(isinstance(one.value, str) for one in value.items)
        elif key in _MAPS:
            right = isinstance(value.value, dict) and all(isinstance(one.value, str) for one in value.map.values())
        elif key == "probe":
            right = isinstance(value.value, list) and all(
                one.text("try") is not None and one.text("lacks") is not None for one in value.items
            )
        else:
            faults.append(node.keys[key].fault(f"expected a key of a recipe, found {key!r}"))
            continue
        if not right:
            faults.append(value.fault(f"{key}: expected {_kind(key)}, found {value.found()}"))
    faults += _word(node, "auth", _AUTHS) + _word(node, "role", _ROLES)
    return faults


def _word(node: Node, key: str, words: Sequence[str]) -> list[Fault]:
    found = node.text(key)
    if found is None or found in words:
        return []
    return [node.map[key].fault(f"{key}: expected one of {', '.join(words)}, found {found!r}")]


def _kind(key: str) -> str:
    if key in _TEXTS:
        return "text"
    if key == "probe":
        return "a list of {try, lacks}"
    return "a list of texts" if key in _LISTS else "a map of texts"


def _command(recipe: Recipe) -> str:
    first, *rest = recipe.run
    words = [first.replace("{folder}/", "./").replace("{python}", "python"), *rest]
    return " ".join(words).replace("{folder}/", "").replace("{folder}", ".")


_CURVE = {"tested": "tested", "library": "by its library", "token": "no: token on this machine only"}


def recipe_table(recipes: dict[str, Recipe]) -> str:
    """Return the table of all recipes as Markdown."""
    rows = [
        ("language", "folder", "needs (Debian 12)", "build", "run", "CURVE"),
        ("---",) * 6,
        *(
            (
                f"{recipe.language}{' (a muscle)' if recipe.role == 'muscle' else ''}",
                f"`{recipe.sources[0].parent.name}/`",
                f"`{recipe.packages}`" + (f" ({recipe.versions})" if recipe.versions else ""),
                f"`{'; '.join(recipe.build.strip().splitlines())}`" if recipe.build else "-",
                f"`{_command(recipe)}`",
                _CURVE[recipe.auth],
            )
            for recipe in recipes.values()
        ),
    ]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


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
    for probe in recipe.probes:
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
    variables = {name: _filled(value, words) for name, value in recipe.variables}
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
    for name, text in recipe.files:
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
