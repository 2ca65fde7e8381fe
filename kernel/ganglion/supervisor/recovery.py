"""Recovery: replace lost processes and a lost broker, kill hung processes."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ganglion.errors import GanglionError, RemoteProtocolError
from ganglion.limits import BEAT_AFTER_SILENCE_S, BEAT_ANSWER_S, DEADLINES_S, LEAVE_ASK_S, RECONNECT_S, RETRY_S
from ganglion.run.plan import FAIL, awaited, mended
from ganglion.supervisor import event
from ganglion.supervisor.launch.process import within
from ganglion.supervisor.launch.system import liveness
from ganglion.supervisor.life import State, Verdict, judge
from ganglion.supervisor.resume import journal_age_s, journal_place, journal_position, rewind
from ganglion.supervisor.runs import Member, Run
from ganglion.wire.messages import Admit, Done, Failure, Incident, Lost, Overdue, Withdraw
from ganglion.wire.name import KERNEL, Role, topic

if TYPE_CHECKING:
    from ganglion.supervisor.supervisor import Supervisor

_BROKER, _WARM = "broker", "warm parent"
_REPLAY_FACTOR = 2.0  # the most time for the replay of a journal, relative to the time that it covers
_REPLAY_MOST_S = 600.0  # limit for the replay of a journal that the supervisor cannot read
REJOIN_S = 5.0  # time for local processes to join another broker; a hung process gets twice as long
ASKED_ROLES = (
    Role.ENVIRONMENT,
    Role.MUSCLE,
    Role.BRAIN,
    Role.TABLE,
)  # these roles only answer calls; the others also act by themselves
NOTICE_S = 0.5  # time for the broker to report the end of a connection after the end of its process


class Restarter:
    """Replace the lost processes of a supervisor's runs and, as the owner of the hub, a lost broker."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._warm_losses = 0
        self._broker_number = 1
        self._without_broker: set[str] = set()  # runs to which the loss of the broker was reported

    # -- the broker ---------------------------------------------------------------------------------------------------
    def wants_broker(self) -> bool:
        """Return True if a lost broker is to be replaced: for a run that survives the loss, or for future runs."""
        supervisor = self._supervisor
        to_come = supervisor.settings.run is None or not supervisor.runs
        return to_come or any(_outlives_broker(run) for run in self._live())

    def admissions(self) -> list[Admit]:
        """Return the admissions: operators, observers, relays, members of runs; a dismissed member does not return."""
        access = self._supervisor.access
        members = [member for run in self._live() for member in run.members.values()]
        places = [(member, access.admission(member)) for member in members]
        relays = self._supervisor.relays.admissions.values()
        return [*access.admissions(), *relays, *(replace(p, returns=p.returns and not m.dismissed) for m, p in places)]

    def interests(self) -> tuple[list[str], list[str]]:
        """Return the topics that the supervisor subscribes to, and the names that it watches."""
        topics = [topic(run.id, name) for run in self._live() for name in (event.TOPIC, event.WAITS)]
        return topics, [name for run in self._live() for name in run.members]

    def broker_lost(self, how: str, words: list[str], returns: bool) -> None:
        """Fail the runs that cannot survive the loss; the others wait for the next broker, if one `returns`."""
        if not returns and not self._supervisor.broker_gone.done():
            self._supervisor.broker_gone.set_result(how)
        for run in self._supervisor.runs.values():
            if run.outcome is not None or run.queued:
                continue
            if not returns or run.over.is_set() or not _outlives_broker(run):
                run.broker_losses.append((how, words))
                run.fail(f"{_BROKER} {how}")
                continue
            for member in run.members.values():
                member.joined = False
            self._without_broker.add(run.id)
            self._tell_part(run, _BROKER, self._broker_number, event.PEER_LOST, how, kind=_kind(how), reason=how)

    def broker_back(self, took_s: float) -> None:
        """Report the new broker to the runs; start a time limit for each member that has not joined it yet."""
        self._broker_number += 1
        for run in self._live():
            if run.id in self._without_broker:  # else the run has begun since, and was never without a broker
                after, took = f"after {took_s:.2f} s", round(took_s, 3)
                self._tell_part(run, _BROKER, self._broker_number, event.PEER_RESTARTED, after, took_s=took)
            for member in run.members.values():
                if member.here.is_set() and not member.joined:
                    span_s = RECONNECT_S if member.place.attached else REJOIN_S
                    asyncio.get_running_loop().call_later(span_s, self.missed, run, member)
        self._without_broker.clear()

    def missed(self, run: Run, member: Member) -> None:
        """Record that the time to join another broker is over; a member that has not joined is lost."""
        if member.joined or run.members.get(member.name) is not member:
            return
        member.lost_reason = "it did not come back when the broker was replaced"
        if member.place.attached:
            self._supervisor.peer_lost(Lost(member.name, member.incarnation, member.lost_reason))
        else:
            self._supervisor.end_cut_off(run, member)

    def _live(self) -> list[Run]:
        return [run for run in self._supervisor.runs.values() if not (run.over.is_set() or run.queued)]

    def _tell_part(self, run: Run, part: str, number: int, name: str, detail: str, **fields: object) -> None:
        self._supervisor.tell(run, name, {"name": part, "label": part, "incarnation": number, **fields})
        self.report(run, part, number, name.removeprefix("peer."), detail)

    def warm_lost(self, how: str) -> None:
        """Report the loss of the warm parent to all runs; a successor is started, and no participant is affected."""
        self._warm_losses += 1
        for run in self._live():
            self._tell_part(run, _WARM, self._warm_losses, event.PEER_LOST, how, kind=_kind(how), reason=how)

    # -- a process has ended ------------------------------------------------------------------------------------------
    def ended(self, member: Member, late: bool = False) -> None:
        """Act on the end of a process; it is `late` once the broker has had time to report the connection."""
        run = self._supervisor.runs.get(member.run)
        if run is None:
            return
        over = run.over.is_set()
        if member.dismissed and not over and member.journal is not None:
            member.journal.unlink(missing_ok=True)  # the next process of this name has another history
        verdict = self._judge(run, member)
        innocent = verdict is Verdict.RESTART and _may_be_innocent(member)
        if innocent and not (member.off.is_set() or late):
            member.lost_s = time.monotonic()  # if a phase begins meanwhile, the successor is still started here
            self._supervisor.spawn(self._wait_notice(member))
        elif verdict in (Verdict.RESTART, Verdict.REWIND):
            self._replace(run, member, verdict)
        elif verdict is Verdict.NOTE:  # no other process waits for it
            self._tell_lost(run, member)
            self._report(run, member, "lost", f"{member.end_text} when it had been asked to leave")
        elif verdict is Verdict.LOST:
            self._lose(run, member)
            text = f"{member.label} {member.end_text}{_reason_given(member)}"
            if over:
                return
            if not run.begun or not member.here.is_set() or member.place.role in (Role.GOVERNOR, Role.STORE):
                run.fail(text, peer=member.name)  # the governor has never met the member, or cannot end the run
            else:  # the governor knows how far the run was, and ends it; the timer covers a slow governor
                asyncio.get_running_loop().call_later(LEAVE_ASK_S / 2, run.fail, text, None, member.name)

    def _judge(self, run: Run, member: Member) -> Verdict:
        current = run.members.get(member.name) is member
        return judge(
            lost=member.child.lost,
            code=member.child.code,
            over=run.over.is_set(),
            dismissed=member.dismissed,
            replaced=current and mended(run.plan.phases[run.phase], member.place),
            joined=member.here.is_set(),
            incarnation=member.incarnation,
            ours=member.place.program is None,
            disturbed=self._supervisor.disturbed_since(member.since_s),
        )

    async def _wait_notice(self, member: Member) -> None:
        """Wait for the broker's report on the connection of a process that has ended; there may be no broker."""
        await within(member.off, NOTICE_S)
        self.ended(member, late=True)

    def _replace(self, run: Run, member: Member, verdict: Verdict) -> None:
        """Start the successor of a member after a delay, unless it died too often or its results differ."""
        now_s = member.lost_s = time.monotonic()
        run.recent_losses.append(f"{datetime.now(UTC):%H:%M:%S} {member.label} {member.end_text}")
        if verdict is Verdict.REWIND:
            self._lose(run, member)
            reason = _reason_given(member) or ": its successor did something else than it"
            self._supervisor.spawn(rewind(self._supervisor, run, f"{member.label}{reason}", member.name))
            return
        recovery = run.plan.phases[run.phase].recovery_of(member.place)
        # A process that was killed from outside while idle, or that could not be started, does not count as poison.
        innocent = not member.returns or not member.child.started
        innocent |= member.off.is_set() and member.idle and _may_be_innocent(member)
        # For a journal on another node, it is not known whether the process died at the same place.
        where = (0, member.incarnation) if member.far else journal_place(member.journal)
        place = (where, member.child.way)
        times = 0 if innocent else run.restarts.died(member.name, place)
        if times >= recovery.restarts_poison:
            self._supervisor.spawn(self._poison(run, member, times))
            return
        bounds = (recovery.restarts_max, recovery.restarts_within_s)
        delay_s = run.restarts.next_s(member.name, now_s, *bounds, member.process.node)
        if delay_s is None:
            listed = "".join(f"\n    {line}" for line in run.recent_losses)
            text = f"too many losses: {member.label} {member.end_text} and is not started again{listed}"
            self._give_up(run, member, "restarts", text)
            return
        run.former.append(member)
        self._tell_lost(run, member)
        self._supervisor.spawn(self._restart(run, member, delay_s))

    async def _restart(self, run: Run, former: Member, delay_s: float) -> None:
        """Start the successor of a lost member, with the next incarnation of its name."""
        supervisor = self._supervisor
        position = await asyncio.to_thread(journal_position, former.journal)
        self._report(run, former, "lost", former.end_text, position)
        await asyncio.sleep(delay_s)
        needed = any(place.name == former.name for place in run.needed())
        if run.over.is_set() or run.members.get(former.name) is not former or not needed:
            return
        member = run.members[former.name] = supervisor.member(run, former.place)
        member.lost_s, member.lost_way = former.lost_s, former.child.way
        member.hears = member.far and member.returns and (former.hears or former.here.is_set())
        replay_s = journal_age_s(member.journal) if member.returns else 0.0
        if member.hears:
            replay_s = min(time.monotonic() - run.started_s, _REPLAY_MOST_S)
        member.due_s = asyncio.get_running_loop().time() + (DEADLINES_S["join"] or 0.0) + _REPLAY_FACTOR * replay_s
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
        """Record that a process started from outside has left; the governor may wait for it again."""
        if run.begun and not awaited(run.plan.phases[run.phase], member.place):
            self._lose(run, member)
            return
        member.lost_s, member.lost_way = time.monotonic(), member.lost_reason
        self._tell_lost(run, member)
        self._report(run, member, "lost", member.end_text)

    def joined(self, run: Run, member: Member) -> None:
        """Record that a member has joined; if it is a successor, publish the restart."""
        if member.lost_s is None:
            return
        took_s, member.lost_s = time.monotonic() - member.lost_s, None
        self._tell(run, event.PEER_RESTARTED, member, kind=member.lost_way, took_s=round(took_s, 3))
        self._report(run, member, "restarted", f"after {took_s:.2f} s; {member.lost_way}")

    # -- losses without a successor -----------------------------------------------------------------------------------
    def _lose(self, run: Run, member: Member) -> None:
        run.lost.append(member)
        self._tell_lost(run, member)

    async def _poison(self, run: Run, member: Member, times: int) -> None:
        found = await asyncio.to_thread(journal_position, member.journal, 1 << 40)
        died = f"died {times} times by {member.child.way} at the same place" + (f" ({found})" if found else "")
        self._give_up(run, member, "poison", f"poison: {member.label} {died}{_reason_given(member)}", found)

    def _give_up(self, run: Run, member: Member, kind: str, text: str, position: str | None = None) -> None:
        """End a run because one of its members is not replaced."""
        if run.over.is_set():
            return
        self._lose(run, member)
        failure, head = Failure("lost", text), text.partition("\n")[0]
        if member.place.role in (Role.GOVERNOR, Role.STORE) or not run.begun:
            run.fail(head, failure, member.name)
            return
        self._report(run, member, kind, head, position, failure)
        asyncio.get_running_loop().call_later(LEAVE_ASK_S, run.fail, head, failure, member.name)

    async def overdue(self, caller: str, overdue: Overdue) -> Done:
        """Kill a member that has not answered a call in time; RemoteProtocolError if it would not be restarted."""
        run = self._supervisor.runs.get(caller.partition("/")[0])
        member = None if run is None else run.members.get(overdue.peer)
        if run is None or member is None or run.over.is_set():
            raise RemoteProtocolError(f"expected a participant of your run, found {overdue.peer[:80]!r}")
        if not mended(run.plan.phases[run.phase], member.place):
            raise RemoteProtocolError(f"{member.label} is not started again")
        if member.child.state is State.RUNNING and member.here.is_set() and liveness():
            member.kill_hung(f"it did not answer {overdue.call[:80]} within {overdue.waited_s:.1f} s")
        return Done()

    # -- reporting ----------------------------------------------------------------------------------------------------
    def _tell(self, run: Run, name: str, member: Member, **fields: Any) -> None:
        known = {"name": member.name, "label": member.label, "incarnation": member.incarnation}
        self._supervisor.tell(run, name, {**known, **fields})

    def _tell_lost(self, run: Run, member: Member) -> None:
        kind = member.lost_reason if member.place.attached else member.child.way
        self._tell(run, event.PEER_LOST, member, reason=member.end_text, kind=kind)

    def _report(self, run: Run, member: Member, kind: str, detail: str, *more: Any) -> None:
        self.report(run, member.name.partition("/")[2], member.incarnation, kind, detail, *more)

    def report(
        self,
        run: Run,
        name: str,
        number: int,
        kind: str,
        detail: str,
        position: str | None = None,
        failure: Failure | None = None,
    ) -> None:
        """Have the governor record an incident; incidents are sent in the order of their occurrence."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        run.incidents.append(Incident(at, name, number, kind, position, detail, failure))
        if len(run.incidents) == 1:
            self._supervisor.spawn(self._tell_governor(run))

    async def _tell_governor(self, run: Run) -> None:
        bus = self._supervisor.bus
        while run.incidents and not run.over.is_set():
            incident, told = run.incidents[0], run.begun
            try:
                if told:
                    await bus.ask(run.governor.name, "governor.incident", incident)
                if told and incident.failure is not None:  # now the governor knows the reason: end the waits
                    await bus.ask(KERNEL, "kernel.withdraw", Withdraw([f"{run.id}/{incident.name}"]))
            except GanglionError:
                told = not bus.closed
            if told:
                run.incidents.popleft()
            else:
                await asyncio.sleep(RETRY_S["broker"])


def _kind(how: str) -> str:
    return how.removeprefix("was killed by ").removeprefix("ended with ")


def _outlives_broker(run: Run) -> bool:
    """Return True if a run survives the loss of the broker: its members rejoin where losses are recovered."""
    return any(part.on_loss != FAIL for part in run.plan.phases[run.phase].parts())


def _may_be_innocent(member: Member) -> bool:
    """Return True if a process may have been killed from outside while it was idle."""
    outside = member.child.code in (-signal.SIGKILL, -signal.SIGTERM) and not member.child.why
    return outside and member.here.is_set() and member.place.role in ASKED_ROLES


def _reason_given(member: Member) -> str:
    """Return the error that a participant printed when it ended by itself; empty if it printed none."""
    last = next((line for line in reversed(member.last_words) if line.strip()), "")
    name, _, text = last.partition(": ")
    return f": {text}" if name == member.name and (member.child.code or 0) > 0 else ""


_SILENT_S = 0.25  # after this silence the broker is sent a BEAT


def watch(supervisor: Supervisor, now_s: float | None) -> None:
    """Check time limits of runs and of their broker; with `GANGLION_LIVENESS=off` nothing is killed.

    `now_s` is None if the supervisor itself was suspended; the broker's silence is then measured anew.
    """
    kills = liveness()
    if now_s is None:
        now_s = supervisor.bus.heard_s = asyncio.get_running_loop().time()
    for run in supervisor.runs.values():
        if run.over.is_set():
            continue
        for member, length_s in run.waits_due(now_s):
            supervisor.tell_wait(run, member, length_s)
        for member in run.members.values():
            placed = member.child.started and not member.child.gone  # a launcher's search is no hang
            if kills and placed and member.due_s is not None and now_s > member.due_s:
                if not member.here.is_set():
                    member.kill_hung("it did not come back in time")
                member.due_s = None  # the successor gets the full time again
    broker, bus = supervisor.broker, supervisor.bus
    if broker is None or broker.ended.is_set():
        return
    silent_s = now_s - bus.heard_s
    if kills and silent_s > BEAT_AFTER_SILENCE_S + BEAT_ANSWER_S:
        broker.kill(f"it was silent for {silent_s:.1f} s")
    elif silent_s > _SILENT_S:
        bus.beat()
