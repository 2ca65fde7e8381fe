"""A phase in one worker: its environments and agents, where readings and rewards lie, how long calls take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ganglion.errors import RemoteProtocolError
from ganglion.limits import STEPS_REPORT_S
from ganglion.peer.hooks import Hooks
from ganglion.peer.participant import Participant
from ganglion.peer.records import Records, declaration_rows
from ganglion.peer.values import Layouts
from ganglion.peer.world import Actor, World, select
from ganglion.run.agents import full_ids
from ganglion.run.plan import span_s
from ganglion.sdk.controller import Controller
from ganglion.wire.messages import ControllerSetup, ControllerStart, FlowSignal, RunEvent
from ganglion.wire.name import topic

if TYPE_CHECKING:
    from ganglion.peer.episode import Episode


class Phase:
    """What stays the same over the episodes of a phase in this worker."""

    def __init__(self, participant: Participant, records: Records, setup: ControllerSetup, worlds: list[World]) -> None:
        self.participant, self.records, self.setup, self.worlds = participant, records, setup, worlds
        self.governor = setup.governor
        self.hooks = Hooks(f"controller (worker {setup.worker})")
        self.conditions: list[tuple[str, Any]] = []
        self.controller: Controller
        self.start: ControllerStart | None = None
        self.actors: list[Actor] = []
        self.by_name: dict[str, Actor] = {}
        self.episode: Episode | None = None
        self.signals: deque[FlowSignal] = deque()
        self.tick = self.heeded = 0  # steps of this worker, which are rounds; the last signal it acted on
        self.common = self.settle = self.patient = False
        self.evaluation: tuple[int, int] | None = None  # round of training, and `tick` when it began
        self.missing: set[str] = set()  # environments that were lost and are not led to where they were
        self.steps_left: int | None = None  # boundaries to go before the next PAUSE
        self._tell_s: float | None = None
        self._spans_s: dict[tuple[str, str], float | None] = {}
        self._tables = {world.peer: world.setup.get("deadlines_s") for world in worlds}
        self.layouts = Layouts({})

    def begin(self, start: ControllerStart, actors: list[Actor]) -> None:
        """Take the agents of the phase."""
        self.start, self.actors = start, actors
        self.by_name = {actor.name: actor for actor in actors}
        self._tables |= {actor.peer: actor.setup.get("deadlines_s") for actor in actors}
        self.layouts = Layouts(self.by_name)
        self.common, self.settle, self.patient = start.common, start.settle, start.patient
        if all(world.rewards is not None for world in self.worlds):
            self.connect_rewards()
            for actor in actors:
                actor.told_rewards = True

    def tell_steps(self, episode: int, steps: int) -> None:
        """Tell those who look on how far the open episode is, once a second."""
        now_s = self.participant.clock()
        if self._tell_s is None:
            self._tell_s = now_s + STEPS_REPORT_S
        if now_s < self._tell_s:
            return
        self._tell_s = now_s + STEPS_REPORT_S
        setup = self.setup
        fields: dict[str, Any] = {"phase": setup.phase, "worker": setup.worker, "episode": episode, "steps": steps}
        if setup.evaluation:
            fields["mode"] = setup.mode
        news = RunEvent("steps.taken", fields, time.time(), "waits")
        self.participant.tell(topic(setup.run, "waits"), "event", news)

    @property
    def moment(self) -> tuple[int, int]:
        """Return where a row of now stands: the round, and the steps of the evaluation within it."""
        if self.evaluation is None:
            return self.tick, 0
        round_, began = self.evaluation
        return round_, self.tick - began

    @cached_property
    def sensor_places(self) -> dict[str, tuple[int, int]]:
        """Return where each sensor lies: full id -> (environment, position)."""
        return _places(self.worlds, "sensors")

    @cached_property
    def actuator_places(self) -> dict[str, tuple[int, int]]:
        """Return where each actuator lies: full id -> (environment, position)."""
        return _places(self.worlds, "actuators")

    def connect_rewards(self, declare: bool = True) -> None:
        """Decide which rewards each agent gets, now that all are declared; RemoteProtocolError names a strange one."""
        places = _places(self.worlds, "rewards")
        for actor in self.actors:
            wanted = _wanted_rewards(actor, self.worlds, places)
            actor.rewards = select(wanted, places, "earned") if wanted else (lambda worlds: [])
            actor.reward_declarations = [self._reward(uid, places[uid]) for uid in wanted]
            if declare:
                self._declare(None, actor.name, actor.reward_declarations)
        for world in self.worlds if declare else ():
            self._declare(world.uid, None, full_ids(world.uid, world.rewards or []))

    def _declare(self, environment: str | None, agent: str | None, rewards: list[dict[str, Any]]) -> None:
        """Record what rewards there are: they may be known only now."""
        rows = declaration_rows(rewards)
        self.records.add(["declare", self.setup.phase, environment, agent, "reward", rows])

    def _reward(self, uid: str, place: tuple[int, int]) -> dict[str, Any]:
        rewards = self.worlds[place[0]].rewards
        assert rewards is not None
        return {**rewards[place[1]], "id": uid}

    def span_s(self, call: str, peer: str = "") -> float | None:
        """Return how long a call may take: the document's number for this peer first, then that for all."""
        key = (call, peer)
        if key not in self._spans_s:
            own = self._tables.get(peer)
            self._spans_s[key] = span_s(call, self.setup.deadlines_s if own is None else own)
        return self._spans_s[key]


def _places(worlds: Sequence[World], what: str) -> dict[str, tuple[int, int]]:
    found = {}
    for i, world in enumerate(worlds):
        for position, declared in enumerate(getattr(world, what) or []):
            found[f"{world.uid}.{declared['id']}"] = (i, position)
    return found


def _wanted_rewards(actor: Actor, worlds: Sequence[World], places: Mapping[str, tuple[int, int]]) -> list[str]:
    given = actor.setup.get("rewards")
    if given is None:
        touched = set(actor.setup["environments"])
        return [uid for uid, (world, _) in places.items() if worlds[world].uid in touched]
    uids = {world.uid for world in worlds}
    wanted: list[str] = []
    for name in given:
        if name in places:
            wanted.append(name)
        elif name in uids:
            wanted += [uid for uid, (world, _) in places.items() if worlds[world].uid == name]
        else:
            raise RemoteProtocolError(f"agent {actor.name}: rewards: {name!r} is no reward of {', '.join(places)}")
    return wanted
