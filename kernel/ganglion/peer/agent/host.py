"""Agents' hosts: the common base of the hosts of muscles and brains, from the set-up to the snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ganglion.errors import DocumentError
from ganglion.peer.agent.filters import FilterStack, tag_of
from ganglion.peer.author import Hooks, Loader, ToleratedErrors, identity, seed_process
from ganglion.peer.host import Host
from ganglion.peer.journal.compaction import Compaction
from ganglion.peer.journal.snapshot import Snapshot, State
from ganglion.peer.participant import Participant
from ganglion.peer.step.layout import Layout, of_group
from ganglion.peer.values import deserialize
from ganglion.run.agents import blind
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import ActuatorInformation, Group, RewardInformation, SensorInformation
from ganglion.sdk.memory import Memory
from ganglion.sdk.seed import derive, generator_from_words
from ganglion.wire.conversation import Request

_Filters = TypeVar("_Filters", bound=FilterStack)


class Part(NamedTuple):
    """Hold the declarations of one group of bodies, or all declarations of an agent without groups."""

    sensor_layout: Layout
    actuator_layout: Layout
    sensors: list[SensorInformation]
    actuators: list[ActuatorInformation]


def shown_behind(groups: Sequence[Group], shown: Sequence[tuple[Any, Any]]) -> tuple[Group, ...]:
    """Return groups of bodies with the declarations behind their filters."""
    return tuple(Group(*pair, group.bodies) for group, pair in zip(groups, shown, strict=True))


class AgentHost(Host):
    """Keep the set-up of an agent's process: declarations, memory, filters, snapshot."""

    _of_group: Any = None  # the group of each body, None if there is only one group
    participant: Participant
    _setup: Any
    _memory: Memory
    _snapshot: Snapshot
    _filters: Any

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._compaction: Compaction | None = None  # compaction of the journal

    def _begin(
        self, request: Request, setup: Any, where: str, given: Mapping[str, Any]
    ) -> tuple[list[SensorInformation], list[ActuatorInformation], dict[str, Any]]:
        """Begin a phase; return sensors, actuators and the attributes that muscles and brains have in common.

        `given` are also attributes of the agent's filters and objective.
        """
        self.participant.begin_journal([(request, None)])  # earlier entries are not needed
        self._setup, self._compaction = setup, None
        self._where, self._given = where, {**given, "name": setup.agent, "mode": Mode(setup.mode)}
        self._tolerated_errors = ToleratedErrors(lambda: self.participant, setup.run)
        self._hooks = self._hooks_of(self.kind, setup.plugin, f"{self.kind} {where}")
        seed_process(setup.stream)
        count = 1 + max((setup.groups or {}).values(), default=0)
        self._parts = [self._part(setup, number) for number in range(count)]
        self._sensor_layout, self._actuator_layout, sensors, actuators = self._parts[0]
        self._rewards: Layout | None = None
        self._reward_ids: list[dict[str, Any]] | None = None
        attributes = {
            **self._given,
            "sensors": () if setup.filters else sensors,
            "actuators": () if setup.filters else actuators,
            "groups": self._groups(setup) if setup.bodies else (),
            "static_world_models": deserialize(setup.static_models or {}, (), "setup.static_models"),
            **identity(setup.stream),
        }
        return sensors, actuators, attributes

    def _part(self, setup: Any, number: int) -> Part:
        seen, moved = of_group(setup.sensors, number), of_group(setup.actuators, number)
        sensors, actuators = Layout.of(seen), Layout.of(moved)
        found = Part(sensors, actuators, sensors.sensors(seen), actuators.noops(moved))
        for it in (*found.sensors, *found.actuators):
            of = (it.uid, number) if number else (it.uid,)
            it.space.seed(generator_from_words(derive(setup.stream, "space", *of)))
        return found

    def _groups(self, setup: Any) -> tuple[Group, ...]:
        """Return the groups of bodies in the form that authors see, and keep the group of each body."""
        rows = [*setup.bodies, *(setup.dynamic or ())]
        of = [(setup.groups or {}).get(row[0], 0) for row in rows]
        self._of_group = None if len(self._parts) == 1 else np.array(of)
        coordinates = [(setup.agent, str(row[0]), int(row[1])) for row in setup.bodies]
        return tuple(
            Group(
                part.sensors,
                part.actuators,
                [at for at, group in zip(coordinates, of, strict=False) if group == number],
            )
            for number, part in enumerate(self._parts)
        )

    def _check_groups(self, takes: bool) -> None:
        """Raise DocumentError if a class that takes one group of bodies receives several."""
        groups = self._setup.groups
        if groups and not takes:
            each = [[uid for uid in groups if groups[uid] == n] for n in range(len(self._parts))]
            raise DocumentError(blind(self._setup.agent, each, f"{self.kind} {self._setup.plugin['name']}"))

    def _hooks_of(self, kind: str, plugin: Mapping[str, Any], where: str) -> Hooks:
        return Hooks.of(self._loader, kind, plugin, where, self._tolerated_errors, f"{kind}:{self._setup.agent}")

    def _make_filters(self, cls: type[_Filters], plugins: Sequence[Mapping[str, Any]], **numbers: int) -> _Filters:
        return cls(self._loader, plugins, f"agent {self._where}", self._given, self._tolerated_errors, **numbers)

    def _declare_rewards(self, declarations: list[dict[str, Any]]) -> None:
        self._reward_ids = declarations
        parts = range(len(self._parts))
        self._reward_layouts = [Layout.of(of_group(declarations, number), missing=True) for number in parts]
        self._rewards = self._reward_layouts[0]
        self._memory.declare(rewards=[RewardInformation(None, space, uid) for uid, space in self._rewards.pairs()])

    # -- the journal --------------------------------------------------------------------------------------------------
    def _restore_or_compact(self) -> None:
        """Restore a predecessor's snapshot, or compact the journal, if due."""
        if self._compaction is None:
            filters = () if self._filters is None else self._filters.filters
            self._snapshot = self._snapshot_of(
                {tag_of(number): (one, ("given", "shown")) for number, one in enumerate(filters)}
            )
            self._compaction = Compaction(self.participant, self._hooks.where, self._snapshot.check)
        self._compaction.restore_or_compact(self._take_state, self._go_on)

    def _snapshot_of(self, filters: dict[str, Any]) -> Snapshot:
        """Return the snapshot of the author's objects, these filters included."""
        raise NotImplementedError

    def _books(self) -> dict[str, Any]:
        """Return the state of the host besides the author's objects."""
        raise NotImplementedError

    def _read_books(self, books: Mapping[str, Any]) -> None:
        """Restore the state of a predecessor's host."""
        raise NotImplementedError

    def _take_state(self) -> State:
        return self._snapshot.take(self._books(), self.participant.takes_attributes)

    def _go_on(self, state: State) -> None:
        """Restore the state of a predecessor."""
        read = self._snapshot.read(state)
        books = read["books"]
        if books["rewards"] is not None and self._rewards is None:
            self._declare_rewards(books["rewards"])
        self._snapshot.put(read)
        self._read_books(books)
