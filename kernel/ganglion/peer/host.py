"""Hosts: what those of environments, muscles and brains share, from the set-up to the snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ganglion.peer.author import Hooks, Loader, ToleratedErrors, identity, seed_process
from ganglion.peer.conversation import Request
from ganglion.peer.filters import FilterStack, tag_of
from ganglion.peer.participant import Handler, Participant
from ganglion.peer.renewal import Renewal
from ganglion.peer.snapshot import Snapshot, State
from ganglion.peer.step.layout import Layout
from ganglion.peer.values import deserialize
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import ActuatorInformation, RewardInformation, SensorInformation
from ganglion.sdk.memory import Memory
from ganglion.sdk.seed import derive, generator_from_words

_Filters = TypeVar("_Filters", bound=FilterStack)


class Host:
    """Answer the `calls` of a `kind` with the methods of these names."""

    kind = ""
    calls: tuple[str, ...] = ()

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._renewal: Renewal | None = None  # of the journal

    def handlers(self) -> dict[str, Handler]:
        """Return what this host answers."""
        return {f"{self.kind}.{call}": getattr(self, call) for call in self.calls}


class AgentHost(Host):
    """Keep what an agent's part was set up with: declarations, memory, filters, snapshot."""

    participant: Participant  # set before anything is served
    _setup: Any
    _memory: Memory
    _snapshot: Snapshot
    _filters: Any

    def _begin(
        self, request: Request, setup: Any, where: str, given: Mapping[str, Any]
    ) -> tuple[list[SensorInformation], list[ActuatorInformation], dict[str, Any]]:
        """Begin a phase; return sensors, actuators and the attributes that muscles and brains have in common.

        `given` is what the agent's filters and its objective are given, too.
        """
        self.participant.begin_journal([(request, None)])  # what comes before is not needed
        self._setup, self._renewal = setup, None
        self._where, self._given = where, {**given, "name": setup.agent, "mode": Mode(setup.mode)}
        self._tolerated_errors = ToleratedErrors(lambda: self.participant, setup.run)
        self._hooks = self._hooks_of(self.kind, setup.plugin, f"{self.kind} {where}")
        seed_process(setup.stream)
        self._sensor_layout, self._actuator_layout = Layout.of(setup.sensors), Layout.of(setup.actuators)
        sensors = self._sensor_layout.sensors(setup.sensors)
        actuators = self._actuator_layout.noops(setup.actuators)
        for it in (*sensors, *actuators):
            it.space.seed(generator_from_words(derive(setup.stream, "space", it.uid)))
        self._rewards: Layout | None = None
        self._reward_ids: list[dict[str, Any]] | None = None
        attributes = {
            **self._given,
            "sensors": () if setup.filters else sensors,
            "actuators": () if setup.filters else actuators,
            "static_world_models": deserialize(setup.static_models or {}, (), "setup.static_models"),
            **identity(setup.stream),
        }
        return sensors, actuators, attributes

    def _hooks_of(self, kind: str, plugin: Mapping[str, Any], where: str) -> Hooks:
        return Hooks.of(self._loader, kind, plugin, where, self._tolerated_errors, f"{kind}:{self._setup.agent}")

    def _make_filters(self, cls: type[_Filters], plugins: Sequence[Mapping[str, Any]]) -> _Filters:
        return cls(self._loader, plugins, f"agent {self._where}", self._given, self._tolerated_errors)

    def _declare_rewards(self, declarations: list[dict[str, Any]]) -> None:
        self._reward_ids = declarations
        self._rewards = Layout.of(declarations, missing=True)
        self._memory.declare(rewards=[RewardInformation(None, space, uid) for uid, space in self._rewards.pairs()])

    # -- the journal --------------------------------------------------------------------------------------------------
    def _stand(self) -> None:
        """Begin the journal anew with a snapshot, or go on where a predecessor stood, where that is due."""
        if self._renewal is None:
            filters = () if self._filters is None else self._filters.filters
            self._snapshot = self._snapshot_of({tag_of(number): (one, ()) for number, one in enumerate(filters)})
            self._renewal = Renewal(self.participant, self._hooks.where, self._snapshot.check)
        self._renewal.stand(self._take_state, self._go_on)

    def _snapshot_of(self, filters: dict[str, Any]) -> Snapshot:
        """Return what takes the author's objects, these filters among them."""
        raise NotImplementedError

    def _books(self) -> dict[str, Any]:
        """Return what the host knows beside the author's objects."""
        raise NotImplementedError

    def _read_books(self, books: Mapping[str, Any]) -> None:
        """Know what a predecessor knew beside them."""
        raise NotImplementedError

    def _take_state(self) -> State:
        return self._snapshot.take(self._books(), self.participant.takes_attributes)

    def _go_on(self, state: State) -> None:
        """Go on where a predecessor stood."""
        read = self._snapshot.read(state)
        books = read["books"]
        if books["rewards"] is not None and self._rewards is None:
            self._declare_rewards(books["rewards"])
        self._snapshot.put(read)
        self._read_books(books)
