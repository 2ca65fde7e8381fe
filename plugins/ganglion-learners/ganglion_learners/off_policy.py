"""Off-policy: what the learners share that learn from decisions drawn out of a replay."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import Transitions
from ganglion_learners.learner import Learner
from ganglion_learners.replay import Replay

__all__ = ["OffPolicy"]

Array = NDArray[Any]


class OffPolicy(Learner):
    """Keep every decision, train by drawn ones every `train_every` decisions, and send the policy now and then.

    `config` has `warm_up`, `train_every` and `update_every`; `_build` makes `_replay`, whose rows are observation, next
    observation and what `_rest` returns.
    """

    _replay: Replay
    _changed = False  # the policy, since it was sent

    @abstractmethod
    def _rest(self, batch: Transitions) -> Array:
        """Return the columns of a row behind both observations, (rows, columns)."""

    @abstractmethod
    def _train(self) -> None:
        """Step `gradient_steps` times, and note that the policy has changed."""

    def _learn(self, batch: Transitions) -> dict[str, Any] | None:
        config: Any = self.config  # type: ignore[attr-defined]
        update: dict[str, Any] | None = None
        columns = [batch.observations, batch.next_observations, self._rest(batch)]
        for row in np.concatenate(columns, axis=1):
            self._replay.append(row)
            self.decisions += 1
            # Not by `decisions`: a loaded model counts on, with a replay that is empty.
            if len(self._replay) >= config.warm_up and self.decisions % config.train_every == 0:
                self._train()
            if self._changed and self.decisions % config.update_every == 0:
                self._changed = False
                update = self.policy()
        return update

    def _buffers(self) -> dict[str, Array]:
        return {**self._replay.arrays(), "changed": np.array(self._changed)}

    def _restore(self, arrays: Mapping[str, Array]) -> None:
        self._replay.load(arrays)
        self._changed = bool(arrays["changed"])
