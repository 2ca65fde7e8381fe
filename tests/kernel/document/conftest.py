from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ganglion.document import load_document
from ganglion.document.fault import Fault
from ganglion.errors import DocumentError, PluginInvalid
from ganglion.run.plan import Plan

KNOWN = {
    "environment": ("dummy", "cartpole"),
    "muscle": ("dummy", "random"),
    "brain": ("dummy", "none"),
    "objective": ("dummy", "aggregate_rewards"),
    "controller": ("vanilla", "taking_turns"),
    "condition": ("agent_objective", "environment", "evaluation_objective", "max_episodes", "max_steps", "vanilla"),
    "replay": ("recorded",),
    "table": ("pool",),
    "reward": ("slope",),
    "transformer": ("counting",),
}


class FixedPlugins:
    """Know a fixed table of plugins, whatever is installed."""

    def locate(self, kind: str, name: str, folder: str = "", allow: Sequence[str] = (), local: bool = True) -> str:
        """Return the name if it is in the table."""
        if name not in KNOWN.get(kind, ()):
            raise PluginInvalid(f"there is no {kind} `{name}`", plugin=name)
        return name

    def alias(self, kind: str, name: str) -> None:
        """Know no names of other projects."""


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., tuple[Plan, list[Fault]]]:
    """Load a text as the document `run.yml`."""

    def of(text: str, **options: object) -> tuple[Plan, list[Fault]]:
        return load_document("run.yml", plugins=FixedPlugins(), text=text, **options)  # type: ignore[arg-type]

    return of


@pytest.fixture
def faults_of(load: Callable[..., tuple[Plan, list[Fault]]]) -> Callable[..., list[str]]:
    """Return the first lines of all that is said of a text, without the file's name."""

    def of(text: str, **options: object) -> list[str]:
        try:
            _, faults = load(text, **options)
        except DocumentError as error:
            faults = list(error.faults)
        return [str(fault).splitlines()[0].removeprefix("run.yml:") for fault in faults]

    return of


class AnyPlugin:
    """Know every plugin, and no names of other projects."""

    def locate(self, kind: str, name: str, **more: object) -> None:
        """Return nothing: there is such a plugin; one controller alone has bodies, and one replay is there."""
        if (kind, name) not in {("bodies", "aeb"), ("replay", "recorded")} and kind in ("bodies", "replay"):
            raise PluginInvalid(f"there is no {kind} `{name}`", plugin=name)

    def alias(self, kind: str, name: str) -> None:
        """Return nothing: there is no such name."""


@pytest.fixture(scope="session")
def read() -> Callable[..., tuple[Plan | None, list[Fault]]]:
    """Read a text where every plugin is known; the plan is None where there are errors."""

    def of(text: str | None, source: str | Path = "run.yml") -> tuple[Plan | None, list[Fault]]:
        try:
            return load_document(source, plugins=AnyPlugin(), text=text)
        except DocumentError as error:
            return None, list(error.faults)

    return of
