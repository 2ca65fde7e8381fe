"""`ganglion sweep`: makes the runs of an experiment document and carries them out, each exactly once."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ganglion.cli.extension import GanglionError, Local, Settings, UsageError, loop, open_reader, store_class, store_uri

if TYPE_CHECKING:
    from ganglion.sdk.store import PointBook
    from ganglion_sweep.experiment import Experiment
    from ganglion_sweep.folder import Folder
    from ganglion_sweep.point import Point
    from ganglion_sweep.progress import Progress
    from ganglion_sweep.runner import Runner
    from ganglion_sweep.search import Search


_INTERRUPTED = 130
_LOST = "lost: the command that carried it out was killed"


@click.command("sweep")
@click.argument("file", metavar="FILE")
@click.option("--plan", "only_plan", is_flag=True, help="write the run documents and the design; start nothing")
@click.option("--parallel", type=click.IntRange(min=1), metavar="N", help="runs at the same time [one per core]")
@click.option("--resume", is_flag=True, help="go on: carry out what is not done, nothing twice")
@click.option("--retry-failed", is_flag=True, help="as --resume, and carry out failed runs again")
@click.option("--stop-on-failure", is_flag=True, help="begin no further run after one has failed")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="set a value of the document")
@click.pass_obj
def command(
    settings: Settings,
    file: str,
    only_plan: bool,
    parallel: int | None,
    resume: bool,
    retry_failed: bool,
    stop_on_failure: bool,
    overrides: tuple[str, ...],
) -> int:
    """Carry out an experiment document: many runs that differ in factors and seeds. `-` is standard input."""
    launcher = None if only_plan else Local()
    if launcher is not None:
        os.umask(settings.mask)
        launcher.warm_up()  # its imports run while we read the documents
    try:
        experiment, points = _read(file, overrides)
        from ganglion_sweep.folder import Folder

        folder = Folder(settings.results, experiment.uid)
        with folder.locked():
            if launcher is None and experiment.search is not None:
                raise UsageError(
                    "--plan: the points of a search follow from its results, and are written as it goes on"
                )
            if launcher is None:
                return _plan(settings, folder, points)
            sweep = _Sweep(settings, folder, experiment, points, _words(settings, file, overrides))
            return sweep.run(launcher, parallel, resume or retry_failed, retry_failed, stop_on_failure)
    finally:
        if launcher is not None:
            launcher.abandon()


def _read(file: str, overrides: Sequence[str]) -> tuple[Any, list[Point]]:
    """Return the experiment and its points, all documents checked; warnings are printed."""
    from ganglion_sweep.experiment import read_experiment
    from ganglion_sweep.point import check_points, points_of

    experiment = read_experiment(file, overrides)
    points = [] if experiment.search is not None else points_of(experiment)
    for warning in (*experiment.warnings, *check_points(points)):
        click.echo(str(warning), err=True)
    return experiment, points


def _words(settings: Settings, file: str, overrides: Sequence[str]) -> str:
    """Return the command that carries out the same experiment in the same place."""
    return shlex.join(
        ["ganglion", "sweep", file, *(word for text in overrides for word in ("--set", text)), *_places(settings)]
    )


def _places(settings: Settings) -> list[str]:
    """Return the options that say where results are, where they are not where they are looked for."""
    usual = Settings.load()
    words = [] if settings.results == usual.results else ["--results", str(settings.results)]
    return words if settings.store == usual.store else [*words, "--store", str(settings.store)]


def _plan(settings: Settings, folder: Folder, points: Sequence[Point]) -> int:
    """Write what would be run; start nothing."""
    files = folder.files(points)
    folder.check(files)
    folder.write(files)
    rows = [
        {"run": p.uid, "row": p.row, "repetition": p.repetition, "seed": p.seed, "factors": p.factors,
         "document": str(folder.document(p))}
        for p in points
    ]  # fmt: skip
    if settings.json:
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    for row in rows:
        click.echo(row["document"])
    click.echo(str(folder.path / f"{folder.uid}_design.csv"))
    return 0


def _end_lost(uri: str, run: str) -> None:
    """Note the end of a run that could not note it itself; rows of its open episodes go."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    with store_class(uri).writer(uri, run, resume=True) as writer:
        writer.apply("sweep", [["end", "lost", _LOST, now]])


