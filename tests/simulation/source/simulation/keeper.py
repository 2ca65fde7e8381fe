"""A stand-in for the supervisor: starts and ends processes as the governor needs them; nothing is forked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ganglion.errors import GanglionError
from ganglion.limits import DEADLINE_OTHER_S, LEAVE_ASK_S
from ganglion.peer.conversation import Answer, Pending, Request, Told
from ganglion.peer.participant import Participant
from ganglion.run.plan import Plan, processes_of
from ganglion.run.plan import Process as Place
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import (
    Admit,
    Done,
    Ended,
    FlowSignal,
    GovernorStart,
    Joined,
    Need,
    RunEvent,
    RunRequest,
    Signalled,
    Subscribe,
    Watch,
)
from ganglion.wire.name import KERNEL, Role, peer_name, topic

if TYPE_CHECKING:
    from simulation.bus import Simulation
    from simulation.process import Process

__all__ = ["Keeper"]

_LOOK_S = 0.05
_STAGES: tuple[tuple[Role, ...], ...] = (  # who leaves first; the store after everybody who writes
    (Role.ENVIRONMENT, Role.MUSCLE, Role.CONTROLLER),
    (Role.BRAIN,),
    (Role.GOVERNOR,),
    (Role.STORE,),
)


class Member:
    """Be one place that is taken: the process, and whether it was asked to leave."""

    def __init__(self, place: Place, process: Process, incarnation: int) -> None:
        self.place, self.process, self.incarnation = place, process, incarnation
        self.asked = False
        self.noticed = False


class Keeper:
    """Carry out one run as the supervisor does: admit, start, answer `kernel.need`, end everything in order."""

    def __init__(self, simulation: Simulation, run: str, plan: Plan, store: str | None) -> None:
        self.run, self.plan = run, plan
        self.governor = Place(peer_name(run, Role.GOVERNOR), Role.GOVERNOR)
        self.store = None if store is None else Place(peer_name(run, Role.STORE), Role.STORE)
        self.members: dict[str, Member] = {}
        self.former: list[Member] = []
        self.ended: Ended | None = None
        self.begun = False
        self.events: list[RunEvent] = []
        self.answers: list[Signalled | str] = []
        self.defects: list[str] = []
        self._joined: set[str] = set()
        self._lost: tuple[str, float] | None = None  # what is told when the governor says nothing until then
        self._simulation = simulation
        self._orders: list[tuple[str, Any]] = []
        self._asked: set[int] = set()

    # -- the life of a run --------------------------------------------------------------------------------------------
    def live(self, participant: Participant, token: str) -> int:
        """Join, carry out the run and end all its processes; the program of the supervisor's process."""
        self.participant = participant
        participant.on_answer = self._answered
        participant.join(participant.hello(Role.SUPERVISOR.value, "supervisor", token))
        try:
            self._begin()
        except GanglionError as error:  # whatever prevents the beginning fails the run
            self._finish(Ended(self.run, "failed", f"failed: {error}", 1))
        while self.ended is None:
            incoming = participant._next(_LOOK_S)
            if incoming is not None:
                participant._take(incoming)
            self._look()
            self._give_orders()
        self._stop()
        participant.leave()
        return 0

    def _begin(self) -> None:
        for name in ("events", "waits"):
            self._ask(KERNEL, "kernel.subscribe", Subscribe(topic(self.run, name)))
        places = [self.governor, *([self.store] if self.store else [])]
        self._ensure([*places, *processes_of(self.run, self.plan.phases[0])])
        while not {place.name for place in places} <= self._joined and self.ended is None:
            self.participant.pump(_LOOK_S)
            self._look()
        if self.ended is None:
            store = None if self.store is None else self.store.name
            self._ask(
                self.governor.name, "governor.start", GovernorStart(self.run, self.plan.to_map(), store)
            )
            self.begun = True

    def handlers(self) -> dict[str, Any]:
        """Return what the kernel hands on to the supervisor."""
        return {"kernel.need": self.need, "kernel.ended": self.end}

    def need(self, request: Request, need: Need) -> Done:
        """Let the processes of a phase be there."""
        assert request.peer == self.governor.name
        self._ensure(processes_of(self.run, self.plan.phases[need.phase]))
        return Done()

    def end(self, request: Request, ended: Ended) -> Done:
        """Hear how the run has ended."""
        self._finish(ended)
        return Done()

    def told(self, told: Told) -> None:
        """Hear who has joined, and how the run goes."""
        if told.head.call == "kernel.joined":
            self._joined.add(codec_of(Joined).decode(told.body).peer)
        elif told.head.call == "event":
            self.events.append(codec_of(RunEvent).decode(told.body))

    # -- what operators do --------------------------------------------------------------------------------------------
    def signal(self, signal: str, worker: int | None = None, steps: int | None = None) -> None:
        """Send an operator's signal to the governor; its answer goes to `answers`."""
        wish = FlowSignal(signal, "operator", "", None, worker, None, steps)
        self._order("governor.signal", wish)

    def stop(self, now: bool = False) -> None:
        """Interrupt the run."""
        self._order("governor.stop", RunRequest(self.run, now, "operator"))

    def _order(self, call: str, message: Any) -> None:
        if self.begun and self.ended is None:
            self._orders.append((call, message))
            self._simulation.wake_supervisor()

    def _give_orders(self) -> None:
        orders, self._orders = self._orders, []
        for call, message in orders:
            pending = self.participant.ask(self.governor.name, call, message, DEADLINE_OTHER_S)
            self._asked.add(pending.serial)

    def _answered(self, answer: Answer) -> None:
        if answer.pending.serial in self._asked:
            refused = answer.error is not None or answer.pending.call != "governor.signal"
            self.answers.append(str(answer.error) if refused else codec_of(Signalled).decode(answer.body))

    # -- processes ----------------------------------------------------------------------------------------------------
    def _ensure(self, places: Sequence[Place]) -> None:
        """Start who is missing, ask who is not needed to leave."""
        kept = {place.name for place in (self.governor, self.store) if place is not None}
        needed = {place.name for place in places} | kept
        fresh = []
        for place in places:
            former = self.members.get(place.name)
            if former is not None and former.process.lives and not former.asked:
                continue
            if former is not None and not former.asked:
                continue  # it was lost: the run fails by its name
            incarnation = 1
            if former is not None:
                incarnation = former.incarnation + 1
                self._await_end([former])
                self.former.append(former)
            fresh.append((place, incarnation))
        for place, incarnation in fresh:
            self._ask(KERNEL, "kernel.admit", self._admission(place, incarnation))
        self._ask(KERNEL, "kernel.watch", Watch([place.name for place, _ in fresh]))
        leaving = [m for name, m in self.members.items() if name not in needed]
        for place, incarnation in fresh:
            process = self._simulation.start(place, incarnation, _token(place, incarnation))
            self.members[place.name] = Member(place, process, incarnation)
            self._joined.discard(place.name)
        for member in leaving:
            self._bid_leave(member)

    def _admission(self, place: Place, incarnation: int) -> Admit:
        digest = hashlib.sha256(_token(place, incarnation).encode()).digest()
        role = place.role.value
        return Admit(
            place.name,
            role,
            self.run,
            digest,
            incarnation,
            place.uid,
            place.worker,
            evaluation=place.evaluation,
        )

    def _bid_leave(self, member: Member) -> None:
        """Ask a process to leave; one that has not joined cannot hear us, and is ended."""
        if member.process.lives and not member.asked:
            member.asked = True
            if member.place.name in self._joined:
                self._simulation.bid_leave(self.participant, member.place.name)
            else:
                member.process.kill()

    def _stop(self) -> None:
        """End all processes, stage by stage."""
        for roles in _STAGES:
            stage = [m for m in self.members.values() if m.place.role in roles]
            for member in stage:
                self._bid_leave(member)
            self._await_end(stage)
        for member in [*self.former, *self.members.values()]:
            if member.process.status and member.place.name in self._joined:
                self.defects.append(f"{member.place.label}: {member.process.status} {member.process.words}")

    def _await_end(self, members: Sequence[Member]) -> None:
        """Wait until processes have ended; whoever takes too long is killed, which is a defect."""
        clock = self.participant.clock
        until_s = clock() + LEAVE_ASK_S
        while any(m.process.lives for m in members) and clock() < until_s:
            self.participant.pump(_LOOK_S)
        for member in members:
            if member.process.lives:
                self.defects.append(f"{member.place.label} did not leave")
                member.process.kill()

    def _look(self) -> None:
        """Notice processes that have ended although nobody asked them to; the run fails by the first."""
        now_s = self.participant.clock()
        for member in self.members.values():
            if member.process.lives or member.asked or member.noticed:
                continue
            member.noticed = True
            text = f"{member.place.label} ended with {member.process.status}: {member.process.words}"
            known = self.begun and member.place.name in self._joined
            known = known and member.place.role not in (Role.GOVERNOR, Role.STORE)
            self._lost = self._lost or (text, now_s + (LEAVE_ASK_S / 2 if known else 0.0))
        if self._lost is not None and now_s >= self._lost[1]:
            self._finish(Ended(self.run, "failed", f"failed: {self._lost[0]}", 1))

    def _finish(self, ended: Ended) -> None:
        self.ended = self.ended or ended

    def _ask(self, peer: str, call: str, message: Any) -> Any:
        pending: Pending = self.participant.ask(peer, call, message, DEADLINE_OTHER_S)
        return self.participant.gather([pending])[0]


def _token(place: Place, incarnation: int) -> str:
    return hashlib.sha256(f"{place.name} {incarnation}".encode()).hexdigest()[:43]
