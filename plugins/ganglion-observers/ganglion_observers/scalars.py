"""Scalars: what is told of a run, as named numbers along episodes; the base of observers that write these."""

from __future__ import annotations

import importlib
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ganglion.sdk import Observer, UsageError

_ODD = re.compile(r"[^\w./ -]")


class Scalar(NamedTuple):
    """Name one number: `phase/return/agent`, the number of the episode (or evaluation), the value."""

    name: str
    step: int
    value: float


def tool(module: str, extra: str) -> Any:
    """Import what an observer writes with; UsageError names the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise UsageError(
            f"expected the package {package}, found none ({error}): pip install 'ganglion-observers[{extra}]'"
        ) from error


def plain(text: str) -> str:
    """Return a name as every tool takes it: letters, digits, `_ . - /` and blanks; all else is `_`."""
    return _ODD.sub("_", text)


class Phases:
    """Know the phases of a run by what was told, and name the numbers of its episodes.

    A name is `<phase>/<what>/<agent>`; `evaluate` stands behind the phase for its evaluations, the environment behind
    the agent where several have episodes of their own, the worker last where a phase has several.
    """

    def __init__(self) -> None:
        self._phases: dict[Any, Mapping[str, Any]] = {}

    def scalars(self, event: str, fields: Mapping[str, Any]) -> Iterator[Scalar]:
        """Yield the numbers of an event; none of most."""
        if event == "phase.started":
            self._phases[fields.get("phase")] = dict(fields)
        elif event == "episode.ended":
            yield from self._episode(fields)
        elif event == "evaluation.ended":
            number = int(fields.get("number", 0))
            for agent, metrics in dict(fields.get("metrics") or {}).items():
                for name, value in dict(metrics).items():
                    if _is_number(value):
                        yield Scalar(plain(f"{self._head(fields)}/evaluation/{agent}/{name}"), number, float(value))

    def _head(self, fields: Mapping[str, Any]) -> str:
        known = self._phases.get(fields.get("phase"), {})
        return str(known.get("name", f"phase {fields.get('phase')}"))

    def _episode(self, fields: Mapping[str, Any]) -> Iterator[Scalar]:
        head, step = self._head(fields), int(fields.get("episode", 0))
        if fields.get("mode") == "evaluate":
            head += "/evaluate"
        workers = self._phases.get(fields.get("phase"), {}).get("workers") or 1
        tail = f"/worker {fields.get('worker')}" if workers > 1 else ""
        if fields.get("environment"):
            tail = f"/{fields['environment']}{tail}"
        for agent, value in dict(fields.get("returns") or {}).items():
            if _is_number(value):
                yield Scalar(plain(f"{head}/return/{agent}{tail}"), step, float(value))
        if _is_number(fields.get("steps")):
            yield Scalar(plain(f"{head}/length{tail}"), step, float(fields["steps"]))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class ScalarObserver(Observer):
    """Write the numbers of a run with some tool; subclasses say how."""

    tool: ClassVar[str] = ""
    """The module that it writes with; empty: none is needed."""

    extra: ClassVar[str] = ""
    """The extra of this distribution that installs it."""

    def __init__(self, folder: str | None = None) -> None:
        self._place = folder
        self._phases = Phases()
        self._config: dict[str, str] = {}

    @classmethod
    def check(cls) -> None:
        """Raise UsageError where the tool is missing."""
        if cls.tool:
            tool(cls.tool, cls.extra)

    def place(self, name: str) -> Path:
        """Return where files go: the parameter `folder`, else a folder of this name in that of the run; it is made."""
        path = Path(self._place) if self._place is not None else Path(self.folder or ".", name)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"folder {path}: expected one that can be made: {error.strerror}") from error
        return path

    @abstractmethod
    def begin(self, config: Mapping[str, str]) -> None:
        """Begin a run; `config` is what was told of it at its start, empty if that was missed."""

    @abstractmethod
    def write(self, scalars: list[Scalar], time_s: float) -> None:
        """Write numbers of one event, at least one."""

    @abstractmethod
    def end(self, status: str, reason: str) -> None:
        """End a run; `status` is empty if its end was not told."""

    def setup(self) -> None:
        """Begin: the tool is imported here, and never for a run without it."""
        self.check()
        self._begun = self._ended = False

    def observe(self, topic: str, event: str, fields: Mapping[str, Any], time_s: float) -> None:
        """Write the numbers of an event."""
        if event == "run.started":
            self._config = {key: str(fields[key]) for key in ("run", "seed", "participants") if key in fields}
        if not self._begun:
            self._begun = True
            self.begin({"run": self.run, **self._config})
        if event == "run.ended":
            self._end(str(fields.get("status", "")), str(fields.get("reason") or ""))
            return
        found = list(self._phases.scalars(event, fields))
        if found:
            self.write(found, time_s)

    def teardown(self) -> None:
        """End what has begun, also where its end was not told."""
        self._end("", "")

    def _end(self, status: str, reason: str) -> None:
        if getattr(self, "_begun", False) and not self._ended:
            self._ended = True
            self.end(status, reason)
