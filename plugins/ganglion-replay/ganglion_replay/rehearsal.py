"""Rehearsal: recorded episodes played through both halves of an agent's filters, once, kept as a brain sees them."""

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
from ganglion.peer.step.layout import Layout
from ganglion.peer.values import deserialize, serialize
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import Information, SensorInformation
from ganglion.sdk.memory import Memory
from ganglion.sdk.muscle import Muscle
from ganglion.sdk.seed import derive
from ganglion.sdk.session import Session
from ganglion.wire.messages import BrainPretrain
from ganglion_replay.spool import Episode, Source, Spool
from ganglion_replay.spooled import Sessions

__all__ = ["Rehearsal"]

_SEEN = "seen"


class Rehearsal:
    """Play episodes row by row, as if the muscles of the brain had acted so.

    What the brain's halves learn of that they keep, as after any rows; what they publish reaches the muscles' halves
    before the next decision.

    Args:
        learner: The brain, whose declarations are those behind its filters; tolerated errors of the muscles' halves
            are kept with its own.
    """

    def __init__(self, learner: Learner) -> None:
        assert learner.filters is not None
        self._setup, self._brain, self._loader = learner.setup, learner.brain, learner.loader
        self._filters, self._tolerated_errors = learner.filters, learner.tolerated_errors
        brain = learner.brain
        self._acting: dict[str, ActingFilters] = {}  # muscle -> its halves
        self._seen_by: dict[str, int] = {}  # muscle -> version of the arrays that they have
        self._columns = Layout([s.uid for s in brain.sensors], [s.space for s in brain.sensors])

    def play(self, asked: BrainPretrain) -> BrainPretrain:
        """Play all episodes; return where they are as the brain sees them.

        Raises:
            DocumentError: Something was not recorded, or the filters change what an agent sets: then nobody knows what
                it would have proposed.
        """
        sensors, actuators = self._outer()
        raw = Sessions(Path(asked.folder), asked.sha256, sensors, actuators)
        if raw.missing:
            raise DocumentError(f"{raw.missing[0]} was not recorded, or otherwise: filters need whole rows")
        spool = Spool(Path(asked.folder) / _SEEN, asked.sha256)
        try:
            for source, sessions in raw.by_source():
                spool.begin(self._behind(source))
                for session in sessions:
                    spool.add(self._episode(session, source))
        except Tolerated as tolerated:  # an episode of which readings are missing is no episode
            raise tolerated.__cause__ or tolerated from None
        finally:
            for acting in self._acting.values():
                acting.close()
        return BrainPretrain(str(spool.folder), spool.close())

    def _outer(self) -> tuple[list[SensorInformation], list[Any]]:
        """Return the declarations before filters, with spaces of their own."""
        seen, moved = Layout.of(self._setup.sensors), Layout.of(self._setup.actuators)
        return seen.sensors(self._setup.sensors), moved.noops(self._setup.actuators)

    def _behind(self, source: Source) -> Source:
        """Return an entry with the columns that the brain sees."""
        sensors, actuators = (
            [[it.uid, it.space.to_string()] for it in informations]
            for informations in (self._brain.sensors, self._brain.actuators)
        )
        return replace(source, sensors=sensors, actuators=actuators, strict=True, chunks=[])

    # -- one episode --------------------------------------------------------------------------------------------------
    def _episode(self, session: Session, source: Source) -> Episode:
        muscles, environments = self._setup.muscles, source.environment.split(",")
        muscle = muscles[session.worker % len(muscles)]
        acting = self._halves(muscle)
        acting.reset()
        readings, setpoints = (_rows(session.sensors, session.observations), _rows(session.actuators, session.actions))
        rows, objectives = [self._view(acting, readings[0])], []
        for t, values in enumerate(setpoints):
            data = self._data(acting, values, source)
            kept = acting.keep()
            following = self._view(acting, readings[t + 1]) if t + 1 < len(readings) else None
            objectives.append(self._learn(muscle, t, data, float(session.objectives[t])))
            if self._filters.version > self._seen_by[muscle]:
                acting.go_back(kept)
                self._receive(acting, muscle)
                following = self._view(acting, readings[t + 1]) if t + 1 < len(readings) else None
            rows += [] if following is None else [following]
        return Episode(
            mode=session.mode,
            worker=session.worker,
            body=session.body,
            episode=session.episode,
            seed=-1 if session.seed is None else session.seed,
            place=-1 if session.environment == source.environment else environments.index(session.environment),
            observations=self._columns.vectors(rows),
            steps={
                "actions": session.actions,
                "rewards": session.rewards,
                "objectives": np.array(objectives, np.float64),
                "terminated": session.terminated,
                "truncated": session.truncated,
                "ticks": session.ticks,
            },
        )

    def _halves(self, muscle: str) -> ActingFilters:
        """Return a muscle's halves, which begin anew in each episode."""
        if muscle not in self._acting:
            worker = int(muscle.rpartition("/")[2])
            attributes = {"uid": muscle, "name": self._setup.agent, "worker": worker}
            attributes["mode"] = Mode(self._setup.mode)
            plugins = [
                {**plugin, "stream": derive(plugin["stream"], "rehearsal", worker)}
                for plugin in self._setup.filters or ()
            ]
            where = f"agent {self._setup.agent}"
            acting = ActingFilters(self._loader, plugins, where, attributes, self._tolerated_errors)
            sensors, actuators = self._outer()
            stand_in = _StandIn()
            vars(stand_in).update({**attributes, "memory": Memory(0), "sensors": sensors, "actuators": actuators})
            acting.declare(stand_in, sensors, actuators, derive(self._setup.stream, "rehearsal", worker))
            if acting.moved.pairs() != Layout.of(self._setup.actuators).pairs():
                raise DocumentError(f"filters of agent `{self._setup.agent}` {_UNKNOWN}")
            self._acting[muscle], self._seen_by[muscle] = acting, 0
        if self._filters.version > self._seen_by[muscle]:
            self._receive(self._acting[muscle], muscle)
        return self._acting[muscle]

    def _receive(self, acting: ActingFilters, muscle: str) -> None:
        """Give a muscle's halves what the brain's have published."""
        self._seen_by[muscle] = self._filters.version
        for number, arrays in self._filters.published.items():
            acting.receive(number, arrays)

    def _view(self, acting: ActingFilters, readings: Sequence[Any]) -> list[Any]:
        return acting.view(readings)[0]

    def _data(self, acting: ActingFilters, values: Sequence[Any], source: Source) -> Any:
        """Return what the muscle's halves send to the brain's beside a decision, which has to stay as it was."""
        applied, data = acting.apply(acting.informed(values), None)
        if not all(np.array_equal(one, other) for one, other in zip(applied, values, strict=True)):
            raise DocumentError(f"{source.at}: filters of agent `{self._setup.agent}` {_UNKNOWN}")
        blobs: list[bytes] = []
        return deserialize(serialize(data, blobs, "data"), blobs, "data")  # what travels is nobody's own any more

    def _learn(self, muscle: str, step: int, data: Any, objective: float) -> float:
        """Let the brain's halves hear of a row; return its objective as the brain sees it, NaN if it has none."""
        filters = self._filters
        filters.show_step(step)
        try:
            filters.data(muscle, data)
            found = filters.objective(muscle, None if np.isnan(objective) else objective)
        except Tolerated:
            found = None
        filters.publish()
        return np.nan if found is None else found


_UNKNOWN = "change what it sets: what it would have proposed itself is not known of recorded decisions"


class _StandIn(Muscle):
    """Stand where filters look for their muscle; nobody acts."""

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
