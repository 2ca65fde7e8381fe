"""Restarts: lost processes are started again, as often as that is reasonable; who comes from elsewhere is awaited."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ganglion.errors import GanglionError, RemoteProtocolError
from ganglion.limits import DEADLINES_S, EXIT_DIFFERS, LEAVE_ASK_S, RECONNECT_S, RETRY_S
from ganglion.run.loss import awaited, mended, ours
from ganglion.run.plan import FAIL
from ganglion.supervisor import event
from ganglion.supervisor.checkpoints import journal_age_s, journal_place, journal_position
from ganglion.supervisor.child import State, exit_text
from ganglion.wire.messages import Admit, Done, Failure, Incident, Lost, Overdue, Withdraw
from ganglion.wire.name import KERNEL, Role, topic

if TYPE_CHECKING:
    from ganglion.supervisor.access import Access
    from ganglion.supervisor.runs import Member, Run
    from ganglion.supervisor.supervisor import Supervisor

_BROKER = "broker"
_REJOIN_S = 5.0  # for our own processes to find another broker; a hang is given two


class Guests:
    """Be the patron of a hub for the runs of a supervisor."""

    def __init__(self, supervisor: Supervisor, access: Access) -> None:
        self._supervisor = supervisor
        self._access = access
        self._number = 1  # of the broker
        self._told: set[str] = set()  # runs that know of its loss

    def wants_broker(self) -> bool:
        """Say whether a lost broker is to be replaced: for a run that outlives it, and for those that will come."""
        to_come = self._supervisor.settings.run is None or not self._supervisor.runs
        return to_come or any(_outlives(run) for run in self._live())

    def admissions(self) -> list[Admit]:
        """Return who may join: operators, observers, and everybody who takes part in a run that is not over.

        Nobody is to wait for those who have been asked to leave.
        """
        members = [member for run in self._live() for member in run.members.values()]
        places = [(member, self._access.admission(member)) for member in members]
        awaited = (replace(place, returns=place.returns and not m.dismissed) for m, place in places)
        return [*self._access.admissions(), *awaited]

    def interests(self) -> tuple[list[str], list[str]]:
        """Return the topics that are read, and the names that are watched."""
        topics = [topic(run.id, name) for run in self._live() for name in (event.TOPIC, event.WAITS)]
        return topics, [name for run in self._live() for name in run.members]

    def broker_lost(self, how: str, words: list[str], returns: bool) -> None:
        """Fail the runs that do not outlive their broker; the others wait for the next one."""
        for run in self._supervisor.runs.values():
            if run.outcome is not None:
                continue
            if not returns or run.over.is_set() or not _outlives(run):
                run.losses.append((_BROKER, how, words))
                run.fail(f"{_BROKER} {how}")
                continue
            for member in run.members.values():
                member.joined = False
            self._told.add(run.id)
            kind = how.removeprefix("was killed by ").removeprefix("ended with ")
            self._tell(run, event.PEER_LOST, "lost", how, reason=how, kind=kind)

    def broker_back(self, took_s: float) -> None:
        """Tell it, and see to those who do not find the way to another broker."""
        self._number += 1
        loop = asyncio.get_running_loop()
        for run in self._live():
            if run.id in self._told:  # else it has begun meanwhile, and was never without
                self._tell(run, event.PEER_RESTARTED, "restarted", f"after {took_s:.2f} s", took_s=round(took_s, 3))
            for member in run.members.values():
                if member.here.is_set() and not member.joined:
                    span_s = RECONNECT_S if member.place.attached else _REJOIN_S
                    loop.call_later(span_s, self._miss, run, member)
        self._told.clear()

    def _live(self) -> list[Run]:
        return [run for run in self._supervisor.runs.values() if not run.over.is_set()]

    def _tell(self, run: Run, name: str, incident: str, detail: str, **fields: object) -> None:
        known = {"name": _BROKER, "label": _BROKER, "incarnation": self._number}
        self._supervisor.tell(run, name, {**known, **fields})
        self._supervisor.revival.report_broker(run, self._number, incident, detail)

    def _miss(self, run: Run, member: Member) -> None:
        """Take note of a member that has not come back to a new broker."""
        if member.joined or run.members.get(member.name) is not member:
            return
        member.lost_reason = "it did not come back when the broker was replaced"
        if member.place.attached:
            self._supervisor.peer_lost(Lost(member.name, member.incarnation, member.lost_reason))
        else:
            self._supervisor.end_cut_off(run, member)


def _outlives(run: Run) -> bool:
    """Say whether a run goes on with another broker: its participants come back to it where losses are made good."""
    return any(part.on_loss != FAIL for part in run.plan.phases[run.phase].parts())


_REPLAY_FACTOR = 2.0  # a successor may take so many times as long to hear a tape as its predecessor to write it
_WARM = "warm parent"
_WORD_S = 0.5  # for the broker to say that a connection has ended, whose process is known to have
_ASKED = (Role.ENVIRONMENT, Role.MUSCLE, Role.BRAIN)  # they do nothing but answer; others act by themselves
_LISTED = 20  # losses in a report


@dataclass(slots=True)
class Story:
    """What happened to the processes of one run: losses, in words, and what the governor has not been told."""

    losses: deque[str] = field(default_factory=lambda: deque(maxlen=_LISTED))
    untold: deque[Incident] = field(default_factory=deque)
    telling: bool = False


class Revival:
    """Look at every process that has ended, and begin to start its successor where its loss is one that is mended."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._tasks: set[asyncio.Task[None]] = set()
        self._clock = time.monotonic
        self._warm = 0  # losses of the warm parent

    # -- a process has ended ------------------------------------------------------------------------------------------
    def over(self, member: Member) -> None:
        """Look at a process that has ended: wanted, mended, or a loss that ends its run."""
        run = self._supervisor.runs.get(member.run)
        if run is None:
            return
        if member.dismissed and not run.over.is_set() and member.tape is not None:
            member.tape.unlink(missing_ok=True)  # whoever bears this name next has another life before it
        if not member.child.lost or (run.over.is_set() and member.child.code == 0):
            return
        if self._mended(run, member):
            if _may_be_slain(member) and not member.off.is_set() and not member.heard_out:
                member.lost_s = self._clock()  # a phase that begins meanwhile leaves the successor to us
                self._begin(self._hear_out(member))
            else:
                self._revive(run, member)
            return
        if member.dismissed and not run.over.is_set():  # nobody waits for it any more
            self._tell(run, event.PEER_LOST, member, reason=member.end_text, kind=_way(member))
            self._report(run, member, "lost", f"{member.end_text} when it had been asked to leave")
            return
        self._lose(run, member)
        if run.over.is_set():
            return
        text = f"{member.label} {member.end_text}{_said(member)}"
        unknown = not run.begun or not member.here.is_set()  # the governor has not met it, and will hear nothing
        if unknown or member.place.role in (Role.GOVERNOR, Role.STORE):
            run.fail(text, peer=member.name)
        else:  # the governor knows where the run stood, and ends it by name; it may be too slow
            asyncio.get_running_loop().call_later(LEAVE_ASK_S / 2, run.fail, text, None, member.name)

    async def _hear_out(self, member: Member) -> None:
        """Wait for what the broker says of a connection whose process has ended; there may be no broker either."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(member.off.wait(), _WORD_S)
        member.heard_out = True
        self.over(member)

    def _lose(self, run: Run, member: Member) -> None:
        """Take note of a loss that is not made good."""
        run.lost.append(member)
        self._tell(run, event.PEER_LOST, member, reason=member.end_text, kind=_way(member))

    def _mended(self, run: Run, member: Member) -> bool:
        """Say whether a successor of a member is to be started."""
        if run.over.is_set() or member.dismissed or run.members.get(member.name) is not member:
            return False
        if not mended(run.plan.phases[run.phase], member.place):
            return False
        code = member.child.code  # below zero: a signal ended it; a program without one could not be started
        ended = (code or 0) > 0 or (code in (None, 0) and not ours(member.place))
        refused = ended and not member.here.is_set() and member.incarnation == 1
        return not refused or self._supervisor.disturbed_since(member.since_s)

    def _revive(self, run: Run, member: Member) -> None:
        """Start the successor of a member after a while, unless it died too often or does not do the same again."""
        way, place = _way(member), journal_place(member.tape)
        run.story.losses.append(f"{datetime.now(UTC):%H:%M:%S} {member.label} {member.end_text}")
        member.lost_s = self._clock()
        recovery = run.plan.phases[run.phase].recovery_of(member.place)
        if member.child.code == EXIT_DIFFERS and member.incarnation > 1:
            self._lose(run, member)
            run.rewind(_last_words(member), member.name)
            return
        # Whom somebody kills while he has nothing to do does not die of what he does, wherever he stands.
        slain = member.off.is_set() and member.idle and _may_be_slain(member)
        times = run.restarts.died(member.name, (place, way)) if member.returns and not slain else 0
        if times >= recovery.restarts_poison:
            self._begin(self._poison(run, member, times))
            return
        delay_s = run.restarts.next_s(member.name, self._clock(), recovery.restarts_max, recovery.restarts_within_s)
        if delay_s is None:
            self._give_up(run, member, "restarts", _too_often(run, member))
            return
        run.former.append(member)
        self._tell(run, event.PEER_LOST, member, reason=member.end_text, kind=way)
        self._begin(self._restart(run, member, delay_s))

    async def _restart(self, run: Run, former: Member, delay_s: float) -> None:
        """Start the successor of a lost member, under the next incarnation of its name."""
        supervisor = self._supervisor
        position = await asyncio.to_thread(journal_position, former.tape)
        self._report(run, former, "lost", former.end_text, position)
        await asyncio.sleep(delay_s)
        if run.over.is_set() or run.members.get(former.name) is not former or not run.needs(former.name):
            return
        member = supervisor.member(run, former.place)
        member.lost_s, member.lost_way = former.lost_s, _way(former)
        heard_s = journal_age_s(member.tape) if member.returns else 0.0
        member.due_s = asyncio.get_running_loop().time() + (DEADLINES_S["join"] or 0.0) + _REPLAY_FACTOR * heard_s
        run.members[member.name] = member
        while not run.over.is_set():
            try:
                await supervisor.bring_up(run, [member])
                return
            except GanglionError as error:
                if not supervisor.disturbed_since(member.since_s):
                    run.fail(f"{member.label} cannot be started again: {error}", peer=member.name)
                    return
            await asyncio.sleep(RETRY_S["broker"])

    def left(self, run: Run, member: Member) -> None:
        """Take note that a process has left that somebody else starts; the governor may wait for it again."""
        if run.begun and not awaited(run.plan.phases[run.phase], member.place):
            self._lose(run, member)
            return
        member.lost_s, member.lost_way = self._clock(), member.lost_reason
        self._tell(run, event.PEER_LOST, member, reason=member.end_text, kind=member.lost_reason)
        self._report(run, member, "lost", member.end_text)

    def joined(self, run: Run, member: Member) -> None:
        """Take note that a member has joined; tell it of a successor."""
        if member.lost_s is None:
            return
        took_s, member.lost_s = self._clock() - member.lost_s, None
        self._tell(run, event.PEER_RESTARTED, member, kind=member.lost_way, took_s=round(took_s, 3))
        self._report(run, member, "restarted", f"after {took_s:.2f} s; {member.lost_way}")

    def warm_lost(self, how: str) -> None:
        """Tell all runs that the warm parent was lost; another one is being started, and no participant notices."""
        self._warm += 1
        known = {"name": _WARM, "label": _WARM, "incarnation": self._warm, "kind": how.removeprefix("killed by ")}
        for run in self._supervisor.runs.values():
            if not run.over.is_set():
                self._supervisor.tell(run, event.PEER_LOST, {**known, "reason": f"was {how}"})
                self.report(run, Incident(now(), _WARM, self._warm, "lost", None, f"was {how}"))

    # -- no successor -------------------------------------------------------------------------------------------------
    async def _poison(self, run: Run, member: Member, times: int) -> None:
        found = await asyncio.to_thread(journal_position, member.tape, 1 << 40)
        where = f" ({found})" if found else ""
        text = f"poison: {member.label} died {times} times by {_way(member)} at the same place{where}{_said(member)}"
        self._give_up(run, member, "poison", text, found)

    def _give_up(self, run: Run, member: Member, kind: str, text: str, position: str | None = None) -> None:
        """End a run because a name of it does not come back."""
        if run.over.is_set():
            return
        self._lose(run, member)
        failure = Failure("lost", text)
        if member.place.role in (Role.GOVERNOR, Role.STORE) or not run.begun:
            run.fail(text.partition("\n")[0], failure, member.name)
            return
        self._report(run, member, kind, text.partition("\n")[0], position, failure)
        loop = asyncio.get_running_loop()
        loop.call_later(LEAVE_ASK_S, run.fail, text.partition("\n")[0], failure, member.name)

    # -- who does not answer ------------------------------------------------------------------------------------------
    async def overdue(self, caller: str, overdue: Overdue) -> Done:
        """Kill who has not answered a call within its time, so that a successor answers it.

        Raises:
            RemoteProtocolError: There is nothing that could be done about it: the call has failed.
        """
        run = self._supervisor.runs.get(caller.partition("/")[0])
        member = None if run is None else run.members.get(overdue.peer)
        if run is None or member is None or run.over.is_set():
            raise RemoteProtocolError(f"expected a participant of your run, found {overdue.peer[:80]!r}")
        if member.place.attached or not mended(run.plan.phases[run.phase], member.place):
            raise RemoteProtocolError(f"{member.label} is not started again")
        if member.child.state is State.RUNNING and member.here.is_set() and self._supervisor.kills:
            call, waited_s = overdue.call[:80], overdue.waited_s
            member.dump_and_shoot(f"it did not answer {call} within {waited_s:.1f} s")
        return Done()

    # -- telling ------------------------------------------------------------------------------------------------------
    def _tell(self, run: Run, name: str, member: Member, **fields: Any) -> None:
        known = {"name": member.name, "label": member.label, "incarnation": member.incarnation}
        self._supervisor.tell(run, name, {**known, **fields})

    def _report(
        self,
        run: Run,
        member: Member,
        kind: str,
        detail: str,
        position: str | None = None,
        failure: Failure | None = None,
    ) -> None:
        name = member.name.partition("/")[2]
        self.report(run, Incident(now(), name, member.incarnation, kind, position, detail, failure))

    def report_broker(self, run: Run, number: int, kind: str, detail: str) -> None:
        """Have it written down that the broker was lost, or replaced."""
        self.report(run, Incident(now(), "broker", number, kind, None, detail))

    def report(self, run: Run, incident: Incident) -> None:
        """Have the governor write an incident down, in the order in which they came."""
        run.story.untold.append(incident)
        if not run.story.telling:
            run.story.telling = True
            self._begin(self._tell_governor(run))

    async def _tell_governor(self, run: Run) -> None:
        untold = run.story.untold
        while untold and not run.over.is_set():
            if run.begun and await self._told(run, untold[0]):
                untold.popleft()
            else:
                await asyncio.sleep(RETRY_S["broker"])
        run.story.telling = False

    async def _told(self, run: Run, incident: Incident) -> bool:
        """Tell the governor; False if there is no broker, and it is to be told again by another."""
        bus = self._supervisor.bus
        if bus is None:
            return False
        try:
            await bus.ask(run.governor.name, "governor.incident", incident)
            if incident.failure is not None:  # it knows why: nobody needs to wait any more
                await bus.ask(KERNEL, "kernel.withdraw", Withdraw([f"{run.id}/{incident.name}"]))
        except GanglionError:
            return not bus.closed
        return True

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _way(member: Member) -> str:
    """Return how a member has died, in words that are equal for equal ways."""
    if member.child.code is None:
        return "not being started" if member.process is None else "an end that is not known"
    return exit_text(member.child.code).removeprefix("killed by ")


def _may_be_slain(member: Member) -> bool:
    """Say whether a process may have been killed by somebody else while it had nothing to do."""
    killed = member.child.code in (-signal.SIGKILL, -signal.SIGTERM) and not member.child.why
    return killed and member.here.is_set() and member.place.role in _ASKED


def _too_often(run: Run, member: Member) -> str:
    listed = "".join(f"\n    {line}" for line in run.story.losses)
    return f"too many losses: {member.label} {member.end_text} and is not started again{listed}"


def _last_words(member: Member) -> str:
    """Return why a process says that it cannot go on as its predecessor did."""
    return f"{member.label}{_said(member) or ': it does not do the same again'}"


def _said(member: Member) -> str:
    """Return the reason that a participant of ours gave when it ended by itself; empty if it gave none."""
    last = next((line for line in reversed(member.last_words) if line.strip()), "")
    ours, _, text = last.partition(": ")
    return f": {text}" if ours == member.name and (member.child.code or 0) > 0 else ""


def now() -> str:
    """Return the wall clock as UTC text, as it stands in incidents."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
