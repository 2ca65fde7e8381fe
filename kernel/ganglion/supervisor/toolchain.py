"""Programs of other languages, built where their tools are: probed, fetched and built into a cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ganglion.errors import LaunchError

if TYPE_CHECKING:
    from ganglion.document.recipes import Recipe

__all__ = ["Program", "build", "lacking"]

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
