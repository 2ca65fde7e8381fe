"""Rollout: collects decisions of the policy in force until there are enough to train, for PPO and A2C."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.utils import obs_as_tensor

from ganglion_sb3.codec import Actions
from ganglion_sb3.collector import Collector, Decision
from ganglion_sb3.stream import Stream
from ganglion_sb3.weights import named

__all__ = ["Rollout"]

Array = NDArray[Any]
# One row: observation, flat action, reward with what was cut off, whether an episode began, value, log-probability.
Row = tuple[Any, Array, Array, bool, float, float]


class Rollout(Collector):
    """Fill the rollout buffer, n_steps rows for each muscle, and train when it is full.

    The buffer has one column, in which the rows of one muscle follow those of another: in the order in which
    Stable-Baselines3 looks at those of several environments. Where a muscle's rows end in the middle of an episode
    the value of what follows is added to the last reward, as it is where an episode is truncated; so no advantage
    reaches from one muscle's rows into another's. Rows need not be equally many: a muscle that has finished its
    episodes leaves its place to the others.
    """

    def __init__(self, model: Any, actions: Actions, muscles: list[str], stream: Stream) -> None:
        super().__init__(model, actions, muscles, stream)
        self._rows: dict[str, list[Row]] = {muscle: [] for muscle in muscles}
        self._last: dict[str, tuple[Any, bool]] = {}  # what followed a muscle's newest row, and whether it was the end
        self._count_rows = 0

    @property
    def exploration(self) -> dict[str, Any]:
        """A policy explores by itself."""
        return {"random": False, "rate": 0.0}

    def add(self, decision: Decision) -> bool:
        """Keep a decision; train when the buffer is full."""
        action, value, log_prob = self._told(decision)
        reward = np.array([decision.objective], dtype=np.float32)
        if decision.truncated:
            reward[0] += self.model.gamma * self._value(decision.following).numpy().reshape(-1)[0]
        row = (decision.observation, action, reward, decision.first, value, log_prob)
        self._rows[decision.muscle].append(row)
        self._last[decision.muscle] = (decision.following, decision.done)
        self._count_rows += 1
        self._count()
        if self._count_rows < self.model.rollout_buffer.buffer_size:
            return False
        self._fill()
        with self.stream.running():
            self.model.train()
        self._rows = {muscle: [] for muscle in self.muscles}
        self._count_rows = 0
        return True

    def pretrain(self, recorded: Iterable[list[Decision]], steps: int | None, epochs: int) -> None:
        """Clone recorded decisions, see `Cloning`."""
        from ganglion_sb3.cloning import Cloning

        Cloning(self.model, self.actions, self.stream, self._value).run(recorded, epochs)

    def _told(self, decision: Decision) -> tuple[Array, float, float]:
        """Return flat action, value and log-probability: the muscle's own, else what the policy says of the action."""
        if decision.data is not None:
            return decision.data[:-2], float(decision.data[-2]), float(decision.data[-1])
        action = self.actions.actions(decision.setpoint)
        policy = self.model.policy
        policy.set_training_mode(False)
        with torch.no_grad():
            seen = obs_as_tensor(decision.observation, self.model.device)
            values, log_probs, _ = policy.evaluate_actions(seen, torch.as_tensor(action))
        return action.reshape(-1), float(values), float(log_probs)

    def _value(self, observation: Any) -> torch.Tensor:
        self.model.policy.set_training_mode(False)
        with torch.no_grad():
            found: torch.Tensor = self.model.policy.predict_values(obs_as_tensor(observation, self.model.device))
        return found

    def _fill(self) -> None:
        buffer = self.model.rollout_buffer
        buffer.reset()
        there = [muscle for muscle in self.muscles if self._rows[muscle]]
        for muscle in there:
            rows = self._rows[muscle]
            following, done = self._last[muscle]
            for place, (seen, action, reward, first, value, log_prob) in enumerate(rows):
                if place == len(rows) - 1 and muscle != there[-1] and not done:
                    reward = reward + self.model.gamma * self._value(following).numpy().reshape(-1)[0]
                told = torch.tensor([value]), torch.tensor([log_prob])
                buffer.add(seen, action, reward, np.array([first or place == 0]), *told)
        buffer.compute_returns_and_advantage(self._value(following), np.array([done]))

    def arrays(self) -> dict[str, Array]:
        """Return the rows of each muscle, stacked, and what followed its newest one."""
        found: dict[str, Array] = {}
        for muscle, rows in self._rows.items():
            if muscle in self._last:
                following, done = self._last[muscle]
                found |= {f"{muscle}:following:{part}": np.asarray(v) for part, v in _parts(following).items()}
                found[f"{muscle}:done"] = np.array(done)
            if rows:
                seen = [_parts(row[0]) for row in rows]
                found |= {f"{muscle}:seen:{part}": np.stack([it[part] for it in seen]) for part in seen[0]}
                found[f"{muscle}:action"] = np.stack([row[1] for row in rows])
                found[f"{muscle}:reward"] = np.stack([row[2] for row in rows])
                found[f"{muscle}:first"] = np.array([row[3] for row in rows])
                found[f"{muscle}:told"] = np.array([row[4:] for row in rows], dtype=np.float64)
        return found

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take over what `arrays` returned."""
        for muscle in self.muscles:
            seen = named(arrays, f"{muscle}:seen:")
            following = named(arrays, f"{muscle}:following:")
            if following:
                self._last[muscle] = (_whole(following), bool(arrays[f"{muscle}:done"]))
            self._rows[muscle] = [
                (
                    _whole({part: np.array(values[i]) for part, values in seen.items()}),
                    np.array(arrays[f"{muscle}:action"][i]),
                    np.array(arrays[f"{muscle}:reward"][i]),
                    bool(arrays[f"{muscle}:first"][i]),
                    float(arrays[f"{muscle}:told"][i][0]),
                    float(arrays[f"{muscle}:told"][i][1]),
                )
                for i in range(len(arrays[f"{muscle}:first"]) if seen else 0)
            ]
        self._count_rows = sum(map(len, self._rows.values()))


def _parts(observation: Any) -> dict[str, Array]:
    """Return an observation, one array or several by name, as several."""
    return dict(observation) if isinstance(observation, Mapping) else {"": observation}


def _whole(parts: dict[str, Array]) -> Any:
    return parts.get("", parts)
