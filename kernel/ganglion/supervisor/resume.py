"""Resume: a run that was begun before goes on, or begins a phase again from its checkpoint."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ganglion.errors import GanglionError, LaunchError
from ganglion.limits import DEADLINES_S, LEAVE_KILL_S
from ganglion.supervisor import event
from ganglion.supervisor.checkpoints import Moments, Way, newest_cut
from ganglion.supervisor.child import Event
from ganglion.supervisor.folder import participants, read_census
from ganglion.supervisor.runs import Run, wait_gone
from ganglion.wire.messages import Failure, GovernorStart, Withdraw
from ganglion.wire.name import KERNEL

if TYPE_CHECKING:
    from ganglion.supervisor.supervisor import Supervisor

_REPLAY_BYTES_PER_S = 1_000_000  # a journal is replayed at least so fast


async def prepare(run: Run, way: Way) -> None:
    """Put the journals of a run that goes on in their places; StoreError if that cannot be done."""
    moments = Moments(run.folder.path)
    run.way = way
    census = await asyncio.to_thread(read_census, run.folder.path)
    if census is not None:
        for name, life in census.lives.items():  # no incarnation is given out twice
            run.incarnations[name] = max(life.incarnation, run.incarnations.get(name, 0))
        run.signals = run.signals or list(census.signals)
    if way.cut is not None:
        run.phase = int(way.cut["phase"])
        await asyncio.to_thread(moments.forget)
    elif way.moment is not None:
        run.phase = int(way.moment.facts["phase"])
        await asyncio.to_thread(moments.restore, way.moment)
    elif census is not None:  # the journals are of the phase that was running
        run.phase = min(census.phase, len(run.plan.phases) - 1)
    run.withdrawal = _withdrawal(run, way)
    if way.cut is not None:
        run.unheard = _unheard(run)
    compared = "GANGLION_WITHDRAW_ALL" not in run.withdrawal and not run.keeps(run.phase)
    run.again = run.phase if way.cut is not None and compared else None


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


def _withdrawal(run: Run, way: Way) -> dict[str, str]:
    """Return the variables that tell the store what it takes back.

    Open episodes, always. What was sealed after a checkpoint of all processes: it comes again, and differs after an
    interruption, which ends episodes early. What was sealed after the begin of a phase is compared when it comes
    again, unless the run was interrupted in it; a phase that is not repeatable keeps it.
    """
    if way.cut is None and way.moment is None:
        return {}
    told = {"GANGLION_WITHDRAW": str(run.phase)}
    if way.moment is not None:
        told["GANGLION_WITHDRAW_BEHIND"] = str(run.phase)
    elif (way.stopped or run.interrupts) and not run.keeps(run.phase):
        told["GANGLION_WITHDRAW_ALL"] = str(run.phase)
    return told


async def begin(supervisor: Supervisor, run: Run) -> None:
    """Start all processes that the present phase of a run needs, and have the governor begin, or go on."""
    way, places = run.way, run.needed()
    if not run.rewound:
        told: dict[str, Any] = {"seed": run.plan.seed, "processes": len(places) + 1}
        resumed = {} if way is None else {"resumed": way.words}
        supervisor.tell(run, event.RUN_STARTED, {**told, "participants": participants(places), **resumed})
    await supervisor.ensure(run, places)
    keeper = run.keeper.name if run.keeper else None
    first = [run.governor.name, *([keeper] if keeper else [])]
    tapes = [tape for name in first if (tape := run.members[name].tape) is not None]
    longest = max((tape.stat().st_size for tape in tapes if tape.exists()), default=0)
    await supervisor.wait_joined(run, first, (DEADLINES_S["join"] or 0.0) + longest / _REPLAY_BYTES_PER_S)
    run.withdrawal = {}
    if way is None or way.cut is not None:
        tree = await asyncio.to_thread(run.plan.to_map)
        cut = None if way is None or way.cut is None else dict(way.cut)
        await supervisor.bus.ask(run.governor.name, "governor.start", GovernorStart(run.id, tree, keeper, None, cut))
    unstopped = run.interrupts and not run.begun
    run.begun = True
    if way is not None and way.cut is None and not run.rewound:  # the governor is in the midst of a phase
        supervisor.tell(run, event.PHASE_STARTED, {**run.plan.phases[run.phase].started(), "resumed": True})
    await supervisor.note(run)
    if run.unheard:
        supervisor.tell(run, event.WARNING, {"text": run.unheard})
        supervisor.restarter.report(run, "operator", 0, "signals lost", run.unheard)
    if way is not None and way.moment is not None:
        await asyncio.to_thread(Moments(run.folder.path).went_on, way.moment)
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
            await prepare(run, Way(words, cut))
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
