"""Off-policy: the base of the learners that learn from decisions drawn from a replay."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import Session, Transitions
from ganglion_learners.learner import Learner
from ganglion_learners.replay import Replay

__all__ = ["OffPolicy"]

Array = NDArray[Any]


class OffPolicy(Learner):
    """Keep every decision, train by drawn ones every `train_every` decisions, send the policy every `update_every`.

    `config` has `warm_up`, `train_every` and `update_every`; `_build` makes `_replay`, whose rows are observation, next
    observation, action, objective and bootstrap.
    """

    _replay: Replay
    _changed = False  # whether the policy changed since it was sent
    _filled = False  # whether the table has had `warm_up` decisions
    _draws = False  # whether to draw from the table, not from the own replay

    @abstractmethod
    def _known(self, setpoints: Array) -> Array:
        """Return actions in the form of the networks, (rows,) or (rows, columns)."""

    def _rows(self, batch: Transitions) -> Array:
        known = self._known(batch.actions)
        columns = [batch.observations, batch.next_observations, known, batch.objectives, batch.bootstrap]
        return np.column_stack(columns)

    @classmethod
    def asks(cls, table: str | None = None, **params: Any) -> Sequence[str]:
        """Return the table from which minibatches are drawn, if there is one."""
        return () if table is None else (table,)

    def _minibatch(self) -> Array:
        """Return drawn rows, float32."""
        config: Any = self.config
        if not self._draws:
            return self._replay.sample(config.minibatch, self.rng)
        drawn = self.tables[config.table].sample_steps(config.minibatch)
        if not math.isfinite(drawn.objectives.sum()):
            at = int(np.flatnonzero(~np.isfinite(drawn.objectives))[0])
            text = f"{self.algorithm} needs a finite objective for each decision of table {config.table!r}"
            raise ValueError(f"{text}, and its decision {drawn.ids[at]} has {drawn.objectives[at]}")
        known = self._known(drawn.actions)
        columns = [drawn.observations, drawn.next_observations, known, drawn.objectives, 1.0 - drawn.terminated]
        return np.column_stack(columns).astype(np.float32)

    def _is_due(self) -> bool:
        """Return whether there are enough decisions, and a step of the optimiser is due."""
        config: Any = self.config
        if self.decisions % config.train_every:
            return False
        if config.table is None:  # not by `decisions`: a loaded model continues to count, with an empty replay
            return bool(len(self._replay) >= config.warm_up)
        table = self.tables[config.table]
        self._filled = self._filled or len(table) >= config.warm_up
        return self._filled and bool(table.can_sample(config.minibatch * config.gradient_steps))

    @abstractmethod
    def _step(self, rate: float, caution: float = 0.0) -> dict[str, float]:
        """Step once by a drawn minibatch; return statistics.

        With `caution` learned actions are kept near those of the replay, since the outcome of others is unknown.
        """

    @property
    def learn_every(self) -> int:  # type: ignore[override]
        """Decisions between two statistics or updates; 1 after the load of a model whose count is between two times."""
        config: Any = self.config
        every = math.gcd(config.train_every, config.update_every)
        return every if self.decisions % every == 0 else 1

    def _rate(self) -> float:
        """Return the current learning rate."""
        rate: float = self.config.learning_rate
        return rate

    def _train(self, steps: int, rate: float, caution: float = 0.0) -> None:
        """Step so many times, and record that the policy changed."""
        for _ in range(steps):
            noted = self._step(rate, caution)
        for name, value in noted.items():
            self.add_statistics(name, value, allow_overwrite=True)
        self._changed = True

    def pretrain(self, sessions: Iterable[Session]) -> None:
        """Keep the recorded decisions like own ones, the oldest first, and train by drawn ones.

        There are `pretrain_steps` steps of the optimiser, with `pretrain_caution`. The recorded decisions count for
        schedules.

        Raises:
            ValueError: A session does not fit sensors or actuators, or no decision can be learned from.
            FloatingPointError: A loss is no finite number; learning cannot go on.
        """
        config: Any = self.config
        count = 0
        for batch in self._recorded(sessions):
            self._replay.extend(self._rows(batch))
            count += len(batch)
        steps = count if config.pretrain_steps is None else config.pretrain_steps
        if steps:
            self._train(steps, config.learning_rate, config.pretrain_caution)
        self.decisions += count

    def _learn(self, batch: Transitions) -> dict[str, Any] | None:
        config: Any = self.config
        update: dict[str, Any] | None = None
        self._draws = config.table is not None
        for row in self._rows(batch):
            if not self._draws:
                self._replay.append(row)
            self.decisions += 1
            if self._is_due():
                self._train(config.gradient_steps, self._rate())
            if self._changed and self.decisions % config.update_every == 0:
                self._changed = False
                update = self.policy()
        return update

    def _buffers(self) -> dict[str, Array]:
        return {**self._replay.arrays(), "changed": np.array(self._changed), "filled": np.array(self._filled)}

    def _restore(self, arrays: Mapping[str, Array]) -> None:
        self._replay.load(arrays)
        self._changed, self._filled = bool(arrays["changed"]), bool(arrays["filled"])