class _Sweep:
    """Carry out one experiment, from its points to the table at the end."""

    def __init__(
        self, settings: Settings, folder: Folder, experiment: Experiment, points: Sequence[Point], words: str
    ) -> None:
        from ganglion_sweep.progress import Progress

        if settings.store == "none":
            raise UsageError("expected a store, found --store none: the states of the runs of a sweep are kept in it")
        self.settings = settings
        self.folder = folder
        self.experiment = experiment
        self.points = list(points)
        self.words = words
        self.progress: Progress = Progress(settings)

    def run(
        self, launcher: Local, parallel: int | None, resume: bool, retry_failed: bool, stop_on_failure: bool
    ) -> int:
        """Carry out what is not done; return the exit status."""
        from ganglion_sweep.runner import Runner, check_begun, cores, todo

        uri = store_uri(self.settings)
        with ExitStack() as stack:
            book = stack.enter_context(store_class(uri).point_book(uri, self.folder.uid))
            self._settle(book)
            search = None
            if self.experiment.search is not None:
                from ganglion_sweep.search import Search

                search = Search(self.experiment, uri)
                self.points = search.known()
            files = self.folder.files(self.points)
            known = book.points()
            check_begun(self.folder.uid, self.points, known, resume)
            self.folder.check(files)
            ahead = todo(self.points, known, retry_failed)
            runner = Runner(self.settings, self.folder, self.progress, parallel or cores(), stop_on_failure)
            runner.search = search
            stack.callback(self.progress.close)
            rows = len({point.row for point in self.points}) if search is None else search.trials
            runs = len(self.points) if search is None else search.trials * self.experiment.repetitions
            todo_ = len(ahead) if search is None else runs - sum(row["state"] == "done" for row in known)
            self.progress.begin(self.folder.uid, self.experiment.seed, runs, rows, todo_, str(self.folder.path))
            if search is not None:
                loop.run(self._search(runner, launcher, book, search, retry_failed))
                self.progress.note(search.best())
            elif ahead:
                loop.run(self._carry_out(runner, launcher, book, ahead, files))
            return self._end(book, runner)

    def _settle(self, book: PointBook) -> None:
        """Find out what became of runs whose command was killed."""
        from ganglion_sweep.runner import settled

        known = book.points()
        if not any(row["state"] == "running" for row in known):
            return
        with open_reader(self.settings) as reader:
            finished = {row["run"]: row["status"] for row in reader.rows("runs", columns=["run", "status"])}
        runs = {row["point"]: row["run"] for row in known}
        for number, state in settled(known, finished).items():
            if finished.get(runs[number]) == "running":
                _end_lost(store_uri(self.settings), runs[number])
            book.change(number, state, runs[number], None if state == "done" else _LOST)

    async def _carry_out(
        self, runner: Runner, launcher: Local, book: PointBook, ahead: Sequence[Point], files: dict[Any, bytes]
    ) -> None:
        async with runner.session(ahead, launcher) as session:
            for warning in await runner.check(session, ahead):
                self.progress.note(str(warning))
            if session.interrupts:
                runner.interrupted = True
            else:
                self.folder.write(files)
                states = {row["point"]: row["state"] for row in book.points()}
                chosen = {point.number for point in ahead}
                fresh = [p for p in self.points if p.number in chosen or p.number not in states]
                book.plan([point.record() for point in fresh])
                await runner.carry_out(session, book, ahead)
                if not session.alive and not session.interrupts:
                    self.progress.note("the broker has ended; `--resume` goes on with the runs that are left")
        runner.left = session.found

    async def _search(
        self, runner: Runner, launcher: Local, book: PointBook, search: Search, retry_failed: bool
    ) -> None:
        """Carry out batch after batch, and tell what came of each."""
        from ganglion_sweep.point import check_points
        from ganglion_sweep.runner import todo

        batch = search.batch()
        if not batch:
            return
        async with runner.session(batch, launcher) as session:
            while batch and session.alive and not session.interrupts:
                check_points([point for point in batch if point.repetition == 0])
                for warning in await runner.check(session, batch):
                    self.progress.note(str(warning))
                self.points = search.known()
                self.folder.write(self.folder.files(self.points))
                states = {row["point"]: row["state"] for row in book.points()}
                book.plan([point.record() for point in batch if states.get(point.number) != "done"])
                await runner.carry_out(session, book, todo(batch, book.points(), retry_failed))
                with open_reader(self.settings) as reader:
                    search.tell({row["point"]: row for row in book.points()}, reader)
                if runner.stopped:
                    break
                batch = search.batch()
        runner.left = session.found
        if runner.reader is not None:
            runner.reader.close()

    def _end(self, book: PointBook, runner: Runner) -> int:
        """Show what came of it; return the exit status."""
        from ganglion_sweep.progress import table_rows

        known = [row for row in book.points() if row["point"] < len(self.points)]
        whole = (row for row in known if row["state"] == "done" and not (row["reason"] or "").startswith("pruned"))
        done = {row["point"]: row["run"] for row in whole}
        rows: list[dict[str, Any]] = []
        if done:
            try:
                with open_reader(self.settings) as reader:
                    rows = table_rows(self.points, done, reader)
            except GanglionError as error:  # a run that was removed since
                self.progress.note(f"no table of results: {error}")
        states = Counter(row["state"] for row in known)
        failed = [self._failed(row) for row in known if row["state"] == "failed"]
        shares = self._indices(rows)
        self.progress.end({s: states[s] for s in ("done", "failed", "planned")}, rows, failed, shares)
        for text in runner.left:
            self.progress.note(f"defect: {text} was left behind and has been ended")
        if runner.interrupted:
            self.progress.note(f"go on: {self.words} --resume")
            return _INTERRUPTED
        return 1 if failed or runner.left or states["done"] < len(self.points) else 0

    def _indices(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return Sobol's indices of each agent's mean return, where the design is made for them and all is done."""
        experiment = self.experiment
        if experiment.design.rpartition(":")[2] != "sensitivity" or not rows:
            return []
        undone = sum(row["done"] < row["runs"] for row in rows)
        if undone:
            self.progress.note(f"no indices of sensitivity: {undone} of {len(rows)} points are not done")
            return []
        from ganglion_sweep.quasi import indices

        found: list[dict[str, Any]] = []
        names = [factor.name for factor in experiment.factors]
        for agent in dict.fromkeys(agent for row in rows for agent in row["returns"]):
            values = [row["returns"][agent].mean for row in rows if agent in row["returns"]]
            if len(values) < len(rows):
                self.progress.note(f"no indices of sensitivity of {agent}: it has no return at some points")
                continue
            second = bool(experiment.params.get("second_order", False))
            shares = indices(names, experiment.samples, values, second, experiment.seed % 2**32)
            if not shares:
                self.progress.note(f"no indices of sensitivity of {agent}: its return is the same at all points")
            found += [{"agent": agent, **share} for share in shares]
        return found

    def _failed(self, row: dict[str, Any]) -> dict[str, Any]:
        uid = f"{self.folder.uid}-{row['point']}"
        return {
            "point": row["point"],
            "uid": uid,
            "run": row["run"],
            "reason": row["reason"],
            "show": shlex.join(["ganglion", "results", "phases", row["run"] or uid, *_places(self.settings)]),
            "repeat": f"{self.words} --retry-failed",
        }
