"""The runner: which points are still to be done; carries them out, at most some at a time, and notes their states."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganglion.cli.extension import (
    DocumentError,
    Fault,
    GanglionError,
    Local,
    Outcome,
    Plan,
    RunEvent,
    Session,
    Settings,
    UsageError,
    open_reader,
    placed,
    settle,
)
from ganglion_sweep.experiment import raised
from ganglion_sweep.factor import same
from ganglion_sweep.folder import Folder, cell
from ganglion_sweep.point import Point
from ganglion_sweep.progress import Progress

if TYPE_CHECKING:
    from ganglion.sdk.store import PointBook, StoreReader
    from ganglion_sweep.search import Search


Row = Mapping[str, Any]


def settled(known: Sequence[Row], finished: Mapping[str, str]) -> dict[int, str]:
    """Return what really became of points that were left running when their command was killed.

    `finished` maps runs to their status in the store. A run that had finished is done; any other has to be repeated.
    """
    running = [row for row in known if row["state"] == "running"]
    return {row["point"]: "done" if finished.get(row["run"]) == "finished" else "planned" for row in running}


def changed(point: Point | None, row: Row) -> str | None:
    """Return why a point that is done would be another one now, None if it would not."""
    where = f"point {row['point']} is done (run {row['run']})"
    if point is None:
        names = ", ".join(f"`{name}` = {cell(value)}" for name, value in row["factors"].items())
        return f"{where}, and the design has no such point any more; it had {names or 'no factors'}"
    if point.digest == row["digest"]:
        return None
    for name, value in row["factors"].items():
        if name not in point.factors:
            return f"factor `{name}`: {where} with {cell(value)}, and there is no such factor any more"
        if same(point.factors[name]) != same(value):
            return f"factor `{name}`: {where} with {cell(value)} and would have {cell(point.factors[name])} now"
    fresh = [name for name in point.factors if name not in row["factors"]]
    if fresh:
        return f"factor `{fresh[0]}`: {where} without it"
    if str(point.seed) != row["seed"]:
        return f"seed: {where} with {row['seed']} and would have {point.seed} now"
    return f"run: {where} with another run document, although its factors are the same"


def check_begun(uid: str, points: Sequence[Point], known: Sequence[Row], resume: bool) -> None:
    """Refuse to begin an experiment again, or to go on with another one; UsageError says which factor differs."""
    by_number = {point.number: point for point in points}
    done = [row for row in known if row["state"] == "done"]
    for row in done:
        why = changed(by_number.get(row["point"]), row)
        if why is not None:
            raise UsageError(f"experiment {uid} cannot go on: {why}; give the experiment another uid")
    begun = [row for row in known if row["state"] != "planned" or row["run"] is not None]
    if begun and not resume:
        raise UsageError(
            f"experiment {uid} was begun: {len(done)} of {len(points)} points are done; "
            "--resume goes on with those that are not"
        )


def todo(points: Sequence[Point], known: Sequence[Row], retry_failed: bool) -> list[Point]:
    """Return the points to carry out, in order: all but those that are done, or failed and not to be retried."""
    over = {"done"} if retry_failed else {"done", "failed"}
    states = {row["point"]: row["state"] for row in known}
    return [point for point in points if states.get(point.number) not in over]


_PRUNED = "pruned"
_LOOK_S = 0.5  # between two looks at the episodes of runs that may be cut
STATES = {"finished": "done", "failed": "failed", "interrupted": "planned"}


def cores() -> int:
    """Return how many cores this process may use: a run in lockstep keeps about one busy."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Runner:
    """Carry out points of one experiment.

    Each state is in the store before the next thing happens: `running` before the first process of a run is started,
    `done`, `failed` or `planned` (interrupted) when its last one is gone.
    """

    def __init__(
        self, settings: Settings, folder: Folder, progress: Progress, parallel: int, stop_on_failure: bool
    ) -> None:
        self.settings = settings
        self.folder = folder
        self.progress = progress
        self.parallel = parallel
        self.stop_on_failure = stop_on_failure
        self.interrupted = False
        self.left: list[str] = []  # what had to be ended after the runs: a defect
        self.stopped = False
        self.search: Search | None = None
        self._points: dict[str, Point] = {}  # by the run that carries one out
        self._cut: set[str] = set()
        self._looked_s = 0.0
        self.reader: StoreReader | None = None  # beside the runs of a search

    def session(self, points: Sequence[Point], launcher: Local) -> Session:
        """Return the session in which points are checked and carried out."""
        plans = [point.plan()[0] for point in _of_each_row(points)]
        tcp = any(plan.needs_tcp for plan in plans)
        name = f".sweep-{hashlib.sha256(self.folder.uid.encode()).hexdigest()[:8]}"  # plain, and found again
        self._session = Session(self.settings, name, self.folder.logs, launcher, tcp, self._event, self.progress.note)
        return self._session

    def _event(self, run: str, news: RunEvent) -> None:
        self.progress.event(run, news)
        point = self._points.get(run)
        now_s = time.monotonic()
        if self.search is None or point is None or run in self._cut or now_s - self._looked_s < _LOOK_S:
            return
        if self.reader is None:
            self.reader = open_reader(self.settings)
        if not self.search.hopeless(point, run, self.reader):
            self._looked_s = time.monotonic()
            return
        self._cut.add(run)
        self._session.supervisor.interrupt(self._session.supervisor.runs[run], now=True, reason=_PRUNED)

    async def check(self, session: Session, points: Sequence[Point]) -> list[Fault]:
        """Check points by their plugins; return the warnings, DocumentError with the faults of all.

        What differs in names and seeds only is checked once.
        """
        found: list[Fault] = []
        seen: set[str] = set()
        for point in _of_each_row(points):
            if session.interrupts:
                break
            plan = point.plan()[0]
            text = _essence(plan)
            if text not in seen:
                seen.add(text)
                found += [placed(fault, plan.source, _lines(plan.source)) for fault in await session.check(plan)]
        if any(fault.severity == "error" for fault in found):
            raise raised(found)
        return settle(found)

    async def carry_out(self, session: Session, book: PointBook, points: Sequence[Point]) -> None:
        """Carry out points in order; a failed one stops no other unless that was asked for."""
        waiting = iter(points)

        async def work() -> None:
            for point in waiting:
                if session.interrupts or self.stopped or not session.alive:
                    return
                await self._one(session, book, point)

        workers = [asyncio.create_task(work()) for _ in range(min(self.parallel, len(points)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self.interrupted = self.interrupted or session.interrupts > 0

    async def _one(self, session: Session, book: PointBook, point: Point) -> None:
        run = ""

        def begin(name: str) -> None:
            nonlocal run
            run = name
            self._points[run] = point
            book.change(point.number, "running", run)
            self.progress.started(point, run)

        try:
            outcome = await session.execute(point.plan()[0], begin)
        except DocumentError:
            raise
        except GanglionError as error:  # nothing of the run was started
            outcome = Outcome(run, "failed", str(error), 1, [str(error)])
        state = STATES.get(outcome.status, "failed")
        if run in self._cut and outcome.status == "interrupted":
            state, outcome = (
                "done",
                dataclasses.replace(outcome, status="finished", reason=f"{_PRUNED}: {outcome.reason}"),
            )
        book.change(point.number, state, run or None, outcome.reason)
        self.progress.ended(point, run, state, outcome)
        self.interrupted = self.interrupted or outcome.status == "interrupted"
        self.stopped = self.stopped or (self.stop_on_failure and state == "failed")


def _of_each_row(points: Sequence[Point]) -> list[Point]:
    """Return one point of each row: its repetitions differ in names and seeds only."""
    return list({point.row: point for point in reversed(points)}.values())[::-1]


def _essence(plan: Plan) -> str:
    """Return what plugins can object to in a plan, as text: runs that differ in their seed only are alike."""
    tree = dataclasses.replace(plan, uid="", experiment="", seed="0", document="").to_map()
    return json.dumps(tree, sort_keys=True, default=str)


def _lines(source: str) -> list[str]:
    try:
        with open(source, encoding="utf-8") as file:  # noqa: PTH123 - the name may be `<stdin>`
            return file.read().split("\n")
    except OSError:
        return []
