"""Progress of runs: a live view on a terminal, one line per event on a pipe, or JSON lines."""

from __future__ import annotations

import datetime as dt
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from ganglion import __version__
from ganglion.cli.settings import INTERRUPTED, Settings
from ganglion.cli.stores import FILE, default_uri
from ganglion.supervisor import event
from ganglion.supervisor.output import printable, without_password
from ganglion.supervisor.pace import Pace

if TYPE_CHECKING:
    from ganglion.supervisor.runs import Outcome
    from ganglion.wire.messages import RunEvent

_NAME_WIDTH = 16
_EPISODES_PER_S = 20  # above this rate one line per second sums up the episodes
_TIMED = (event.EPISODE_ENDED, event.EPISODES_ENDED)  # events shown with the elapsed and the remaining time
_QUIET = (event.PEER_JOINED, event.STEPS_TAKEN, event.PHASE_PLACED)  # shown with -v


def span(seconds: float) -> str:
    """Return a span of time as text: `0:00:42`, `2 days, 1:00:00`."""
    return str(dt.timedelta(seconds=int(seconds)))


def plain_line(news: RunEvent) -> str:
    """Return an event as one line: time of day, name, fields."""
    stamp = time.strftime("%H:%M:%S", time.localtime(news.time_s)) + f".{int(news.time_s * 1000) % 1000:03d}"
    if news.event == event.WAITING:
        return f"{stamp} {printable(str(news.fields.get('text', '')))}"
    return f"{stamp} {printable(news.event):<{_NAME_WIDTH}} {' '.join(_fields(news.fields))}".rstrip()


def _fields(fields: Mapping[str, Any], prefix: str = "") -> list[str]:
    words: list[str] = []
    for name, value in fields.items():
        if isinstance(value, Mapping):
            words += _fields(value, f"{prefix}{'return' if name == 'returns' else name}.")
        elif value is not None:
            text = f"{value:.6g}" if isinstance(value, float) else printable(str(value))
            words.append(f"{prefix}{printable(str(name))}={json.dumps(text) if ' ' in text else text}")
    return words


