"""Free environments: a worker of a phase with bodies whose environments do not wait for each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ganglion.peer.agent.decision import heard
from ganglion.peer.step.layout import writable_copy
from ganglion.peer.step.tick import Array, EndedEpisode, Pace
from ganglion.peer.worker.ticks import ActRequest, Sums, Ticks, UpdateRequest, _Agent, _World
from ganglion.peer.worker.world import Phase
from ganglion.wire.conversation import Pending
from ganglion.wire.messages import TERMINATED, TRUNCATED, Act, Acted, Boundary, EnvironmentUpdated, Verdict

if TYPE_CHECKING:
    from ganglion.errors import GanglionError
    from ganglion.peer.worker.controller import ControllerHost


class _Mail:
    """The calls of one agent's muscle, one at a time.

    Attributes:
        waiting: Places of bodies that decide in the next call.
        asked: The open call.
        sent: Number of calls so far.
        wanted: Number of the newest call whose reply is awaited.
        swaps: Whether the muscle changes its model before its next call.
        busy: Whether a call is open.
    """

    def __init__(self) -> None:
        self.waiting: list[Array] = []
        self.asked: ActRequest | None = None
        self.sent = self.wanted = 0
        self.swaps = self.busy = False


class _Course:
    """The state of an environment within its tick."""

    def __init__(self) -> None:
        self.awaits: dict[int, int] = {}  # number of an agent -> number of its message awaited before the next step
        self.deciding = np.zeros(0, np.int64)  # rows that decide before the next step
        self.sent: tuple[Array | None, list[Array]] | None = None  # bodies in the open step, and their setpoints
        self.doomed = ""  # the lost muscle for which the episode is given up instead of the next step


class _Closing:
    """An ended episode until all its agents have received its end: number of an agent -> number of its call."""

    def __init__(self, over: EndedEpisode, awaits: dict[int, int], sums: Sums) -> None:
        self.over, self.awaits, self.sums = over, awaits, sums


class FreeTicks(Ticks):
    """Run one worker's part of a phase, each environment on its own virtual ticks: phase + n * period.

    Each environment calls the muscles of its bodies, steps and begins new episodes independently of the others. A
    muscle has one open call at a time; bodies of several environments that wait meanwhile share its next call. All
    actions depend only on the order of the replies. Before a signal, or the end, all environments finish their steps
    and wait at a boundary.

    Args:
        lead: How many ticks an environment may be ahead of the slowest unfinished one; None: any.
        listens: Whether episodes are reported to the governor: evaluations or conditions of the phase need them.
    """

    def __init__(self, phase: Phase, verdict: Verdict, host: ControllerHost, lead: int | None, listens: bool) -> None:
        super().__init__(phase, verdict, host)
        self._listens = listens
        self._pace = Pace(self.core.clocks, lead)
        self._mail = [_Mail() for _ in self.agents]
        self._courses = [_Course() for _ in self.worlds]
        self._agents_of = [[self.agents.index(link.agent) for link in world.links] for world in self.worlds]
        self._standing = [world.number for world in self.worlds]  # at a boundary
        self._pendings: dict[int, Pending] = {}
        self._flights: dict[int, tuple[str, int]] = {}  # serial -> kind, number of the agent or environment
        self._closing: list[_Closing] = []
        self._drawn: dict[int, int] = {}  # row -> version of the drawn model by which the body has not decided yet
        self._begun = self._finished = False

    # -- state --------------------------------------------------------------------------------------------------------
    def state(self) -> dict[str, Any]:
        """Return the state that a successor needs, open calls included."""
        mail = [
            [m.waiting, None if m.asked is None else list(m.asked[2:]), m.sent, m.wanted, m.swaps, m.busy]
            for m in self._mail
        ]
        courses = [[c.awaits, c.deciding, None if c.sent is None else list(c.sent), c.doomed] for c in self._courses]
        flights = [[serial, *flight, self._pendings[serial].as_asked()] for serial, flight in self._flights.items()]
        closing = [[list(one.over), one.awaits, one.sums] for one in self._closing]
        own = {"at": list(self._pace.at), "mail": mail, "courses": courses, "flights": flights, "closing": closing}
        return {**super().state(), **own, "drawn": self._drawn, "stands": [self._standing, self._begun, self._finished]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        super().restore(state)
        self._pace.at, self._drawn = list(state["at"]), dict(state["drawn"])
        self._standing, self._begun, self._finished = state["stands"]
        for agent, mail, (waiting, asked, *rest) in zip(self.agents, self._mail, state["mail"], strict=True):
            mail.waiting, (mail.sent, mail.wanted, mail.swaps, mail.busy) = list(waiting), rest
            mail.asked = None if asked is None else ActRequest(agent, Act([]), *asked)
        for course, (awaits, deciding, step, doomed) in zip(self._courses, state["courses"], strict=True):
            course.doomed, course.awaits, course.deciding = doomed, dict(awaits), writable_copy(deciding)
            course.sent = None if step is None else (step[0], step[1])
        self._flights = {serial: (kind, number) for serial, kind, number, _ in state["flights"]}
        again = self.phase.participant.ask_again
        self._pendings = {serial: again(serial, asked) for serial, _, _, asked in state["flights"]}
        self._closing = [
            _Closing(EndedEpisode(*over), dict(awaits), dict(sums)) for over, awaits, sums in state["closing"]
        ]

    # -- the loop -----------------------------------------------------------------------------------------------------
    def again(self, verdict: Verdict) -> None:
        """Begin one more evaluation: all environments continue after the greatest tick of any environment."""
        self._pace.join()
        self._standing, self._finished = [world.number for world in self.worlds], False
        super().again(verdict)

    def tick(self) -> bool:
        """Handle the next replies and send the calls that follow; return whether the phase continues."""
        if not self._flights:  # all environments wait at the boundary, or are done
            if self._begun:
                self._finish_tick()
            else:
                self._begun = True
                self._renew()
            return self._ending is None
        for serial in self.phase.participant.first(self._pendings):
            if serial in self._flights:  # otherwise the reply was handled during a loss
                self._land(serial)
        self._go_on()
        return True

    def _land(self, serial: int) -> None:
        """Handle one reply, after a loss that of the successor, and send the calls that follow."""
        (kind, number), pending = self._flights.pop(serial), self._pendings.pop(serial)
        lost: list[_Agent] = []

        def retry(_: int, error: GanglionError) -> Pending:
            if kind in ("update", "reset"):
                self.core.tick = self._pace.at[number] if kind == "update" else self._pace.since(number)
                return self._recovery.replace_environment(self.worlds[number], error)
            if kind == "report":
                raise error
            self._doom(number)
            return self._ask_again(kind, number, error, lost)

        [answer] = self.phase.participant.gather([pending], retry)
        if kind == "act":
            self._decided(number, answer, bool(lost))
        elif kind == "update":
            self._stepped(number, pending, answer)
        elif kind == "reset":
            self.core.tick = self._pace.since(number)
            if self._recovery.took_new_object(self.worlds[number], answer):
                self._begin_with_new_object(self.worlds[number])
            else:
                self._take_reset(self.worlds[number], answer)
            self._ask_for(number)
        elif kind == "swap":
            self._mail[number].busy = False
            self._drawn |= dict.fromkeys(self.agents[number].rows.tolist(), answer.version)
        if lost:
            self._give_up_all(number, lost)

    def _fly(self, kind: str, number: int, pending: Pending) -> None:
        pending.carried = True
        self._flights[pending.serial], self._pendings[pending.serial] = (kind, number), pending

    def _renew(self) -> None:
        """Let all waiting environments continue."""
        standing, self._standing = sorted(self._standing), []
        for number in standing:
            self._advance(number)
        self._go_on()

    def _go_on(self) -> None:
        """Release environments within `lead` of the slowest, report ended episodes, and call idle muscles."""
        if self._pace.lead is not None and self._standing and not self._rests:
            standing, self._standing = self._standing, []
            for number in standing:
                self._advance(number)
        phase = self.phase
        reports = None if phase.setup.evaluation else self.take_reports()
        if reports and self._listens:
            report = Boundary(phase.setup.worker, phase.tick, self.step, False, [], [], ended=reports)
            self._fly("report", 0, phase.participant.ask(phase.governor, "governor.boundary", report, None))
        if self.play is not None:
            for place in self.play.due():
                self._mail[self.agents.index(self.play.agents[place])].swaps = True
        for number, mail in enumerate(self._mail):
            if not mail.busy and (mail.wanted > mail.sent or (self.agents[number].owed and self._is_done(number))):
                self._ask_agent(number)

    @property
    def _rests(self) -> bool:
        """Return whether all environments must stop at their next boundary."""
        phase = self.phase
        return bool(self._finished or phase.signals or self._wishes) or phase.steps_left is not None

    # -- an agent -----------------------------------------------------------------------------------------------------
    def _is_done(self, number: int) -> bool:
        """Return whether an agent has no more decisions to make, so that ends need a call of their own."""
        return not self._rests and all(self.core.spent[link.world.number] for link in self.agents[number].links)

    def _ask_agent(self, number: int) -> None:
        """Send an idle muscle its waiting call, or first the call that changes its model."""
        agent, mail, play = self.agents[number], self._mail[number], self.play
        mail.busy = True
        if mail.swaps and play is not None:
            mail.swaps = False
            self._fly("swap", number, self._ask_swap(play, play.agents.index(agent)))
            return
        places = np.sort(np.concatenate([np.zeros(0, np.int64), *mail.waiting]))
        mail.waiting, mail.asked = [], self._asked(agent, places)
        if self._sourced:
            [mail.asked] = self._seated([mail.asked])
        mail.sent += 1
        self._fly("act", number, self.ask(agent, mail.asked.message, 0))

    def _decided(self, number: int, answer: Acted, lost: bool) -> None:
        """Handle a muscle's reply (a lost muscle has none); step the environments that wait for no other muscle."""
        agent, mail = self.agents[number], self._mail[number]
        asked, mail.asked, mail.busy = mail.asked, None, False
        assert asked is not None
        if self.phase.programs:
            [answer] = heard([agent.actor], [answer], [0 if lost else len(asked.deciding)])
        at = np.array(self._pace.at)[self.core.environment[agent.rows]]
        self.core.tick = int(at[asked.places].max())
        self._complete(asked, answer, lost)
        if lost:
            return
        self._settle_told(number)
        self._seal_over()
        if len(asked.deciding):
            self._decide(agent, asked.deciding, answer)
            agent.tick[asked.deciding] = at[asked.deciding]
            if self._drawn:
                self._note_drawn(agent.rows[asked.deciding].tolist())
        for environment, course in enumerate(self._courses):
            if course.awaits.get(number, mail.sent + 1) <= mail.sent:
                del course.awaits[number]
                if not course.awaits:
                    self._step_now(environment)

    def _note_drawn(self, rows: list[int]) -> None:
        """Record the drawn models by which these bodies decide for the first time."""
        ticks, setup = self._pace.at, self.phase.setup
        found = [[ticks[self.core.environment[row]], row, self._drawn.pop(row)] for row in rows if row in self._drawn]
        if found:
            self.phase.records.add(["opponents", setup.phase, setup.worker, found])

    # -- a lost muscle ------------------------------------------------------------------------------------------------
    def _doom(self, number: int) -> None:
        """Let environments of a lost muscle finish their open steps, and make no further steps."""
        agent = self.agents[number]
        mine = [link.world.number for link in agent.links]
        for environment in mine:
            if self.core.open(environment):
                self._courses[environment].doomed = agent.actor.peer
        for serial, (kind, environment) in list(self._flights.items()):
            if kind == "update" and environment in mine and serial in self._flights:
                self._land(serial)

    def _ask_again(self, kind: str, number: int, error: GanglionError, lost: list[_Agent]) -> Pending:
        """Let the successor of a lost muscle pass on the open call, or change its model."""
        if kind == "swap" and self.play is not None:
            agent = self.agents[number]
            self._recovery.set_up_successor(agent, error, lost)
            return self._ask_swap(self.play, self.play.agents.index(agent))
        asked = self._mail[number].asked
        assert asked is not None
        return self._recovery.replace_muscle(asked, error, lost, 0)

    def _give_up_all(self, number: int, lost: list[_Agent]) -> None:
        """Close the open episodes of the environments of a lost muscle, and stop waiting for the muscle."""
        mail = self._mail[number]
        mail.waiting, mail.wanted = [], mail.sent
        for course in self._courses:
            course.awaits.pop(number, None)
        for one in [one for one in self._closing if number in one.awaits]:
            self._settle(one, number)
        self._recovery.drop(lost)
        self._seal_over()

    def give_up(self, world: _World, peer: str) -> None:
        """Close the open episode of an environment after the loss of a muscle, once it waits for no other muscle."""
        course, number = self._courses[world.number], world.number
        if number in self._standing or not self.core.open(number):
            self.core.tick, course.doomed = self._pace.at[number], ""
            self._recovery.close_lost(world, peer)
            return
        course.doomed = peer
        if not course.awaits:
            self._step_now(number)

    # -- an environment -----------------------------------------------------------------------------------------------
    def _arrive(self, number: int) -> None:
        """Let an environment pass its boundary at once, unless all must stop."""
        if self._rests and not self.core.spent[number]:
            self._standing.append(number)
        else:
            self._advance(number)

    def _advance(self, number: int) -> None:
        """Let an environment pass its boundary unless it is too far ahead: it begins an episode, or bodies decide."""
        core = self.core
        if core.spent[number]:
            self._finished = core.finished
        elif not self._pace.may_step(number, core.spent):
            self._standing.append(number)
        elif core.open(number):
            self._ask_for(number)
        elif self.worlds[number].is_new:
            core.tick = self._pace.since(number)
            self._begin_with_new_object(self.worlds[number])
            self._ask_for(number)
        else:
            world = self.worlds[number]
            self._fly("reset", number, self._ask_reset(world, self._reset_of(world)))

    def _ask_for(self, number: int) -> None:
        """Queue the decisions of an environment's bodies for its next step, with the ends of its last episode."""
        course = self._courses[number]
        for one in self._closing:
            if one.over.environment == number:
                course.awaits |= one.awaits
        course.deciding = self.core.deciding([number])
        for of_agent in self._agents_of[number]:
            agent, mail = self.agents[of_agent], self._mail[of_agent]
            mine = course.deciding[agent.among(course.deciding)]
            if len(mine):
                mail.waiting.append(agent.places_of(mine))
                course.awaits[of_agent] = mail.sent + 1
            mail.wanted = max(mail.wanted, course.awaits.get(of_agent, 0))
        if not course.awaits:
            self._step_now(number)

    def _step_now(self, number: int) -> None:
        course = self._courses[number]
        if course.doomed:
            self.core.tick, peer, course.doomed = self._pace.at[number], course.doomed, ""
            self._recovery.close_lost(self.worlds[number], peer)
            self._seal_over()
            self._arrive(number)
            return
        self.step += 1
        self.phase.hooks.step = self.step
        sent = self._step(self.worlds[number], course.deciding, (*self._base, self.step, 0))
        course.sent = (sent.places, sent.setpoints)
        self._fly("update", number, sent.pending)

    def _stepped(self, number: int, pending: Pending, answer: EnvironmentUpdated) -> None:
        """Handle the reply of an environment's step, and let the environment continue."""
        phase, course, tick = self.phase, self._courses[number], self._pace.at[number]
        assert course.sent is not None
        sent, course.sent = UpdateRequest(self.worlds[number], pending, *course.sent), None
        self.core.tick = tick
        if not self._recovery.took_new_object(self.worlds[number], answer):
            self._take(sent, answer, tick + 1)
        if not self.core.open(number):
            course.doomed = ""
        self._pace.step(number)
        self._seal_over()
        phase.tick += 1
        if pending.since_s >= phase.tell_s:
            phase.tell_steps(self._reached(), pending.since_s)
        self._arrive(number)

    # -- episodes that are over ---------------------------------------------------------------------------------------
    def _seal_over(self) -> None:
        """Record the episodes whose ends all agents have received; all episodes if the worker is cut short."""
        over, self._over = self._over, []
        self._closing += map(self._closing_of, over)
        if not self._closing:
            return
        for one in self._closing if self._closed else ():
            for number in list(one.awaits):
                self._settle(one, number)
        sealed = [one for one in self._closing if not one.awaits]
        if sealed:
            self._closing = [one for one in self._closing if one.awaits]
            self._record_over([one.over for one in sealed], [one.sums for one in sealed])

    def _closing_of(self, over: EndedEpisode) -> _Closing:
        """Return an ended episode with the agents that must still receive its end."""
        found = _Closing(over, {}, {})
        for number in self._agents_of[over.environment]:
            agent, mail = self.agents[number], self._mail[number]
            if any(self._is_of(number, places, over) for places, *_ in agent.ends):
                found.awaits[number] = mail.sent + 1
            elif mail.asked is not None and self._is_of(number, _ends_of(mail.asked), over):
                found.awaits[number] = mail.sent
            else:
                self._settle(found, number)
        return found

    def _is_of(self, number: int, places: Array, over: EndedEpisode) -> bool:
        """Return whether an episode is that of any of these bodies of an agent."""
        rows = self.agents[number].rows[places]
        return bool(
            (rows == over.row if over.row is not None else self.core.environment[rows] == over.environment).any()
        )

    def _settle_told(self, number: int) -> None:
        """Settle the episodes whose ends an agent has received in its last call."""
        for one in self._closing:
            if number in one.awaits and one.awaits[number] <= self._mail[number].sent:
                self._settle(one, number)

    def _settle(self, closing: _Closing, number: int) -> None:
        """Add the objectives of an agent's bodies in an episode, all of which are known."""
        closing.awaits.pop(number, None)
        for name, found in self._sums(closing.over, self.agents[number]).items():
            known = closing.sums.get(name, [0, 0.0, 0])
            closing.sums[name] = [one + more for one, more in zip(known, found, strict=True)]

    def _tell_ends(self) -> None:
        self._seal_over()
        for agent, mail in zip(self.agents, self._mail, strict=True):
            mail.sent += agent.owed
        super()._tell_ends()
        for number in range(len(self.agents)):
            self._settle_told(number)
        self._seal_over()


def _ends_of(asked: ActRequest) -> Array:
    found: Array = asked.places[asked.flags & (TERMINATED | TRUNCATED) != 0]
    return found
