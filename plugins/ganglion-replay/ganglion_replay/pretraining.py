"""Pretraining: a brain learns from recorded episodes before it receives any decision of its muscles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import AuthorError, DocumentError
from ganglion.limits import REPLAY_TOLERATED_ERRORS
from ganglion.peer.agent.replay import Learner
from ganglion.sdk.brain import Brain, Transitions, carries_update
from ganglion.sdk.information import Information
from ganglion.sdk.session import Session
from ganglion.wire.messages import BrainPretrain, BrainPretrained, Think
from ganglion_replay.spooled import Kin, Sessions

__all__ = ["Pretraining", "kin_of_brain"]


def kin_of_brain(learner: Learner) -> list[Kin]:
    """Return the sensors of a brain and the actuators of its muscles, group by group."""
    brain, groups = learner.brain, learner.setup.groups
    if not groups:
        return [Kin((), brain.sensors, brain.actuators)]
    return [
        Kin([uid for uid, number in groups.items() if number == i], one.sensors, one.actuators)
        for i, one in enumerate(brain.groups)
    ]


class Pretraining:
    """Give recorded episodes to one brain: by its own `pretrain`, or as rows for `thinking`.

    Rows of a recorded worker count as those of the muscle of that number, modulo the number of muscles.
    """

    def __init__(self, asked: BrainPretrain, learner: Learner) -> None:
        self._brain, self._hooks, self._muscles = learner.brain, learner.hooks, learner.setup.muscles
        self._kin = kin_of_brain(learner)
        self._sessions = Sessions(Path(asked.folder), asked.sha256, self._kin)
        setup = learner.setup
        self._rows = [(str(row[0]), int(row[1])) for row in setup.bodies or ()]
        self._rows += [(str(row[0]), -1) for row in setup.dynamic or ()]
        self._excused: list[dict[str, Any]] = []
        self._more = 0  # tolerated_errors that are not told one by one

    @property
    def is_own(self) -> bool:
        """Return whether the brain has a `pretrain` of its own."""
        return type(self._brain).pretrain is not Brain.pretrain

    def teach(self, loaded: bool) -> Any:
        """Call the brain's own `pretrain`; return its update.

        With a `loaded` model there is an earlier update: if `pretrain` returns none, the brain's initial update counts.
        """
        brain, hooks = self._brain, self._hooks
        try:
            given = hooks("pretrain", brain.pretrain, self._sessions)
        except AuthorError:
            if self._sessions.failure is None:
                raise
        if self._sessions.failure is not None:  # a damaged file is no tolerated error
            raise self._sessions.failure
        if carries_update(given) or not loaded:
            return given
        last, brain.last_update = brain.last_update, None
        given = hooks.excused(None, "initial_update", brain.initial_update, self._muscles[0])
        brain.last_update = last
        return given

    def rows(self) -> Iterator[Think]:
        """Yield all decisions, episode by episode, as messages of muscles; the first of each episode declares rewards.

        Raises:
            DocumentError: A sensor of the brain or an actuator of its muscles was not recorded.
        """
        sessions = self._sessions
        if sessions.missing:
            name = type(self._brain).__qualname__
            text = f"{name} has no `pretrain`, and its `thinking` needs whole rows"
            raise DocumentError(f"{sessions.missing[0]} was not recorded, or otherwise: {text}")
        told = sessions.rewards  # of all groups, of which each session has those of one
        for session in sessions:
            muscle = self._muscles[session.worker % len(self._muscles)]
            told[session.group] = list(zip(session.reward_ids, session.reward_spaces, strict=True))
            ids = [
                {"id": uid, "space": space.to_wire(), **({"group": group} if len(self._kin) > 1 else {})}
                for group, pairs in sorted(told.items())
                for uid, space in pairs
            ]
            yield from _thinks(session, session.transitions(muscle=muscle), ids, self._row_of(session))

    def _row_of(self, session: Session) -> bytes | None:
        """Return the body that a session's decisions are given as: the recorded one, or one of its group in turn."""
        if not self._rows:
            return None
        homes = self._kin[session.group].environments
        alike = [place for place, (uid, _) in enumerate(self._rows) if not homes or uid in homes]
        alike = [place for place in alike if self._rows[place][1] >= 0] or alike  # those that come later: if need be
        own = (session.environment, session.body)
        place = self._rows.index(own) if own in self._rows else alike[session.body % len(alike)]
        return np.array([place], "<u2").tobytes()

    def note(self, excused: Sequence[dict[str, Any]]) -> None:
        """Keep tolerated errors, up to a bound."""
        room = max(0, REPLAY_TOLERATED_ERRORS - len(self._excused))
        self._excused += excused[:room]
        self._more += len(excused[room:])

    def reply(self, excused: Sequence[dict[str, Any]] | None = None) -> BrainPretrained:
        """Return the result."""
        self.note(excused or ())
        if self._more:
            last = self._excused[-1]
            self._excused.append({**last, "reason": f"and {self._more} more in pre-training"})
            self._more = 0
        return BrainPretrained(len(self._sessions), self._sessions.decisions, self._excused or None)


def _thinks(session: Session, batch: Transitions, ids: Sequence[dict[str, Any]], row: bytes | None) -> Iterator[Think]:
    """Yield the rows of an episode, which are of a body if there is a `row`; the first declares all rewards, `ids`."""
    readings, following = (
        _as_they_travel(matrix, session.sensors) for matrix in (batch.observations, batch.next_observations)
    )
    applied = _as_they_travel(batch.actions, session.actuators)
    rewards = _rewards(batch.rewards, session)
    for i in range(len(batch)):
        objective = float(batch.objectives[i])
        yield Think(
            int(batch.muscle[i].rpartition("/")[2]),
            session.episode,
            i,
            [readings[i]],
            [applied[i]],
            [rewards[i]],
            [None if np.isnan(objective) else objective],
            [following[i]],
            bool(batch.terminated[i]),
            bool(batch.truncated[i]),
            reward_ids=None if i else list(ids),
            rows=row,
        )


def _as_they_travel(matrix: NDArray[Any], declared: Sequence[Information]) -> list[list[Any]]:
    """Return rows of values: a scalar as a number, anything else as the bytes of its vector."""
    ends = np.cumsum([0, *(it.space.size for it in declared)]).tolist()
    columns: list[list[Any]] = []
    for it, (begin, end) in zip(declared, pairwise(ends), strict=True):
        values = matrix[:, begin:end].astype(it.space.dtype.newbyteorder("<"))
        columns.append(values[:, 0].tolist() if it.space.scalar else [line.tobytes() for line in values])
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in matrix]


def _rewards(matrix: NDArray[Any], session: Session) -> list[list[Any]]:
    """Return rows of rewards as they travel; None where one is missing."""
    pairs = zip(session.reward_ids, session.reward_spaces, strict=True)
    declared = [Information(None, space, uid) for uid, space in pairs]
    missing = np.isnan(matrix)
    rows = _as_they_travel(np.where(missing, 0, matrix), declared)
    begin = 0
    for number, it in enumerate(declared):
        for row, absent in zip(rows, missing[:, begin], strict=True):
            row[number] = None if absent else row[number]
        begin += it.space.size
    return rows
