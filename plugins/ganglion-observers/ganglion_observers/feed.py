"""Feed: hands events of runs to observers, one for each run; events come from a pipe or from what was stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ganglion.sdk import Observer

if TYPE_CHECKING:
    from ganglion.sdk import StoreReader

MISSED = "missed"
"""The name of what stands in place of events that were left out: `count` of them."""

Event = Mapping[str, Any]


class Feed:
    """Hand events to an observer for each run; one that fails is told, and goes without the rest.

    Args:
        make: Makes the observer of a run, by its id.
        tell: Called with a sentence for each observer that has failed.
    """

    def __init__(self, make: Callable[[str], Observer], tell: Callable[[str], None]) -> None:
        self._make, self._tell = make, tell
        self._open: dict[str, Observer | None] = {}
        self._heard = 0
        self.failed = 0

    def take(self, event: Event) -> None:
        """Take one event: a map with `event`, `time_s`, `run` and what it says."""
        name, run, time_s = str(event.get("event")), str(event.get("run", "")), float(event.get("time_s") or 0.0)
        if name == MISSED:
            first, self._heard = self._heard + 1, self._heard + int(event.get("count", 1))
            for known in list(self._open):
                self._do(known, lambda observer: observer.missed("events", first, self._heard))
            return
        self._heard += 1
        if not run:
            return
        if run not in self._open:
            self._open[run] = None  # until it is there
            self._open[run] = self._begin(run)
        fields = {key: value for key, value in event.items() if key not in ("event", "time_s")}
        self._do(run, lambda observer: observer.observe("events", name, fields, time_s))
        if name == "run.ended":
            self._do(run, lambda observer: observer.teardown())
            del self._open[run]

    def close(self) -> None:
        """Let all observers end."""
        for run in list(self._open):
            self._do(run, lambda observer: observer.teardown())
        self._open.clear()

    def _begin(self, run: str) -> Observer | None:
        observer = self._make(run)
        try:
            observer.setup()
        except Exception as error:  # noqa: BLE001 - an author's hook: the run and its other observers go on
            self._fail(run, error)
            return None
        return observer

    def _do(self, run: str, hook: Callable[[Observer], None]) -> None:
        observer = self._open.get(run)
        if observer is None:
            return
        try:
            hook(observer)
        except Exception as error:  # noqa: BLE001 - as above
            self._open[run] = None
            self._fail(run, error)

    def _fail(self, run: str, error: Exception) -> None:
        self.failed += 1
        self._tell(f"run {run}: the observer has failed and gets no more events: {type(error).__name__}: {error}")


def events_told(lines: Iterable[bytes], tell: Callable[[str], None]) -> Iterator[Event]:
    """Yield the events of JSON lines, as `ganglion run --json` prints them; what is none is told and left out."""
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if isinstance(event, dict) and "event" in event:
            yield event
        elif line.strip():
            tell(f"<stdin>:{number}: expected an event as `ganglion run --json` prints it, found {line[:60]!r}")


def events_stored(reader: StoreReader, run: str) -> Iterator[Event]:
    """Yield the events of a run that can be had from what was stored of it: phases, episodes, evaluations, its end.

    Wall-clock times are those of the run's start, its end and its evaluations; an episode has that of the start.
    """
    (row,) = reader.rows("runs", [run])
    started_s = _time_s(row["started"])
    workers = _workers(reader, run)
    yield {"event": "run.started", "time_s": started_s, "run": run, "seed": row["seed"]}
    for phase in reader.rows("phases", [run]):
        if phase["mode"] == "evaluate" and phase["status"] is not None and (phase["phase"], "train") in workers:
            continue  # the evaluations within a phase that trains come with it
        number = phase["phase"]
        place = {"run": run, "phase": number, "name": phase["name"], "mode": phase["mode"]}
        yield {
            "event": "phase.started",
            "time_s": started_s,
            **place,
            "workers": workers.get((number, phase["mode"]), 1),
        }
        for episode in _episodes(reader, run, number):
            yield {"event": "episode.ended", "time_s": started_s, **_without_own_mode(episode, phase["mode"])}
        metrics: dict[int, dict[str, Any]] = {}
        times: dict[int, float] = {}
        for evaluation in reader.rows("evaluations", [run], where=f"phase = {number}"):
            metrics.setdefault(evaluation["number"], {})[evaluation["agent"]] = evaluation["metrics"]
            times[evaluation["number"]] = _time_s(evaluation["completed"]) or started_s
        for count, found in metrics.items():
            told = {"run": run, "phase": number, "number": count, "metrics": found}
            yield {"event": "evaluation.ended", "time_s": times[count], **told}
    if row["ended"] is not None:
        end = {"run": run, "status": row["status"], "reason": row["reason"]}
        yield {"event": "run.ended", "time_s": _time_s(row["ended"]), **end}


def _workers(reader: StoreReader, run: str) -> dict[tuple[int, str], int]:
    found: dict[tuple[int, str], int] = {}
    for row in reader.rows("episodes", [run], columns=["phase", "mode", "worker"]):
        key = (row["phase"], row["mode"])
        found[key] = max(found.get(key, 0), row["worker"] + 1)
    return found


def _episodes(reader: StoreReader, run: str, phase: int) -> Iterator[dict[str, Any]]:
    """Yield the episodes of a phase in the order of the table, each with the returns of its agents."""
    of_phase = f"phase = {phase}"
    names = ["phase", "mode", "worker", "agent", "environment", "episode", "return"]
    sums: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in reader.rows("returns", [run], where=of_phase, columns=names):
        if row["return"] is not None:
            for environment in (None, row["environment"]):  # an episode may span several environments
                of = sums.setdefault((row["mode"], row["worker"], environment, row["episode"]), {})
                of[row["agent"]] = of.get(row["agent"], 0.0) + row["return"]
    for row in reader.rows("episodes", [run], where=of_phase):
        returns = sums.get((row["mode"], row["worker"], row["environment"], row["episode"]), {})
        told = {"run": run, **{name: row[name] for name in ("phase", "mode", "worker")}}
        told |= {} if row["environment"] is None else {"environment": row["environment"]}
        told |= {name: row[name] for name in ("episode", "steps")}
        yield {**told, "returns": returns, "reason": row["reason"]}


def _without_own_mode(episode: dict[str, Any], mode: str) -> dict[str, Any]:
    """Return an episode as it is told: with a mode only where that is not the one of its phase."""
    return {key: value for key, value in episode.items() if key != "mode" or value != mode}


def _time_s(text: str | None) -> float:
    return 0.0 if text is None else datetime.fromisoformat(text).timestamp()
