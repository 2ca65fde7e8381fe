"""`ganglion run`: carries out documents, from the first process to the last."""

from __future__ import annotations

import asyncio
import itertools
import shlex
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ganglion.cli.progress import Progress, make_progress
from ganglion.cli.session import (
    Session,
    Tell,
    beside,
    bind_options,
    check_name,
    checked_bind,
    companion_options,
    companions,
    document_file,
    warmed,
)
from ganglion.cli.settings import INTERRUPTED, Settings
from ganglion.cli.stores import store_of
from ganglion.cli.table import counted, tell
from ganglion.errors import DocumentError
from ganglion.run.plan import PhasePlan, Plan, Process, processes_of
from ganglion.supervisor.launch.local import Local
from ganglion.wire.name import Role

if TYPE_CHECKING:
    from ganglion.supervisor.folder import RunFolder
    from ganglion.supervisor.resume import RecoveryPlan


def plan_rows(plan: Plan) -> dict[str, Any]:
    """Return a plan's phases and processes, each with its seed, as plain values."""
    from ganglion.cli.child import path_of, seeds_of  # a child imports the arrays that make seeds
    from ganglion.supervisor.folder import run_id

    phases = []
    processes_by_phase = [(phase, processes_of(run_id(plan.uid), phase)) for phase in plan.phases]
    seeds = iter(seeds_of(plan.seed, [path_of(phase, p) for phase, found in processes_by_phase for p in found]))
    for phase, found in processes_by_phase:
        processes = []
        for p in found:
            row = {"name": p.name, "role": p.role.value, "uid": p.uid, "worker": p.worker, "evaluation": p.evaluation}
            processes.append({**row, "seed": next(seeds), "starts": _start(p, phase)})
        head = {"phase": phase.index, "name": phase.name, "mode": phase.mode, "workers": phase.workers}
        phases.append({**head, "episodes": phase.episodes, "sync": phase.sync, "processes": processes})
    return {"uid": plan.uid, "seed": plan.seed, "source": plan.source, "phases": phases}


def _start(process: Process, phase: PhasePlan) -> str:
    environment, program = process.environment, process.program
    agent = next((agent for agent in phase.agents if agent.name == process.uid), None)
    if program is not None:
        line = None if program.command is None else shlex.join(program.command)
        return f"attach: {process.uid} is started from outside" if line is None else f"command: {line}"
    if environment is not None and environment.plugin is not None:
        return f"plugin: {environment.plugin.name}"
    if process.role is Role.BRAIN and agent is not None and agent.brain is not None:
        return f"plugin: {agent.brain.name}"
    if process.role is Role.MUSCLE and agent is not None and agent.muscle is not None:
        return f"plugin: {agent.muscle.name}, objective {agent.objective.name}"
    return f"plugin: {phase.controller.name}"


