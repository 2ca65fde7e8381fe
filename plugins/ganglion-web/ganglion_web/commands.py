"""Commands: Ganglion's commands that the page starts, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ganglion.cli.extension import COMMAND
from ganglion.cli.settings import Settings

SPAN_S = 60.0
"""The longest wait for the end of a command."""

_GANGLION = (sys.executable, "-P", "-c", COMMAND)


class Commands:
    """Start commands for the page's results; no argument comes from a document.

    Args:
        settings: The places of results and store.
    """

    def __init__(self, settings: Settings) -> None:
        store = [] if settings.store is None else ["--store", settings.store]
        self._place = ["--results", str(settings.results), *store]
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._starter = ThreadPoolExecutor(1, "starter")
        self._starter.submit(int).result()  # starts the thread now, with the present priority

    def close(self) -> None:
        """Start no more commands; started ones continue."""
        self._starter.shutdown()

    def goes(self, name: str) -> bool:
        """Return whether a command started under a name is running."""
        known = self._started.get(name)
        return known is not None and known.poll() is None

    def start(self, name: str, output: Path, *words: str) -> None:
        """Start a command that outlives the page, with the priority of a terminal's; `output` receives its output."""

        def begin() -> subprocess.Popen[bytes]:
            with output.open("wb") as out:
                return subprocess.Popen(
                    [*_GANGLION, *self._place, *words],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )

        self._started[name] = self._starter.submit(begin).result()

    def carry_out(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return _carried_out([*self._place, *words], None)


def carry_out_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in a folder whose `results` it uses."""
    return _carried_out(["--results", "results", *words], folder)


def _carried_out(words: list[str], folder: Path | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_GANGLION, *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SPAN_S,
    )
