"""Replay: keeps decisions of any policy and trains on samples of them, for DQN, SAC, TD3 and DDPG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.type_aliases import TrainFrequencyUnit

from ganglion_sb3.codec import Actions
from ganglion_sb3.collector import Collector, Decision
from ganglion_sb3.stream import Stream

__all__ = ["Replay"]

Array = NDArray[Any]


class Replay(Collector):
    """Fill the replay buffer and train every `train_freq` decisions of each muscle, or episodes of any.

    As in Stable-Baselines3 the first `learning_starts` decisions, of all muscles together, are made by chance, and
    there is no training before them. A truncated decision bootstraps from what it led to.
    """

    def __init__(self, model: Any, actions: Actions, muscles: list[str], stream: Stream) -> None:
        super().__init__(model, actions, muscles, stream)
        self._since = self._episodes_since = 0  # the last training
        self._pretrained = False

    @property
    def exploration(self) -> dict[str, Any]:
        """Chance alone before learning starts, unless it has learned before; of DQN then its rate of it."""
        by_chance = bool(self.model.num_timesteps < self._starts)
        return {"random": by_chance, "rate": float(getattr(self.model, "exploration_rate", 0.0))}

    def add(self, decision: Decision) -> bool:
        """Keep a decision; train where that is due."""
        model = self.model
        by_chance = self.exploration["random"]
        self._keep(decision)
        self._count()
        model._on_step()  # noqa: SLF001 - DQN counts there towards its target network
        self._since += 1
        self._episodes_since += decision.done
        trained = self._is_due() and self._train()
        return trained or by_chance != self.exploration["random"]

    def _keep(self, decision: Decision) -> None:
        self.model.replay_buffer.add(
            decision.observation,
            decision.following,
            self._action(decision),
            np.array([decision.objective]),
            np.array([decision.done]),
            [{"TimeLimit.truncated": decision.truncated and not decision.terminated}],
        )

    @property
    def _starts(self) -> int:
        """Decisions without learning."""
        return 0 if self._pretrained else int(self.model.learning_starts)

    def pretrain(self, recorded: Iterable[list[Decision]], steps: int | None, epochs: int) -> None:
        """Keep recorded decisions as if they had been made, the oldest first, and train by drawn ones.

        From then on learning has started. DQN's target network follows as often as it would with one step after each
        `train_freq` decisions.
        """
        model, count = self.model, 0
        for episode in recorded:
            for decision in episode:
                self._keep(decision)
            count += len(episode)
        left = count if steps is None else steps
        between = 1 if model.train_freq.unit is TrainFrequencyUnit.EPISODE else int(model.train_freq.frequency)
        counts = hasattr(model, "_n_calls")  # towards the target network
        with self.stream.running():
            while left:
                size = 1 if counts else left
                for _ in range(between if counts else 0):
                    model._on_step()  # noqa: SLF001 - as in `add`
                model.train(batch_size=model.batch_size, gradient_steps=size)
                left -= size
        self._pretrained = True

    def _action(self, decision: Decision) -> Array:
        if decision.data is not None:
            return decision.data
        action = self.actions.actions(decision.setpoint)
        is_box = isinstance(self.model.action_space, spaces.Box)
        scaled: Array = self.model.policy.scale_action(action) if is_box else action
        return scaled.reshape(-1)

    def _is_due(self) -> bool:
        every = self.model.train_freq
        if every.unit is TrainFrequencyUnit.EPISODE:
            return self._episodes_since >= int(every.frequency)
        return self._since >= int(every.frequency) * len(self.muscles)

    def _train(self) -> bool:
        model = self.model
        steps = model.gradient_steps if model.gradient_steps >= 0 else self._since
        self._since = self._episodes_since = 0
        if model.num_timesteps <= self._starts or steps == 0:
            return False
        with self.stream.running():
            model.train(batch_size=model.batch_size, gradient_steps=steps)
        return True

    def arrays(self) -> dict[str, Array]:
        """Return the rows of the replay buffer, in their places, and where it stands."""
        buffer = self.model.replay_buffer
        count = buffer.buffer_size if buffer.full else buffer.pos
        found = {name: np.array(array[:count]) for name, array in self._stored().items()}
        standing = [buffer.pos, buffer.full, self._since, self._episodes_since, self._pretrained]
        return found | {"standing": np.array(standing, dtype=np.int64)}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take over what `arrays` returned."""
        for name, array in self._stored().items():
            array[: len(arrays[name])] = arrays[name]
        buffer = self.model.replay_buffer
        buffer.pos, full, self._since, self._episodes_since, pretrained = np.asarray(arrays["standing"]).tolist()
        buffer.full, self._pretrained = bool(full), bool(pretrained)

    def _stored(self) -> dict[str, Array]:
        """Return the arrays that the buffer keeps rows in, those of a Dict one by one."""
        found: dict[str, Array] = {}
        for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
            kept = getattr(self.model.replay_buffer, name)
            found |= {f"{name}.{part}": it for part, it in kept.items()} if isinstance(kept, dict) else {name: kept}
        return found
