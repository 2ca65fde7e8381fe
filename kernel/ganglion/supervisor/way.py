"""The way on of a run that was begun before: with its tapes, from a moment of them, or from the begin of a phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ganglion.errors import StoreError
from ganglion.run.cut import FOLDER, read_cut
from ganglion.supervisor.manifest import Files
from ganglion.supervisor.moment import Moment, Moments

__all__ = ["Way", "newest_cut", "way_on"]

_FIRST: Mapping[str, Any] = {"phase": 0, "models": []}


@dataclass(frozen=True, slots=True)
class Way:
    """How a run goes on.

    Without `cut` every process goes on with its tape; those of `moment`, if there is one, are put back first. With
    `cut` the run begins again with a phase, and no tapes. `words` says so, `wrong` what could not be used.
    `stopped` says that the run was interrupted: what was sealed behind that is not what it would have become.
    """

    words: str
    cut: Mapping[str, Any] | None = None
    moment: Moment | None = None
    wrong: list[str] = field(default_factory=list)
    stopped: bool = False


def way_on(folder: Path, run: str, status: str | None, taped: bool, stopping: bool = False) -> Way:
    """Return how the run in a folder goes on.

    Args:
        folder: Of the run.
        run: Its id.
        status: How it ended, None if it was ended with everything.
        taped: Whether the tapes in its folder are those of the moment at which it ended, as they were written.
        stopping: Whether it had been interrupted before it ended.
    """
    moment, wrong = Moments(folder).newest()
    if moment is not None and moment.facts.get("run") != run:
        wrong = [*wrong, f"cut {moment.folder}: it is of another run"]
        moment = None
    stop = moment is not None and moment.stop
    stopped = stop or stopping or status == "interrupted"
    if status is None and taped and not stopped:
        return Way("every process goes on where it was", wrong=wrong)
    if moment is not None and status in (None, "interrupted"):
        what = "where it was interrupted" if stop else f"at its cut {moment.number}"
        return Way(f"every process goes on {what}", moment=moment, wrong=wrong, stopped=stopped)
    cut, damaged = newest_cut(folder, run)
    words = f"it goes on with the begin of phase {cut['phase']}"
    return Way(words, cut=cut, wrong=[*wrong, *damaged], stopped=stopped)


def newest_cut(folder: Path, run: str) -> tuple[Mapping[str, Any], list[str]]:
    """Return the newest cut at the begin of a phase that is whole, and what is wrong with those after it.

    Without any the run begins with its first phase.
    """
    wrong: list[str] = []
    for path in sorted((folder / FOLDER).glob("phase-*.json"), reverse=True):
        try:
            cut = read_cut(path.read_bytes(), str(path))
        except (OSError, StoreError) as error:
            wrong.append(str(error))
            continue
        found = list(_faults(folder, run, cut))
        if not found:
            return cut, wrong
        wrong += [f"cut {path}: {text}" for text in found]
    return _FIRST, wrong


def _faults(folder: Path, run: str, cut: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with what a cut names."""
    if cut.get("run") != run:
        yield "it is of another run"
        return
    files = Files(folder)
    for row in cut.get("rows", ()):
        if row[0] == "brain":
            yield from (f"model {name}: {text}" for name, text in files.model(str(row[9]), row[8]))
