"""Resume: a run that was begun before goes on, or begins a phase again from its checkpoint."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ganglion.errors import GanglionError, LaunchError
from ganglion.limits import DEADLINES_S, LEAVE_KILL_S
from ganglion.supervisor import event
from ganglion.supervisor.checkpoints import Checkpoints, RecoveryPlan, newest_cut
from ganglion.supervisor.child import Event
from ganglion.supervisor.folder import participants, read_process_table
from ganglion.supervisor.runs import Run, wait_gone
from ganglion.wire.messages import Failure, GovernorStart, Withdraw
from ganglion.wire.name import KERNEL

if TYPE_CHECKING:
    from ganglion.supervisor.supervisor import Supervisor

_REPLAY_BYTES_PER_S = 1_000_000  # a journal is replayed at least so fast


async def prepare(run: Run, recovery: RecoveryPlan) -> None:
    """Put the journals of a run that goes on in their places; StoreError if that cannot be done."""
    checkpoints = Checkpoints(run.folder.path)
    run.recovery = recovery
    table = await asyncio.to_thread(read_process_table, run.folder.path)
    if table is not None:
        for name, life in table.lives.items():  # no incarnation is given out twice
            run.incarnations[name] = max(life.incarnation, run.incarnations.get(name, 0))
        run.signals = run.signals or list(table.signals)
    if recovery.cut is not None:
        run.phase = int(recovery.cut["phase"])
        await asyncio.to_thread(checkpoints.forget)
    elif recovery.checkpoint is not None:
        run.phase = int(recovery.checkpoint.facts["phase"])
        await asyncio.to_thread(checkpoints.restore, recovery.checkpoint)
    elif table is not None:  # the journals are of the phase that was running
        run.phase = min(table.phase, len(run.plan.phases) - 1)
    run.withdrawal = _withdrawal(run, recovery)
    if recovery.cut is not None:
        run.unheard = _unheard(run)
    compared = "GANGLION_WITHDRAW_ALL" not in run.withdrawal and not run.keeps(run.phase)
    run.again = run.phase if recovery.cut is not None and compared else None


def _unheard(run: Run) -> str:
    """Return in words which signals of operators are lost with the phases that begin again; forget them."""
    gone = [signal for phase, signal in run.signals if phase >= run.phase]
    run.signals = [(phase, signal) for phase, signal in run.signals if phase < run.phase]
    if not gone:
        return ""
    return (
        f"phase {run.phase} begins again without what operators have signalled in it ({', '.join(gone)}): it is "
        "not known at which step each was heard; signal again what is still wanted"
    )


def _withdrawal(run: Run, recovery: RecoveryPlan) -> dict[str, str]:
    """Return the variables that tell the store what it takes back.

    Open episodes, always. What was sealed after a checkpoint of all processes: it comes again, and differs after an
    interruption, which ends episodes early. What was sealed after the begin of a phase is compared when it comes
    again, unless the run was interrupted in it; a phase that is not repeatable keeps it.
    """
    if recovery.cut is None and recovery.checkpoint is None:
        return {}
    told = {"GANGLION_WITHDRAW": str(run.phase)}
    if recovery.checkpoint is not None:
        told["GANGLION_WITHDRAW_BEHIND"] = str(run.phase)
    elif (recovery.stopped or run.interrupts) and not run.keeps(run.phase):
        told["GANGLION_WITHDRAW_ALL"] = str(run.phase)
    return told


async def begin(supervisor: Supervisor, run: Run) -> None:
    """Start all processes that the present phase of a run needs, and have the governor begin, or go on."""
    recovery, places = run.recovery, run.needed()
    if not run.rewound:
        told: dict[str, Any] = {"seed": run.plan.seed, "processes": len(places) + 1}
        resumed = {} if recovery is None else {"resumed": recovery.words}
        supervisor.tell(run, event.RUN_STARTED, {**told, "participants": participants(places), **resumed})
    await supervisor.ensure(run, places)
    keeper = run.keeper.name if run.keeper else None
    first = [run.governor.name, *([keeper] if keeper else [])]
    journals = [journal for name in first if (journal := run.members[name].journal) is not None]
    longest = max((journal.stat().st_size for journal in journals if journal.exists()), default=0)
    await supervisor.wait_joined(run, first, (DEADLINES_S["join"] or 0.0) + longest / _REPLAY_BYTES_PER_S)
    run.withdrawal = {}
    if recovery is None or recovery.cut is not None:
        tree = await asyncio.to_thread(run.plan.to_map)
        cut = None if recovery is None or recovery.cut is None else dict(recovery.cut)
        await supervisor.bus.ask(run.governor.name, "governor.start", GovernorStart(run.id, tree, keeper, None, cut))
    unstopped = run.interrupts and not run.begun
    run.begun = True
    if recovery is not None and recovery.cut is None and not run.rewound:  # the governor is in the midst of a phase
        supervisor.tell(run, event.PHASE_STARTED, {**run.plan.phases[run.phase].started(), "resumed": True})
    await supervisor.note(run)
    if run.unheard:
        supervisor.tell(run, event.WARNING, {"text": run.unheard})
        supervisor.restarter.report(run, "operator", 0, "signals lost", run.unheard)
    if recovery is not None and recovery.checkpoint is not None:
        await asyncio.to_thread(Checkpoints(run.folder.path).went_on, recovery.checkpoint)
    if unstopped:
        await supervisor.ask_stop(run)


async def rewind(supervisor: Supervisor, run: Run, reason: str, peer: str) -> None:
    """Begin a run again from its newest checkpoint of a phase's begin, once; a second time it fails by name."""
    text = reason.partition("\n")[0]
    if run.rewound:
        run.fail(f"nondeterministic: {text}", Failure("nondeterministic", reason), peer)
        return
    run.rewound = True
    if run.beginning is not None and run.beginning.cancel():
        await asyncio.wait([run.beginning])
    async with run.changing:
        try:
            await _end_all(supervisor, run)
            cut, wrong = await asyncio.to_thread(newest_cut, run.folder.path, run.id)
            words = f"it goes back to the begin of phase {cut['phase']}: {text}"
            for warning in (*wrong, words):
                supervisor.tell(run, event.WARNING, {"text": warning})
            await prepare(run, RecoveryPlan(words, cut))
            await begin(supervisor, run)
            number = run.incarnations.get(peer, 0)
            supervisor.restarter.report(run, peer.partition("/")[2], number, "rewound", words)
        except (GanglionError, OSError) as error:
            run.fail(f"nondeterministic: {text}; and it cannot begin again: {error}", None, peer)


async def _end_all(supervisor: Supervisor, run: Run) -> None:
    """Kill all processes of a run; none of them is replaced."""
    run.begun = False
    members, run.members = list(run.members.values()), {}
    for member in members:
        member.end(Event.KILL)
    run.former += members
    await wait_gone(members, 2 * LEAVE_KILL_S)
    late = [member for member in members if not member.gone.is_set()]
    if late:
        raise LaunchError(f"{len(late)} processes cannot be ended")
    await supervisor.bus.ask(KERNEL, "kernel.withdraw", Withdraw([member.name for member in members]))
