"""Attachers: programs that somebody else starts for a run that awaits them, and starts again when they end."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_AGAIN_S = 0.1


class Attachers:
    """Keep so many processes of one program at a run's places, for as long as the context lasts.

    Args:
        folder: Of the run: its results, the program `world.py`.
        uid: The place in the document.
        count: How many places a phase has at most.
    """

    def __init__(self, folder: Path, uid: str, count: int) -> None:
        self._folder, self._uid = folder, uid
        self._over = threading.Event()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._threads = [threading.Thread(target=self._keep, args=(number,)) for number in range(count)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        for thread in self._threads:
            thread.join()

    def pids(self) -> list[int]:
        return [process.pid for process in list(self._processes.values()) if process.poll() is None]

    def _keep(self, number: int) -> None:
        while not self._over.wait(_AGAIN_S):
            found = self._connection()
            if found is None:
                continue
            place = {
                "GANGLION_ENDPOINT": found["tcp"] or found["endpoint"],
                "GANGLION_TOKEN": found["attach_token"],
                "GANGLION_NAME": self._uid,
                "GANGLION_ROLE": "environment",
            }
            with (self._folder / f"attached-{number}.out").open("ab") as out:
                process = subprocess.Popen(
                    [sys.executable, "world.py"], cwd=self._folder, env={**os.environ, **place}, stdout=out, stderr=out
                )
            self._processes[number] = process
            while process.poll() is None:
                if self._over.is_set():
                    process.kill()
                time.sleep(_AGAIN_S / 2)

    def _connection(self) -> dict[str, Any] | None:
        for path in (self._folder / "results").glob("*/connection.json"):
            with contextlib.suppress(OSError, ValueError):
                found: dict[str, Any] = json.loads(path.read_text())
                return found
        return None
