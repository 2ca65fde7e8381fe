"""Resume: a run that was begun before goes on, or begins again from its newest cut."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganglion.errors import GanglionError, LaunchError
from ganglion.limits import DEADLINES_S, LEAVE_KILL_S
from ganglion.supervisor import event
from ganglion.supervisor.checkpoints import Moments, Way, newest_cut
from ganglion.supervisor.folder import Census, participants, read_census
from ganglion.supervisor.restart import now
from ganglion.wire.messages import Failure, GovernorStart, Incident, Withdraw
from ganglion.wire.name import KERNEL

if TYPE_CHECKING:
    from ganglion.supervisor.runs import Run
    from ganglion.supervisor.supervisor import Supervisor

_HEARD_BYTES_PER_S = 1_000_000  # a tape is heard at least so fast


async def prepare(run: Run, way: Way) -> None:
    """Put the tapes of a run that goes on where they belong; StoreError if that cannot be done."""
    moments = Moments(run.folder.path)
    run.way = way
    census = await asyncio.to_thread(read_census, run.folder.path)
    run.incarnations = _incarnations(run, census)
    run.signals = run.signals or list(() if census is None else census.signals)
    if way.cut is not None:
        run.phase = int(way.cut["phase"])
        await asyncio.to_thread(moments.forget)
    elif way.moment is not None:
        run.phase = int(way.moment.facts["phase"])
        await asyncio.to_thread(moments.restore, way.moment)
    elif census is not None:  # tapes are those of the phase that was running
        run.phase = min(census.phase, len(run.plan.phases) - 1)
    run.withdrawal = _withdrawal(run, way)
    if way.cut is not None:
        run.unheard = _unheard(run)
    compared = "GANGLION_WITHDRAW_ALL" not in run.withdrawal and not run.keeps(run.phase)
    run.again = run.phase if way.cut is not None and compared else None


def _unheard(run: Run) -> str:
    """Return in words which signals of operators the phases have taken that begin again; none of them has any."""
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

    What was cut short, always. What was sealed behind a moment goes: it comes again, and not alike after an
    interruption, since an interrupted run ends its episodes without those that have ended before. What was sealed
    behind the begin of a phase is compared when it comes again, unless the run was interrupted in it; a phase that is
    not repeatable keeps it.
    """
    if way.cut is None and way.moment is None:
        return {}
    told = {"GANGLION_WITHDRAW": str(run.phase)}
    if way.moment is not None:
        told["GANGLION_WITHDRAW_BEHIND"] = str(run.phase)
    elif (way.stopped or run.interrupts) and not run.keeps(run.phase):
        told["GANGLION_WITHDRAW_ALL"] = str(run.phase)
    return told


def _incarnations(run: Run, census: Census | None) -> dict[str, int]:
    """Return those that were given out before: nobody bears one twice."""
    known = {} if census is None else {name: life.incarnation for name, life in census.lives.items()}
    return {**known, **{name: max(n, known.get(name, 0)) for name, n in run.incarnations.items()}}


async def begin(supervisor: Supervisor, run: Run) -> None:
    """Start everybody whom the present phase of a run needs, and have the governor begin, or go on."""
    way = run.way
    places = [run.governor, *([run.keeper] if run.keeper else []), *run.places(run.phase)]
    if not run.rewound:
        told: dict[str, Any] = {"seed": run.plan.seed, "processes": len(places) + 1}
        resumed = {} if way is None else {"resumed": way.words}
        supervisor.tell(run, event.RUN_STARTED, {**told, "participants": participants(places), **resumed})
    await supervisor.ensure(run, places)
    first = [run.governor.name, *([run.keeper.name] if run.keeper else [])]
    await supervisor.wait_joined(run, first, _patience_s(run, first))
    run.withdrawal = {}
    if way is None or way.cut is not None:
        await _start(supervisor, run, None if way is None else way.cut)
    unstopped = run.interrupts and not run.begun
    run.begun = True
    if way is not None and way.cut is None and not run.rewound:  # the governor is in the midst of a phase
        supervisor.tell(run, event.PHASE_STARTED, {**run.plan.phases[run.phase].started(), "resumed": True})
    await supervisor.note(run)
    if run.unheard:
        supervisor.tell(run, event.WARNING, {"text": run.unheard})
        supervisor.revival.report(run, Incident(now(), "operator", 0, "signals lost", None, run.unheard))
    if way is not None and way.moment is not None:
        await asyncio.to_thread(Moments(run.folder.path).went_on, way.moment)
    if unstopped:
        await supervisor.ask_stop(run)


def _patience_s(run: Run, names: Sequence[str]) -> float:
    """Return how long these may take to join: they hear their tapes before."""
    tapes = [tape for name in names if (tape := run.members[name].tape) is not None]
    longest = max((tape.stat().st_size for tape in tapes if tape.exists()), default=0)
    return (DEADLINES_S["join"] or 0.0) + longest / _HEARD_BYTES_PER_S


async def _start(supervisor: Supervisor, run: Run, cut: Mapping[str, Any] | None) -> None:
    assert supervisor.bus is not None
    tree = await asyncio.to_thread(run.plan.to_map)
    keeper = run.keeper.name if run.keeper else None
    request = GovernorStart(run.id, tree, keeper, None, None if cut is None else dict(cut))
    await supervisor.bus.ask(run.governor.name, "governor.start", request)


# -- going back --------------------------------------------------------------------------------------------------------
async def rewind(supervisor: Supervisor, run: Run, reason: str, peer: str) -> None:
    """Begin a run again from its newest cut at the begin of a phase, once; a second time it fails by name."""
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
            supervisor.revival.report(run, Incident(now(), peer.partition("/")[2], number, "rewound", None, words))
        except (GanglionError, OSError) as error:
            run.fail(f"nondeterministic: {text}; and it cannot begin again: {error}", None, peer)


async def _end_all(supervisor: Supervisor, run: Run) -> None:
    """End all processes of a run at once; none of them is mended."""
    run.begun = False
    members = list(run.members.values())
    run.members = {}
    for member in members:
        member.kill()
    run.former += members
    waits = [asyncio.ensure_future(member.gone.wait()) for member in members]
    _, late = await asyncio.wait(waits, timeout=2 * LEAVE_KILL_S) if waits else (set(), set())
    for wait in late:
        wait.cancel()
    if late:
        raise LaunchError(f"{len(late)} processes cannot be ended")
    if supervisor.bus is not None:
        await supervisor.bus.ask(KERNEL, "kernel.withdraw", Withdraw([member.name for member in members]))