def _lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the processes of a plan as text."""
    for row in rows:
        yield f"{row['uid']} · seed {row['seed']} · {row['source']}"
        for phase in row["phases"]:
            workers, episodes = counted(phase["workers"], "worker"), phase["episodes"] or "until a condition ends it"
            head = f"phase {phase['phase']} {phase['name']}: {phase['mode']}, {phase['sync']}"
            yield f"{head}, {workers}, episodes {episodes}"
            yield "  broker, governor, store"
            for process in phase["processes"]:
                yield f"  {process['name']:<40} seed {process['seed']:>19}  {process['starts']}"


_REDRAW_S = 0.5


@dataclass(frozen=True, slots=True)
class Options:
    """Hold the options given with the documents."""

    overrides: tuple[str, ...] = ()
    seed: int | None = None
    name: str | None = None
    allow: tuple[str, ...] = ()
    parallel: int = 1
    sync: str | None = None
    where: dict[str, str] = field(default_factory=dict)


@click.command("run")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="set a value of the documents")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="seed in place of the documents' own")
@click.option("--name", metavar="ID", help="id of the run [UID-NUMBER]")
@click.option(
    "--sync",
    type=click.Choice(["lockstep", "pipelined", "async"]),
    help="when brains think, in every phase [as the documents say]",
)
@click.option("--parallel", type=click.IntRange(min=1), default=1, metavar="N", help="runs at the same time [1]")
@click.option("--allow", multiple=True, metavar="PACKAGE", help="a package that import paths may name")
@click.option("--plan", "only_plan", is_flag=True, help="print processes and seeds; start nothing")
@companion_options
@bind_options
@click.pass_obj
def command(
    settings: Settings, /, files: tuple[str, ...], only_plan: bool, bind: str | None, no_curve: bool, **more: Any
) -> int:
    """Run documents one after the other; without a FILE the demo.

    A FILE may also be the name of a plugin's document (`ganglion plugins documents`), or `-` for standard input.
    """
    found = companions(settings, more)
    options = Options(**more, where=checked_bind(bind, no_curve))
    check_name(options.name, files)
    if only_plan:
        rows = [plan_rows(plan) for plan in load(files, options, settings.verbosity > 0)]
        tell(settings, rows, _lines(rows))
        return 0
    from ganglion import registry

    with warmed(settings) as launcher:
        store_of(settings)  # a store that no plugin can open is refused before anything starts
        plans = load(files, options, settings.verbosity > 0)
        launcher.prepare(registry.shared_imports(plans[0]))  # at once: the check of the plan waits for these imports
    from ganglion.transport import loop

    session = RunSession(settings, options, launcher)
    with beside(found, session.tell) as session.tell:
        return loop.run(session.carry_out(plans))


def load(files: Sequence[str], options: Options, verbose: bool = False) -> list[Plan]:
    """Return the plans of all documents; DocumentError holds the faults of all documents.

    Warnings are printed; with `verbose` also the names of other projects that were read as ours.
    """
    from ganglion import registry
    from ganglion.document import load_document
    from ganglion.document.fault import Fault, gathered, report

    faults: list[Fault] = []
    plans: list[Plan] = []
    for file in map(document_file, files or ["demo"]):
        notes: list[Fault] = []
        try:
            given: dict[str, Any] = {"overrides": options.overrides, "seed": options.seed, "sync": options.sync}
            plan, warnings = load_document(file, plugins=registry, allow=options.allow, notes=notes, **given)
        except DocumentError as error:
            faults += error.faults
            continue
        if notes and verbose:
            click.echo(gathered(notes), err=True)
        for warning in warnings:
            click.echo(str(warning), err=True)
        plans.append(plan)
    if faults:
        raise DocumentError(report(faults), faults)
    return plans


class RunSession:
    """Carry out the runs of one command line with one session, and show them."""

    session: Session

    def __init__(self, settings: Settings, options: Options, launcher: Local) -> None:
        self.settings = settings
        self.options = options
        self.launcher = launcher
        self.progress: Progress = make_progress(settings)
        self.tell: Tell = self.progress.event
        self.statuses: list[int] = []

    async def carry_out(self, plans: Sequence[Plan]) -> int:
        """Carry out all plans; return the exit status of the command."""
        from ganglion.supervisor.folder import reserve

        first = reserve(self.settings.results, plans[0].uid, self.options.name)  # also holds the broker's log
        self.progress.begin(first.run, plans[0].seed, str(first.path))
        gate = asyncio.Semaphore(self.options.parallel)

        async def work() -> None:
            folders = itertools.chain([first], itertools.repeat(None))
            runs = (self._run(gate, plan, folder) for plan, folder in zip(plans, folders, strict=False))
            for result in await asyncio.gather(*runs, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result

        try:
            return await self.attend(first, plans, work, plans[0])
        finally:
            if first.run not in self.session.supervisor.runs:
                first.release()

    async def attend(
        self, first: RunFolder, plans: Sequence[Plan], work: Callable[[], Awaitable[None]], checked: Plan | None = None
    ) -> int:
        """Run `work` between the start of a session and its end; return the exit status of the command.

        `checked` is the plan whose plugins are checked while the session starts.
        """
        where = self.options.where
        tcp = "bind" in where or any(plan.needs_tcp for plan in plans)
        place = (self.settings, first.run, first.logs, self.launcher, tcp, self.tell, self.progress.note)
        self.session = Session(*place, allow=self.options.allow, where=where, first=checked)
        drawing = asyncio.create_task(self._redraw())
        try:
            async with self.session:
                try:
                    for line in self.session.places() if where else ():
                        self.progress.note(line)
                    await work()
                finally:
                    self.progress.close()
        finally:
            drawing.cancel()
        return self._status(len(plans))

    async def execute(self, plan: Plan, folder: RunFolder | None, recovery: RecoveryPlan | None = None) -> None:
        """Carry out a checked run, and show how it ended; the begin of a run with a folder was shown already."""

        def begin(run: str) -> None:
            if folder is None:
                self.progress.begin(run, plan.seed, str(self.settings.results / run))

        outcome = await self.session.execute(plan, begin, folder, recovery)
        self.progress.end(outcome, self.session.store)
        self.statuses.append(outcome.exit_status)

    async def _redraw(self) -> None:
        """Refresh the time in the view until the end."""
        while True:
            await asyncio.sleep(_REDRAW_S)
            self.progress.refresh()

    async def _run(self, gate: asyncio.Semaphore, plan: Plan, folder: RunFolder | None) -> None:
        """Check and carry out a plan."""
        from ganglion.document.fault import report, settle

        async with gate:
            if self.session.interrupts:
                return
            found = settle(await self.session.check(plan))
            if any(fault.severity == "error" for fault in found):
                raise DocumentError(report(found), found)
            for warning in found:
                self.progress.note(str(warning))
            await self.execute(plan, folder)

    def _status(self, planned: int) -> int:
        """Return the exit status of the command: interruption before failure before orphaned processes."""
        defects = self.session.report_defects()
        whole = self.statuses == [0] * planned  # Ctrl-C arrived after the last step
        if INTERRUPTED in self.statuses or (self.session.interrupts and not whole):
            return INTERRUPTED
        return 1 if defects or 1 in self.statuses else max(self.statuses, default=0)
