"""The command `ganglion`: run to its end, or held while it runs."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from system.reader import GANGLION, READING, RUNNING, reader

SPAN_S = 60.0  # what tests run takes a second or two; a machine under load has time

_KEPT = ("GANGLION_AUDIT",)  # what the tests' own process tells those that it starts


def variables(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a command: ours without those of another run, no folder of the session, and `more`."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith("GANGLION_") or k in _KEPT}
    return {**ours, "XDG_RUNTIME_DIR": "", **(more or {})}


def private(folder: Path) -> dict[str, str]:
    """Return the variable that puts private folders with sockets into `folder`, whose path must be short."""
    return {"TMPDIR": str(folder)}


def ganglion(
    folder: Path, *words: str, more: Mapping[str, str] | None = None, span_s: float = SPAN_S
) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, as a user would; return exit status and output.

    On Linux most commands are carried out by a fork of who has imported them already, unless `more` changes Python or
    settings of ours, which are read while modules are imported.
    """
    if sys.platform == "linux" and not any(name.startswith(("GANGLION_", "PYTHON")) for name in more or ()):
        command = next((word for word in words if not word.startswith("-")), "")
        for commands in (READING, RUNNING):
            if command in commands:
                return reader(commands).carry_out(words, folder, variables(more), span_s)
    return subprocess.run(
        [GANGLION, *words], cwd=folder, env=variables(more), capture_output=True, text=True, timeout=span_s, check=False
    )


class Lines(threading.Thread):
    """Read a pipe line by line as it is written, so that its writer never waits; let others wait for lines."""

    def __init__(self, pipe: IO[str]) -> None:
        super().__init__(daemon=True)
        self.lines: list[str] = []
        self.over = False
        self.changed = threading.Condition()
        self._pipe = pipe
        self._read = 0
        self.start()

    def run(self) -> None:
        """Read until the pipe ends."""
        with self._pipe:
            for line in self._pipe:
                self._note(line)
        with self.changed:
            self.over = True
            self.changed.notify_all()

    def _note(self, line: str) -> None:
        with self.changed:
            self.lines.append(line)
            self.changed.notify_all()

    def line(self, span_s: float = SPAN_S) -> str:
        """Return the next line that was not returned yet, empty when there is none any more; TimeoutError if late."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.over or len(self.lines) > self._read, span_s):
                raise TimeoutError(f"expected another line within {span_s:.0f} s after {self.lines[-3:]}")
            if len(self.lines) == self._read:
                return ""
            self._read += 1
            return self.lines[self._read - 1]

    def rest(self) -> str:
        """Return all that was not returned yet, once the pipe has ended."""
        self.join()
        rest, self._read = "".join(self.lines[self._read :]), len(self.lines)
        return rest


class Command:
    """Hold a command that runs, with the events that it has told so far; it is killed if it takes too long.

    `output` says in which form it is asked to speak: `json` (events can be waited for), `plain`, `quiet`; None leaves
    it to the command.
    """

    def __init__(
        self,
        folder: Path,
        *words: str,
        output: str | None = "json",
        more: Mapping[str, str] | None = None,
        span_s: float = SPAN_S,
    ) -> None:
        self.folder = folder
        self.span_s = span_s
        self.events: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [GANGLION, *words, *([f"--{output}"] if output else [])],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=variables(more),
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.out, self.err = Lines(self.process.stdout), Lines(self.process.stderr)
        self._timer = threading.Timer(span_s, self.process.kill)
        self._timer.daemon = True
        self._timer.start()

    def next_event(self, span_s: float | None = None) -> dict[str, Any] | None:
        """Return the next event, None when there is none any more; TimeoutError if it is late."""
        line = self.out.line(self.span_s if span_s is None else span_s)
        if not line:
            return None
        event: dict[str, Any] = json.loads(line)
        self.events.append(event)
        return event

    def until(self, name: str) -> dict[str, Any]:
        """Read events until one of that name comes; return it."""
        while (event := self.next_event()) is not None:
            if event["event"] == name:
                return event
        raise AssertionError(f"no {name}: {self.events}, {self.err.rest()}")

    def end(self) -> tuple[int, str]:
        """Wait for the end of a command that tells events; return exit status and what it said on stderr."""
        self.events += [json.loads(line) for line in self.output().splitlines()]
        return self.process.returncode, self.err.rest()

    def output(self) -> str:
        """Wait for the end; return what was said on stdout and not yet read."""
        self.process.wait()
        self._timer.cancel()
        return self.out.rest()

    def kill(self) -> None:
        """End it at once, and wait until it is gone."""
        self.process.kill()
        self.output()

    def below(self) -> dict[int, str]:
        """Return its child processes, with the names that the system shows."""
        from ganglion.supervisor.launch.system import children_of

        found = {}
        for pid in children_of(self.process.pid):
            with contextlib.suppress(OSError):  # it has just gone
                found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
        return found
