"""A stand-in for the supervisor: starts, restarts and ends processes as a run needs them; nothing is forked."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganglion.errors import GanglionError, PeerLost
from ganglion.limits import DEADLINE_OTHER_S, EXIT_DIFFERS, LEAVE_ASK_S, LEAVE_KILL_S, LOSSES_AT_ONE_STEP
from ganglion.peer.participant import Participant
from ganglion.run.plan import Loss, Plan, loss_of, processes_of
from ganglion.run.plan import Process as Place
from ganglion.supervisor.life import Restarts
from ganglion.supervisor.recovery import ASKED_ROLES, NOTICE_S, REJOIN_S
from ganglion.supervisor.resume import newest_phase_checkpoint
from ganglion.wire.codec import codec_of
from ganglion.wire.conversation import Answer, Notice, Request
from ganglion.wire.messages import (
    CALL_BY_NAME,
    Admit,
    Done,
    Ended,
    FlowSignal,
    GovernorStart,
    Joined,
    Lost,
    Need,
    Overdue,
    RunEvent,
    RunRequest,
    Signalled,
    Subscribe,
    Watch,
    Withdraw,
)
from ganglion.wire.name import KERNEL, Role, peer_name, topic
from simulation.counting import UNJUST
from simulation.process import KILLED
from simulation.relay import KEY

if TYPE_CHECKING:
    from simulation.bus import Simulation
    from simulation.process import Process

_LOOK_S = 1.0  # it is woken when a process ends
_STAGES: tuple[tuple[Role, ...], ...] = (  # who leaves first; the store after everybody who writes
    (Role.ENVIRONMENT, Role.MUSCLE, Role.CONTROLLER),
    (Role.BRAIN,),
    (Role.TABLE,),
    (Role.GOVERNOR,),
    (Role.STORE,),
)


class Member:
    """Be one place that is taken: the process, whether it was asked to leave, since when it is cut off."""

    def __init__(self, place: Place, process: Process, incarnation: int) -> None:
        self.place, self.process, self.incarnation = place, process, incarnation
        self.asked = False
        self.noticed = False
        self.kill_s: float | None = None  # when it is killed, if it has not joined again by then
        self.shot = False  # by us
        self.here = False  # it has joined, once
        self.idle: bool | None = None  # whether nobody awaited an answer of it when its connection ended
        self.word_s: float | None = None  # until when we wait to be told so

    @property
    def slain(self) -> bool | None:
        """Say whether somebody has killed it while it had nothing to do; None if that is still to be told."""
        killed = self.process.status == KILLED and self.here and self.place.role in ASKED_ROLES
        return self.idle if killed and not self.shot else False


class Keeper:
    """Carry out one run as the supervisor does: admit, start, answer `kernel.need`, end everything in order.

    Whoever is lost where the document says `recover` is started again under the next incarnation, with its journal.
    `table` is what a new broker is told before it listens. `before` is the keeper of a run that goes on after all was
    lost: with its journals, or, with `begin`, at the begin of a phase.
    """

    def __init__(
        self,
        simulation: Simulation,
        run: str,
        plan: Plan,
        store: str | None,
        before: Keeper | None = None,
        begin: Mapping[str, Any] | None = None,
    ) -> None:
        self.run, self.plan = run, plan
        self.governor = Place(peer_name(run, Role.GOVERNOR), Role.GOVERNOR)
        self.store = None if store is None else Place(peer_name(run, Role.STORE), Role.STORE)
        self.members: dict[str, Member] = {}
        self.former: list[Member] = []
        self.table: dict[str, Admit] = {}
        self.ended: Ended | None = None
        self.begun = False
        self.events: list[RunEvent] = []
        self.answers: list[Signalled | str] = []
        self.defects: list[str] = []
        self.restarts = Restarts()
        self._joined: set[str] = set()
        self._lost: tuple[str, float] | None = None  # what is told when the governor says nothing until then
        self._due_s: dict[str, float] = {}  # lost name -> when its successor is started
        self._journals: dict[str, list[int]] = defaultdict(list)  # how long they were when their writers died
        self._simulation = simulation
        self.phase = 0
        self._orders: list[tuple[str, Any]] = []
        self._asked: dict[int, str] = {}
        self.heard: set[str] = set()  # signals that were answered
        self.stopping = False
        self._open: set[int] = set()
        self._replies: dict[int, Answer] = {}
        self._incarnations: dict[str, int] = {}  # those that were given out: synced, before a process starts
        self._before, self._begin_of_phase = before, begin
        self.withdrawal: dict[str, str] = {}  # what the store is to take back
        self._going_back = ""  # why the run begins again
        self._went_back = False
        if before is not None:
            self.events, self.defects, self._went_back = before.events, before.defects, before._went_back
            self._incarnations = before._incarnations
        self._lives = 1 if before is None else before._lives + 1

    # -- the life of a run --------------------------------------------------------------------------------------------
    def live(self, participant: Participant, token: str) -> int:
        """Join, carry out the run and end all its processes; the program of the supervisor's process."""
        self.participant = participant
        participant.on_answer = self._answered
        participant.on_return = self._returned
        participant.join(participant.hello(Role.SUPERVISOR.value, "supervisor", token))
        participant._conversation.begin(self._lives)  # serials that no supervisor before it has used
        self._try_to_begin(self._before is None or self._begin_of_phase is not None)
        while self.ended is None:
            if self._going_back:
                self._go_back()
            self._turn()
        self._stop()
        participant.leave()
        return 0

    def _try_to_begin(self, afresh: bool) -> None:
        try:
            self._begin(afresh)
        except GanglionError as error:  # whatever prevents the beginning fails the run
            if not self._going_back:
                self._finish(Ended(self.run, "failed", f"failed: {error}", 1))

    def _begin(self, afresh: bool) -> None:
        """Start everybody whom the phase needs; the governor begins, or goes on with its journal."""
        for name in ("events", "waits"):
            self._ask(KERNEL, "kernel.subscribe", Subscribe(topic(self.run, name)))
        places = [self.governor, *([self.store] if self.store else [])]
        self._ensure([*places, *processes_of(self.run, self.plan.phases[self.phase])])
        while not {place.name for place in places} <= self._joined and not self._over:
            self._turn()
        if not self._over:
            if afresh:
                store = None if self.store is None else self.store.name
                begin = None if self._begin_of_phase is None else dict(self._begin_of_phase)
                start = GovernorStart(self.run, self.plan.to_map(), store, None, begin)
                self._ask(self.governor.name, "governor.start", start)
            self.begun, self.withdrawal = True, {}

    @property
    def _over(self) -> bool:
        return self.ended is not None or bool(self._going_back)

    def _go_back(self) -> None:
        """Begin the run again with its newest checkpoint at the begin of a phase."""
        text, self._going_back = self._going_back, ""
        self._simulation.count("going back")
        self.participant.ask(KERNEL, "kernel.withdraw", Withdraw(list(self.table)), DEADLINE_OTHER_S)
        self.table.clear()
        self._simulation.forget_journals()
        self._begin_of_phase, wrong = newest_phase_checkpoint(self._simulation.folder / self.run, self.run)
        self.events.append(RunEvent("warning", {"text": f"it goes back: {text}", "wrong": wrong}))
        self.phase = int(self._begin_of_phase["phase"])
        self._try_to_begin(True)

    def _turn(self) -> None:
        """Take what comes next, and look after the processes."""
        incoming = self.participant._next(self._idle_s())
        if incoming is not None:
            self.participant._take(incoming)
        self._look()
        self._give_orders()

    def _idle_s(self) -> float:
        """Return for how long there is nothing to do if nobody says anything."""
        there = [member for member in self.members.values() if not member.noticed]
        due = [*self._due_s.values(), *(m.kill_s for m in there if m.kill_s is not None)]
        if self._lost is not None:
            due.append(self._lost[1])
        return min(max(0.0, min(due, default=_LOOK_S) - self.participant.clock()), _LOOK_S) if due else _LOOK_S

    def _returned(self) -> None:
        """Say to a new broker what the one before it has known."""
        for name in ("events", "waits"):
            self.participant.ask_aside(KERNEL, "kernel.subscribe", Subscribe(topic(self.run, name)))
        self.participant.ask_aside(KERNEL, "kernel.watch", Watch(list(self.members)))
        for member in self.members.values():
            if member.asked and member.process.lives:
                self._simulation.bid_leave(self.participant, member.place.name)
            elif self.recovers and member.place.name in self._joined:  # who hangs does not come back
                self._joined.discard(member.place.name)
                member.kill_s = self.participant.clock() + REJOIN_S

    def handlers(self) -> dict[str, Any]:
        """Return what the kernel hands on to the supervisor."""
        return {"kernel.need": self.need, "kernel.ended": self.end, "kernel.overdue": self.overdue}

    def need(self, request: Request, need: Need) -> Done:
        """Let the processes of a phase be there."""
        assert request.peer == self.governor.name
        self.phase = need.phase
        self._ensure(processes_of(self.run, self.plan.phases[need.phase]))
        return Done()

    def end(self, request: Request, ended: Ended) -> Done:
        """Hear how the run has ended."""
        self._finish(ended)
        return Done()

    def overdue(self, request: Request, overdue: Overdue) -> Done:
        """End a process that does not answer: a loss like any other."""
        self._simulation.count("overdue")
        if self._simulation.innocent:
            self._simulation.counts[UNJUST] += 1
        member = self.members.get(overdue.peer)
        if member is not None and self.recovers and not member.asked:
            member.process.kill()
        return Done()

    def told(self, told: Notice) -> None:
        """Hear who has joined, and how the run goes."""
        if told.head.call == "kernel.joined":
            joined = codec_of(Joined).decode(told.body)
            member = self.members.get(joined.peer)
            if member is not None and member.incarnation == joined.incarnation:
                self._joined.add(joined.peer)
                member.here, member.idle, member.kill_s = True, None, None
                if member.asked:  # it may not have heard it, as it was cut off
                    self._simulation.bid_leave(self.participant, joined.peer)
        elif told.head.call == "event":
            self.events.append(codec_of(RunEvent).decode(told.body))

    def gone(self, gone: Lost) -> None:
        """Hear who has lost its connection; a process that lives on is ended, if it does not come back."""
        member = self.members.get(gone.peer)
        if member is None or member.incarnation != gone.incarnation:
            return
        self._joined.discard(gone.peer)
        member.idle = gone.idle
        if self.recovers and member.process.lives and not member.asked:
            member.kill_s = self.participant.clock() + LEAVE_KILL_S

    # -- what operators do --------------------------------------------------------------------------------------------
    def signal(self, signal: str, worker: int | None = None, steps: int | None = None, data: Any = None) -> None:
        """Send an operator's signal to the governor; its answer goes to `answers`."""
        wish = FlowSignal(signal, "operator", "", None, worker, None, steps, data)
        self._order("governor.signal", wish)

    def insist(self, signal: str) -> None:
        """Send a signal until the governor of the run has answered it, or the run is over."""
        simulation, keeper = self._simulation, self._simulation.keeper
        if keeper.ended is None and not keeper.stopping and signal not in keeper.heard:
            keeper.signal(signal)
            simulation.later(5.0, lambda: keeper.insist(signal))

    def stop(self, now: bool = False) -> None:
        self._order("governor.stop", RunRequest(self.run, now, "operator"))

    def _order(self, call: str, message: Any) -> None:
        if self.begun and self.ended is None:
            self._orders.append((call, message))
            self._simulation.wake_supervisor()

    def _give_orders(self) -> None:
        orders, self._orders = self._orders, []
        for call, message in orders:
            pending = self.participant.ask(self.governor.name, call, message, DEADLINE_OTHER_S)
            self._asked[pending.serial] = getattr(message, "signal", "")

    def _answered(self, answer: Answer) -> None:
        if answer.pending.serial in self._open:
            self._replies[answer.pending.serial] = answer
        if answer.pending.serial in self._asked:
            refused = answer.error is not None or answer.pending.call != "governor.signal"
            self.answers.append(str(answer.error) if refused else codec_of(Signalled).decode(answer.body))
            signal = self._asked.pop(answer.pending.serial)
            later = {*self._asked.values(), *(getattr(message, "signal", "") for _, message in self._orders)}
            if answer.error is None and "PAUSE" not in later:  # what is on its way may come after it
                self.heard.add(signal)

    # -- processes ----------------------------------------------------------------------------------------------------
    def _ensure(self, places: Sequence[Place]) -> None:
        """Start who is missing, ask who is not needed to leave."""
        kept = {place.name for place in (self.governor, self.store) if place is not None}
        needed = {place.name for place in places} | kept
        fresh = []
        for place in places:
            former = self.members.get(place.name)
            if former is not None and not former.asked:
                continue  # it is there, or was lost: then its successor comes, or the run fails by its name
            if former is not None:
                self._await_end([former])
                self.former.append(former)
                self._simulation.forget_journal(place.name)
            fresh.append(place)
        leaving = [m for name, m in self.members.items() if name not in needed]
        self._start(fresh)
        for member in leaving:
            self._bid_leave(member)

    def _start(self, fresh: Sequence[Place]) -> None:
        """Announce processes under their next incarnations, then start them."""
        found = []
        for place in fresh:
            if not self._repeats(place):
                self._simulation.forget_journal(place.name)
            incarnation = self._incarnations[place.name] = self._incarnations.get(place.name, 0) + 1
            found.append((place, incarnation))
            admit = self.table[place.name] = self._admission(place, incarnation)
            self._ask(KERNEL, "kernel.admit", admit)
        self._ask(KERNEL, "kernel.watch", Watch([place.name for place in fresh]))
        for place, incarnation in found:
            if not self._over and self._incarnations[place.name] == incarnation:
                self._joined.discard(place.name)
                process = self._simulation.start(place, incarnation, _token(place))
                self.members[place.name] = Member(place, process, incarnation)

    def _admission(self, place: Place, incarnation: int) -> Admit:
        digest = hashlib.sha256(_token(place).encode()).digest()
        return Admit(
            place.name,
            place.role.value,
            self.run,
            digest,
            incarnation,
            place.uid,
            place.worker,
            evaluation=place.evaluation,
            curve_key=KEY,
            returns=self._repeats(place),
        )

    def _bid_leave(self, member: Member) -> None:
        """Ask a process to leave; one that has not joined cannot hear us, and is ended."""
        self._due_s.pop(member.place.name, None)
        if member.process.lives and not member.asked:
            member.asked = True
            if member.place.name in self._joined:
                self._simulation.bid_leave(self.participant, member.place.name)
            else:
                member.process.kill()
        member.asked = True

    def _stop(self) -> None:
        """End all processes, stage by stage."""
        self.stopping = True
        for roles in _STAGES:
            stage = [m for m in self.members.values() if m.place.role in roles]
            for member in stage:
                self._bid_leave(member)
            self._await_end(stage)
        for member in [*self.former, *self.members.values()]:
            bad = member.process.status and member.place.name in self._joined and not member.noticed
            if bad and not (self.recovers and member.process.status == KILLED):
                self.defects.append(f"{member.place.label}: {member.process.status} {member.process.words}")

    def _await_end(self, members: Sequence[Member]) -> None:
        """Wait until processes have ended; whoever takes too long is killed, which is a defect."""
        clock = self.participant.clock
        until_s = clock() + LEAVE_ASK_S
        while any(m.process.lives for m in members) and clock() < until_s:
            self.participant.pump(max(0.0, min(until_s - clock(), _LOOK_S)))
        for member in members:
            if member.process.lives:
                if not member.process.excused:
                    self.defects.append(f"{member.place.label} did not leave")
                member.process.kill()

    # -- losses -------------------------------------------------------------------------------------------------------
    @property
    def recovers(self) -> bool:
        """Say whether who is lost is started again."""
        return self.plan.phases[self.phase].on_loss != "fail"

    def _repeats(self, place: Place) -> bool:
        """Say whether its successor goes on with its journal."""
        return loss_of(self.plan.phases[self.phase], place) is Loss.RETURNS

    def _look(self) -> None:
        """Notice processes that have ended although nobody asked them to; start successors that are due."""
        if self._over:
            return
        now_s = self.participant.clock()
        for member in list(self.members.values()):
            if member.asked or member.noticed or self._over:
                continue
            if member.process.lives and member.kill_s is not None and now_s >= member.kill_s:
                self._end_cut_off(member)
            if not member.process.lives or member.process.zombie:
                member.noticed = True
                self._lose(member, now_s)
        for name, due_s in list(self._due_s.items()):
            if now_s >= due_s and not self._over and self._due_s.pop(name, None) is not None:
                former = self.members[name]
                self.former.append(former)
                self._simulation.count(f"restart of a {former.place.role.value}")
                self._start([former.place])
        if self._lost is not None and now_s >= self._lost[1]:
            self._finish(Ended(self.run, "failed", f"failed: {self._lost[0]}", 1))

    def _end_cut_off(self, member: Member) -> None:
        """Kill a process that does not come back; one that cannot be killed wakes up beside its successor."""
        if member.process.frozen and member.process.immortal:
            member.process.zombie = True
            self._simulation.count("zombie")
        else:
            member.shot = True
            member.process.kill()

    def _lose(self, member: Member, now_s: float) -> None:
        name, process = member.place.name, member.process
        text = f"{member.place.label} ended with {process.status}: {process.words}"
        if not self.recovers:
            known = self.begun and name in self._joined
            known = known and member.place.role not in (Role.GOVERNOR, Role.STORE)
            self._lost = self._lost or (text, now_s + (LEAVE_ASK_S / 2 if known else 0.0))
            return
        journals = self._journals[name]
        alike = [*journals, self._simulation.journal_bytes(name)][-LOSSES_AT_ONE_STEP:]
        poison = alike == LOSSES_AT_ONE_STEP * alike[-1:] and not member.slain and self._repeats(member.place)
        if poison and member.slain is None and now_s < (member.word_s or math.inf):
            member.word_s, member.noticed = member.word_s or now_s + NOTICE_S, False
            return
        if not member.slain:
            journals.append(alike[-1])
        delay_s = self.restarts.next_s(name, now_s)
        if process.status == EXIT_DIFFERS:
            self._simulation.count("difference")
            self._differs(process.words)
        elif poison:
            self._simulation.count("poison")
            self._give_up(member, f"poison: {text}", now_s)
        elif delay_s is None:
            self._simulation.count("intensity")
            self._give_up(member, f"died too often: {text}", now_s)
        else:
            self._due_s[name] = now_s + delay_s

    def _differs(self, text: str) -> None:
        """Go back once; a second time the run fails."""
        if self._went_back:
            self._fail(text)
            return
        self._went_back, self._going_back, self.begun = True, text, False
        members, self.members = self.members, {}
        self._due_s.clear()
        for member in members.values():
            member.process.kill()
            self.former.append(member)

    def _give_up(self, member: Member, text: str, now_s: float) -> None:
        """Say that a name does not come back; the governor ends the run, unless it is too slow or the lost one."""
        name, role = member.place.name, member.place.role
        self.table.pop(name, None)
        self.participant.ask(KERNEL, "kernel.withdraw", Withdraw([name]), DEADLINE_OTHER_S)
        known = self.begun and role not in (Role.GOVERNOR, Role.STORE)
        self._lost = self._lost or (text, now_s + (LEAVE_ASK_S / 2 if known else 0.0))

    def _fail(self, text: str) -> None:
        self._finish(Ended(self.run, "failed", f"failed: {text}", 1))

    def _finish(self, ended: Ended) -> None:
        self.ended = self.ended or ended

    def _ask(self, peer: str, call: str, message: Any) -> Any:
        """Ask, and look after the processes until the answer has come: who is to answer may be lost."""
        pending = self.participant.ask(peer, call, message, DEADLINE_OTHER_S)
        self._open.add(pending.serial)
        while pending.serial not in self._replies:
            if self._over and peer != KERNEL:
                raise PeerLost(peer, "the run is over, or begins again")
            self._turn()
        self._open.discard(pending.serial)
        answer = self._replies.pop(pending.serial)
        if answer.error is not None:
            raise answer.error
        return codec_of(CALL_BY_NAME[call].reply).decode(answer.body)


def _token(place: Place) -> str:
    """Return the token of a name: the same for each incarnation, so that nothing but these tells them apart."""
    return hashlib.sha256(place.name.encode()).hexdigest()[:43]
