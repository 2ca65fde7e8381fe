"""Rehearsal: recorded episodes passed once through both halves of an agent's filters, kept for a brain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ganglion.errors import DocumentError
from ganglion.peer.agent.filters import ActingFilters
from ganglion.peer.agent.replay import Learner
from ganglion.peer.author import Tolerated
from ganglion.peer.step.layout import Layout, of_group
from ganglion.peer.values import deserialize, serialize
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import Information, SensorInformation
from ganglion.sdk.memory import Memory
from ganglion.sdk.muscle import Muscle
from ganglion.sdk.seed import derive
from ganglion.sdk.session import Session
from ganglion.wire.messages import BrainPretrain
from ganglion_replay.pretraining import kin_of_brain
from ganglion_replay.spool import Episode, Source, Spool
from ganglion_replay.spooled import Kin, Sessions

__all__ = ["Rehearsal"]

_SEEN = "seen"


class Rehearsal:
    """Play episodes row by row, as if the muscles of the brain had acted.

    The brain's halves keep the state that results, as after any rows; their published arrays reach the muscles' halves
    before the next decision.

    Args:
        learner: The brain, whose declarations are those after its filters; tolerated errors of the muscles' halves
            are kept with its own.
    """

    def __init__(self, learner: Learner) -> None:
        assert learner.filters is not None
        self._setup, self._loader = learner.setup, learner.loader
        self._filters, self._tolerated_errors = learner.filters, learner.tolerated_errors
        self._acting: dict[tuple[str, int], ActingFilters] = {}  # muscle and group -> its halves
        self._seen_by: dict[tuple[str, int], int] = {}  # likewise -> version of their arrays
        self._behind = kin_of_brain(learner)
        self._columns = [Layout([s.uid for s in kin.sensors], [s.space for s in kin.sensors]) for kin in self._behind]

    def play(self, asked: BrainPretrain) -> BrainPretrain:
        """Play all episodes; return the place of the filtered ones.

        Raises:
            DocumentError: A column was not recorded, or the filters change an agent's setpoints: then its proposals are
                unknown.
        """
        raw = Sessions(
            Path(asked.folder),
            asked.sha256,
            [Kin(kin.environments, *self._outer(group)) for group, kin in enumerate(self._behind)],
        )
        if raw.missing:
            raise DocumentError(f"{raw.missing[0]} was not recorded, or otherwise: filters need whole rows")
        spool = Spool(Path(asked.folder) / _SEEN, asked.sha256)
        try:
            for source, sessions in raw.by_source():
                begun: dict[int, int] = {}  # group -> the number of its entry
                for session in sessions:
                    if session.group not in begun:
                        begun[session.group] = spool.begin(self._seen_of(source, session.group))
                    spool.add(self._episode(session, source), begun[session.group])
        except Tolerated as tolerated:  # an episode with missing readings is left out
            raise tolerated.__cause__ or tolerated from None
        finally:
            for acting in self._acting.values():
                acting.close()
        return BrainPretrain(str(spool.folder), spool.close())

    def _outer(self, group: int) -> tuple[list[SensorInformation], list[Any]]:
        """Return the declarations of a group before filters, with spaces of their own."""
        seen, moved = of_group(self._setup.sensors, group), of_group(self._setup.actuators, group)
        return Layout.of(seen).sensors(seen), Layout.of(moved).noops(moved)

    def _seen_of(self, source: Source, group: int) -> Source:
        """Return an entry with the columns of a group after filters."""
        kin = self._behind[group]
        sensors, actuators = (
            [[it.uid, it.space.to_string()] for it in informations] for informations in (kin.sensors, kin.actuators)
        )
        named = kin.named(source)
        return replace(named, sensors=sensors, actuators=actuators, strict=True, chunks=[])

    # -- one episode -------------------------------------------------------------------------------------------------
    def _episode(self, session: Session, source: Source) -> Episode:
        muscles, environments = self._setup.muscles, source.environment.split(",")
        muscle = muscles[session.worker % len(muscles)]
        group, key = session.group, (muscle, session.group)
        acting = self._halves(key)
        acting.reset()
        readings, setpoints = (_rows(session.sensors, session.observations), _rows(session.actuators, session.actions))
        rows, objectives = [self._view(acting, readings[0])], []
        for t, values in enumerate(setpoints):
            data = self._data(acting, values, source)
            kept = acting.keep()
            following = self._view(acting, readings[t + 1]) if t + 1 < len(readings) else None
            objectives.append(self._learn(key, t, data, float(session.objectives[t])))
            if self._filters.version > self._seen_by[key]:
                acting.go_back(kept)
                self._receive(acting, key)
                following = self._view(acting, readings[t + 1]) if t + 1 < len(readings) else None
            rows += [] if following is None else [following]
        return Episode(
            mode=session.mode,
            worker=session.worker,
            body=session.body,
            episode=session.episode,
            seed=-1 if session.seed is None else session.seed,
            place=-1 if session.environment == source.environment else environments.index(session.environment),
            observations=self._columns[group].vectors(rows),
            steps={
                "actions": session.actions,
                "rewards": session.rewards,
                "objectives": np.array(objectives, np.float64),
                "terminated": session.terminated,
                "truncated": session.truncated,
                "ticks": session.ticks,
            },
        )

    def _halves(self, key: tuple[str, int]) -> ActingFilters:
        """Return a muscle's halves for a group, reset in each episode."""
        if key not in self._acting:
            (muscle, group), setup = key, self._setup
            worker = int(muscle.rpartition("/")[2])
            attributes = {"uid": muscle, "name": setup.agent, "worker": worker}
            attributes["mode"] = Mode(setup.mode)
            of = ("rehearsal", worker, "group", group) if group else ("rehearsal", worker)
            plugins = [{**plugin, "stream": derive(plugin["stream"], *of)} for plugin in setup.filters or ()]
            where = f"agent {setup.agent}"
            acting = ActingFilters(self._loader, plugins, where, attributes, self._tolerated_errors)
            sensors, actuators = self._outer(group)
            stand_in = _StandIn()
            vars(stand_in).update({**attributes, "memory": Memory(0), "sensors": sensors, "actuators": actuators})
            acting.declare(stand_in, sensors, actuators, derive(setup.stream, *of))
            if acting.moved.pairs() != Layout.of(of_group(setup.actuators, group)).pairs():
                raise DocumentError(f"filters of agent `{setup.agent}` {_UNKNOWN}")
            self._acting[key], self._seen_by[key] = acting, 0
        if self._filters.version > self._seen_by[key]:
            self._receive(self._acting[key], key)
        return self._acting[key]

    def _receive(self, acting: ActingFilters, key: tuple[str, int]) -> None:
        """Give a muscle's halves the arrays that the brain's halves published for their group."""
        self._seen_by[key], first = self._filters.version, key[1] * len(acting)
        for number, arrays in self._filters.published.items():
            if first <= number < first + len(acting):
                acting.receive(number - first, arrays)

    def _view(self, acting: ActingFilters, readings: Sequence[Any]) -> list[Any]:
        return acting.view(readings)[0]

    def _data(self, acting: ActingFilters, values: Sequence[Any], source: Source) -> Any:
        """Return the data of the muscle's halves for the brain's; the decision must not change."""
        applied, data = acting.apply(acting.informed(values), None)
        if not all(np.array_equal(one, other) for one, other in zip(applied, values, strict=True)):
            raise DocumentError(f"{source.at}: filters of agent `{self._setup.agent}` {_UNKNOWN}")
        blobs: list[bytes] = []
        return deserialize(serialize(data, blobs, "data"), blobs, "data")  # sent data are copies

    def _learn(self, key: tuple[str, int], step: int, data: Any, objective: float) -> float:
        """Pass a row to the brain's halves; return its filtered objective, NaN without one."""
        filters = self._filters
        filters.show_step(step)
        try:
            filters.data(key[0], data, key[1])
            found = filters.objective(key[0], None if np.isnan(objective) else objective, key[1])
        except Tolerated:
            found = None
        filters.publish()
        return np.nan if found is None else found


_UNKNOWN = "change what it sets: what it would have proposed itself is not known of recorded decisions"


class _StandIn(Muscle):
    """Replace the muscle for filters; it does not act."""

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        raise NotImplementedError


def _rows(declared: Sequence[Information], matrix: Any) -> list[list[Any]]:
    """Return the rows of a matrix as values in declared order."""
    columns, begin = [], 0
    for it in declared:
        part = matrix[:, begin : begin + it.space.size].astype(it.space.dtype)
        columns.append([it.space.from_vector(line) for line in part])
        begin += it.space.size
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in matrix]