def _put(stream: TextIO, text: str) -> None:
    """Write and flush; if the reader has ended, the run continues and the rest of its output is dropped."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class Progress:
    """Show the progress of runs; the base class shows notes only, and counts the steps for the last line."""

    def __init__(
        self, settings: Settings, out: TextIO, err: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self.out = out
        self.err = err
        self.clock = clock
        self.steps: dict[str, int] = {}
        self.paces: dict[tuple[str, Any], Pace] = {}  # paces of the phases of unfinished runs
        self.started_s: dict[str, float] = {}

    def begin(self, run: str, seed: str, folder: str) -> None:
        """Show that a run is about to start."""
        self.started_s[run] = self.clock()

    def event(self, run: str, news: RunEvent) -> None:
        """Process an event of a run."""
        phase = run, news.fields.get("phase")
        if news.event == event.PHASE_STARTED:
            self.paces[phase] = Pace.of(news.fields, self.clock())
        elif phase in self.paces:
            self.paces[phase].take(news.event, news.fields, self.clock())
        if news.event in (event.EPISODE_ENDED, event.EPISODES_ENDED):
            self.steps[run] = self.steps.get(run, 0) + int(news.fields.get("steps", 0))
        if news.event == event.WARNING:
            who = f"{news.fields['name']}: " if "name" in news.fields else ""  # text of a participant, not ours
            text = f"warning: {who}{news.fields.get('text', '')}"
            self.note("\n".join(printable(line) for line in text.splitlines()))
        self.show(run, news)

    def show(self, run: str, news: RunEvent) -> None:
        """Show an event."""

    def refresh(self) -> None:
        """Show the current time, which changes without an event."""

    def note(self, text: str) -> None:
        """Show a sentence that belongs to no event."""
        _put(self.err, text + "\n")

    def end(self, outcome: Outcome, store: str | None) -> None:
        """Show how a run ended; `store` is the place of its rows, None if nothing was stored."""
        self.paces = {phase: pace for phase, pace in self.paces.items() if phase[0] != outcome.run}

    def times(self, run: str) -> dict[str, float]:
        """Return the elapsed time of a run and, if known, the remaining time of its newest phase."""
        if run not in self.started_s:
            return {}
        now_s = self.clock()
        left_s = next((pace.left_s(now_s) for (of, _), pace in reversed(self.paces.items()) if of == run), None)
        elapsed = {"elapsed_s": round(now_s - self.started_s[run], 1)}
        return elapsed if left_s is None else {**elapsed, "eta_s": round(left_s, 1)}

    def close(self) -> None:
        """Stop showing."""

    def _story(self, outcome: Outcome) -> None:
        """Write the causes of a failure, the first cause first."""
        if not outcome.report:
            return
        first, *rest = outcome.report
        head = f"{outcome.status}: " if outcome.status == "failed" else ""
        _put(self.err, "\n".join([f"{head}{first}", *(f"  {line}" for line in rest)]) + "\n")

    def _ending(self, outcome: Outcome, store: str | None) -> Iterator[str]:
        """Yield how a run ended, and the next commands for the user."""
        steps = self.steps.get(outcome.run, 0)
        reason = f" ({outcome.reason})" if outcome.status == "interrupted" else ""
        origins, own = self.settings.origins, store == default_uri(self.settings.results)
        given = ["--results", str(self.settings.results)] if origins.get("results", "").startswith("option") else []
        where = f" in {self.settings.results / FILE if own else without_password(store)}" if store else ""
        yield f"{outcome.status} in {outcome.took_s:.1f} s{reason}, {steps} steps{where}"
        if outcome.status == "finished":
            if store:
                found = store == self.settings.store and not origins.get("store", "option").startswith("option")
                words = shlex.join([*given, *([] if own or found else ["--store", without_password(store)])])
                commands = f"plot {outcome.run}", f"results episodes {outcome.run}", "runs"
                yield "next: " + " · ".join(f"ganglion {command} {words}".rstrip() for command in commands)
        elif outcome.resumable and outcome.exit_status in (1, INTERRUPTED):
            yield f"next: ganglion resume {outcome.run} {shlex.join(given)}".rstrip()


class PlainProgress(Progress):
    """Write one line per event; more than twenty episodes in a second are summed up in one line."""

    def __init__(self, settings: Settings, out: TextIO, err: TextIO) -> None:
        super().__init__(settings, out, err)
        self._second = 0
        self._count = 0
        self._held: dict[str, list[int]] = {}  # run -> [episodes, steps] of this second that were not shown

    def begin(self, run: str, seed: str, folder: str) -> None:
        """Write the first line."""
        super().begin(run, seed, folder)
        if self.settings.verbosity >= 0:
            self._write(f"ganglion {__version__} · run {run} · seed {seed} · {folder}")

    def show(self, run: str, news: RunEvent) -> None:
        """Write an event."""
        silent = self.settings.verbosity < (1 if news.event in _QUIET else 0)
        if silent or news.event == event.WARNING:  # the text of a warning is shown as a note
            return
        if news.event != event.EPISODE_ENDED:
            self._flush(news.time_s)
        elif self._holds(run, news):
            return
        self._tell(run, news)

    def end(self, outcome: Outcome, store: str | None) -> None:
        """Write the causes of a failure, then the end."""
        super().end(outcome, store)
        self._story(outcome)
        if self.settings.verbosity >= 0:
            for line in self._ending(outcome, store):
                self._write(line)

    def _holds(self, run: str, news: RunEvent) -> bool:
        """Say whether an episode is summed up instead of shown."""
        second = int(news.time_s)
        if second != self._second:
            self._flush(news.time_s)
            self._second, self._count = second, 0
        self._count += 1
        if self._count <= _EPISODES_PER_S:
            return False
        held = self._held.setdefault(run, [0, 0])
        held[0] += 1
        held[1] += int(news.fields.get("steps", 0))
        return True

    def _flush(self, time_s: float) -> None:
        from ganglion.wire.messages import RunEvent

        held, self._held = self._held, {}
        for run, (episodes, steps) in held.items():
            fields = {"run": run, "episodes": episodes, "steps": steps}
            self._tell(run, RunEvent(event.EPISODES_ENDED, fields, time_s))

    def _tell(self, run: str, news: RunEvent) -> None:
        times = self.times(run) if news.event in _TIMED else {}
        self._write(" ".join([plain_line(news), *(f"{key[:-2]}={span(value)}" for key, value in times.items())]))

    def _write(self, line: str) -> None:
        _put(self.out, line + "\n")


class JsonProgress(Progress):
    """Write one JSON object per event; the last object of a run holds its status and reason."""

    def show(self, run: str, news: RunEvent) -> None:
        """Write an event."""
        if news.event != event.RUN_ENDED:
            times = self.times(run) if news.event in _TIMED else {}
            self._write({"event": news.event, "time_s": round(news.time_s, 3), "run": run, **news.fields, **times})

    def end(self, outcome: Outcome, store: str | None) -> None:
        """Write the end."""
        super().end(outcome, store)
        row: dict[str, Any] = {"event": event.RUN_ENDED, "time_s": round(time.time(), 3)}
        row |= {key: getattr(outcome, key) for key in ("run", "status", "reason", "exit_status")}
        row |= {"took_s": round(outcome.took_s, 3), "steps": self.steps.get(outcome.run, 0), "story": outcome.report}
        self._write(row)

    def _write(self, row: dict[str, Any]) -> None:
        _put(self.out, json.dumps(row, default=str) + "\n")


def make_progress(settings: Settings) -> Progress:
    """Return the progress that fits: JSON if asked for, live on a terminal, else plain."""
    if settings.json:
        return JsonProgress(settings, sys.stdout, sys.stderr)
    dumb = os.environ.get("TERM", "") in ("", "dumb") or not (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    if settings.plain or dumb or settings.verbosity < 0 or not sys.stdout.isatty():
        return PlainProgress(settings, sys.stdout, sys.stderr)
    from ganglion.cli.screen import LiveProgress  # rich takes 30 ms to import, and a pipe does not need it

    return LiveProgress(settings, sys.stdout, sys.stderr)
