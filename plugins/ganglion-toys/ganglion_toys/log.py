"""Log brain: a witness of what a brain is given, and in which order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ganglion.sdk import Brain, LateCredit, MemoryShard, Transitions

__all__ = ["LogBrain"]


class LogBrain(Brain):
    """Write down each transition that it is given; it learns nothing.

    With `path` each call appends one line of JSON for each worker, flushed at once: `agent`, `phase`, `worker`, and
    lists with one entry per transition: `environment`, `body`, `episode`, `step`, `tick`, `rewards` (their sum),
    `terminated`, `truncated`. `tick` is null without bodies, `phase` where the brain is not told. What fell due
    after the ends of bodies is a line with `late` in their place: lists [environment, body, episode, step, reward,
    credit, objective].

    Params:
        path: The file; None, the default, writes none.
        update_every: Every so many calls the update is a map with the array `version`: 1, 2, 3, ...; 0, the default,
            never.
    """

    takes_groups = True

    def __init__(self, path: str | None = None, update_every: int = 0) -> None:
        super().__init__()
        if update_every < 0:
            raise ValueError(f"update_every is at least 0, found {update_every}")
        self.path = None if path is None else Path(path)
        self.update_every = update_every
        self.calls = 0

    def initial_update(self, muscle_id: str) -> None:
        """Return None: a muscle that joins brings no transition."""

    @property
    def batched(self) -> bool:  # type: ignore[override]
        """Whether whole rounds are written down: where there are bodies."""
        return bool(self.bodies)

    def learn(self, batch: Transitions) -> dict[str, np.ndarray[Any, Any]] | None:
        """Write the transitions of a round, a line for each worker; return an update where one is due."""
        muscles = np.array(batch.muscle)
        for muscle in dict.fromkeys(batch.muscle):
            self._write(self._lists(muscle, batch, np.flatnonzero(muscles == muscle)))
        return self._counted()

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> dict[str, np.ndarray[Any, Any]] | None:
        """Write the newest transition of a muscle; return an update where one is due."""
        if self.path is not None:
            self._write(self._line(muscle_id, self.memory.tail(1, include_only=muscle_id)))
        return self._counted()

    def late(self, credits: Sequence[LateCredit]) -> None:  # noqa: A002
        """Write what fell due after the ends of bodies, a line for each worker."""
        for muscle in dict.fromkeys(one.muscle for one in credits):
            agent, _, worker = muscle.rpartition("/")
            told = [
                [*one.body[1:], one.episode, one.step, one.reward, one.credit, one.objective]
                for one in credits
                if one.muscle == muscle
            ]
            place = {"agent": agent, "phase": getattr(self, "phase", None), "worker": int(worker)}
            self._write({**place, "late": told})

    def _write(self, line: dict[str, Any]) -> None:
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(line)}\n")

    def _counted(self) -> dict[str, np.ndarray[Any, Any]] | None:
        self.calls += 1
        if self.update_every and self.calls % self.update_every == 0:
            return {"version": np.array(self.calls // self.update_every, dtype=np.int64)}
        return None

    def _lists(self, muscle_id: str, batch: Transitions, rows: np.ndarray[Any, Any]) -> dict[str, Any]:
        agent, _, worker = muscle_id.rpartition("/")
        places = rows.tolist()
        return {
            "agent": agent,
            "phase": getattr(self, "phase", None),
            "worker": int(worker),
            "environment": [batch.body[row][1] for row in places],
            "body": [batch.body[row][2] for row in places],
            "episode": batch.episode[rows].tolist(),
            "step": batch.step[rows].tolist(),
            "tick": [None] * len(places) if batch.tick is None else batch.tick[rows].tolist(),
            "rewards": np.nansum(batch.rewards[rows], axis=1).tolist(),
            "terminated": batch.terminated[rows].tolist(),
            "truncated": batch.truncated[rows].tolist(),
        }

    def _line(self, muscle_id: str, row: MemoryShard) -> dict[str, Any]:
        agent, _, worker = muscle_id.rpartition("/")
        return {
            "agent": agent,
            "phase": getattr(self, "phase", None),
            "worker": int(worker),
            "environment": [self.sensors[0].uid.rpartition(".")[0]] if self.sensors else [None],
            "body": [0],
            "episode": row.episode.tolist(),
            "step": row.decision_index.tolist(),
            "tick": [None],
            "rewards": [float(np.nansum(row.rewards.flat))],
            "terminated": [bool(row.terminated[0])],
            "truncated": [bool(row.truncated[0])],
        }
