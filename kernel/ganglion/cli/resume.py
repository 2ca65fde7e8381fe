"""`ganglion resume`: resumes a run that was interrupted, has failed, or whose processes have vanished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ganglion.cli.progress import make_progress
from ganglion.cli.run import Options, RunSession
from ganglion.cli.session import beside, bind_options, checked_bind, companion_options, companions, warmed
from ganglion.cli.settings import Settings
from ganglion.cli.stores import newest_folder, store_of
from ganglion.errors import UsageError
from ganglion.run.plan import Plan, ours, processes_of, recovers
from ganglion.supervisor.connection import find_connections
from ganglion.supervisor.folder import (
    MANIFEST,
    ProcessTable,
    RunFolder,
    boot_id,
    differences,
    end_orphans,
    fingerprint,
    read_manifest,
    read_origin,
    read_process_table,
    remove_connection,
    seal,
)
from ganglion.supervisor.output import without_password
from ganglion.supervisor.resume import RecoveryPlan, forget, recovery_plan
from ganglion.supervisor.runs import Outcome
from ganglion.transport import loop
from ganglion.wire.messages import Ended

_FINISHED = "finished"


@click.command("resume")
@click.argument("run", metavar="RUN")
@click.option(
    "--accept-fingerprint",
    "accept",
    is_flag=True,
    help="go on with other versions or another processor; results may differ, and the manifest says so",
)
@click.option("--allow", multiple=True, metavar="PACKAGE", help="a package that import paths may name")
@companion_options
@bind_options
@click.pass_obj
def command(
    settings: Settings, /, run: str, accept: bool, allow: tuple[str, ...], bind: str | None, no_curve: bool, **more: Any
) -> int:
    """Go on with RUN under its id; its results are those of a run that was never cut."""
    where = checked_bind(bind, no_curve)
    folder, manifest = _find(settings.results, run)
    if manifest.get("status") == _FINISHED:
        why = manifest.get("reason")
        raise UsageError(f"run {folder.run} has finished ({why}): there is nothing to go on with")
    table = read_process_table(folder.path)
    if table is not None and table.ended is not None and table.ended.status == _FINISHED:
        return _complete(settings, folder, manifest, table, table.ended)
    found = companions(settings, more)
    with warmed(settings) as launcher:
        others = _other_installation(manifest, accept)
        plan, allowed = read_origin(folder.path, manifest.get("plan"))
        parts = [(f"environment {e.uid}", e.program) for phase in plan.phases for e in phase.environments]
        parts += [(f"agent {agent.name}", agent.program) for phase in plan.phases for agent in phase.agents]
        programs = [what for what, program in parts if program is not None and program.command]
        if programs and settings.commands == "deny":
            raise UsageError(f"{programs[0]}: documents start no programs here (commands: deny)")
        settings = replace(settings, store=_store(settings, manifest))
        recovery = _recovery_plan(settings, folder, manifest, plan)
    options = Options(allow=(*allowed, *allow), where=where)
    session = RunSession(settings, options, launcher)
    with beside(found, session.tell) as session.tell:
        return loop.run(_resume(session, plan, folder, recovery, others))


def _find(results: Path, run: str) -> tuple[RunFolder, dict[str, Any]]:
    """Return folder and manifest of a run: by its id, else the newest with that uid."""
    path = newest_folder(results, run)
    if path is None:
        raise UsageError(f"expected a run in {results}, found no {run!r}; `ganglion runs` lists them")
    manifest, wrong = read_manifest(path)
    if wrong or manifest.get("run") != path.name:
        raise UsageError(f"{path / MANIFEST}: expected the manifest of the run: {wrong or 'it is of another'}")
    return RunFolder(path.name, path), manifest


def _complete(
    settings: Settings, folder: RunFolder, manifest: Mapping[str, Any], table: ProcessTable, ended: Ended
) -> int:
    """Complete a finished run whose supervisor was lost before it sealed the manifest; return 0."""
    if table.boot == boot_id() != "":
        end_orphans(folder.run, table)
    remove_connection(settings.results, folder.run)
    seal(folder.path, ended.status, ended.reason, ended.heads)
    forget(folder.path)
    progress = make_progress(settings)
    progress.begin(folder.run, str(manifest.get("seed")), str(folder.path))
    progress.note(f"resuming {folder.run}: it had finished; its manifest is complete now")
    progress.end(Outcome(folder.run, ended.status, ended.reason, 0), manifest.get("store"))
    return 0


def _recovery_plan(settings: Settings, folder: RunFolder, manifest: Mapping[str, Any], plan: Plan) -> RecoveryPlan:
    """Return the plan of the resumption; remaining processes of the run are ended first."""
    run, status = folder.run, manifest.get("status")
    table = read_process_table(folder.path)
    if table is None:
        for path, connection in find_connections(settings.results):
            if connection.run == run:  # its supervisor has not written any state yet
                raise UsageError(f"run {run} goes on already (process {connection.pid}, {path})")
        remove_connection(settings.results, run)
        return recovery_plan(folder.path, run, status, False, False)
    here = table.boot == boot_id() != ""
    if here:
        end_orphans(run, table)
    remove_connection(settings.results, run)
    recorded = here and table.begun and recovers(plan)
    if recorded:  # journals of other machines are not here
        places = processes_of(run, plan.phases[table.phase])
        recorded = all(ours(place) and folder.journal(place).exists() for place in places)
    ended = None if table.ended is None else table.ended.status
    return recovery_plan(folder.path, run, status or ended, recorded, table.stopping)


def _other_installation(manifest: Mapping[str, Any], accept: bool) -> list[str]:
    """Return how this installation's versions differ from the run's; UsageError unless that is accepted."""
    now = fingerprint()
    found = differences({name: manifest.get(name) for name in now}, now)
    if found and not accept:
        lines = "\n  ".join(found)
        raise UsageError(
            f"this installation is not the one that the run was begun with, so results may differ:\n  {lines}\n"
            "--accept-fingerprint goes on all the same"
        )
    return found


def _store(settings: Settings, manifest: Mapping[str, Any]) -> str | None:
    """Return the URI of the run's store: the recorded one, or the given one if both are the same."""
    then = manifest.get("store")
    if then is None:
        return "none"
    given = store_of(settings)
    if given is not None and without_password(given) == then:
        return given
    if settings.store is not None:
        found = "none" if given is None else without_password(given)
        raise UsageError(f"--store: expected that of the run, {then}, found {found}")
    if "***" in str(then):
        raise UsageError(f"expected --store with the password of {then}, which is kept nowhere")
    return str(then)


async def _resume(
    session: RunSession, plan: Plan, folder: RunFolder, recovery: RecoveryPlan, others: Sequence[str]
) -> int:
    """Resume a run; return the exit status of the command."""
    session.progress.begin(folder.run, plan.seed, str(folder.path))
    for text in (*recovery.wrong, *(f"accepted: {text}" for text in others)):
        session.progress.note(f"warning: {text}")
    session.progress.note(f"resuming {folder.run}: {recovery.words}")
    folder.reopen(recovery.words, others)
    return await session.attend(folder, [plan], lambda: session.execute(plan, folder, recovery))
