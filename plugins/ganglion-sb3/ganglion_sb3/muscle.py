"""Muscle: acts by a policy of Stable-Baselines3 with the parameters of the last update."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import ActuatorInformation, Batch, Mode, Muscle, SensorInformation
from ganglion_learners import refused

__all__ = ["SB3Muscle"]

Array = NDArray[Any]
UPDATE = {"architecture", "parameters", "random", "rate"}  # what the brain's is made of


class SB3Muscle(Muscle):
    """Act as an algorithm of Stable-Baselines3 does, by the policy that `SB3Brain` sends.

    In training it explores as the algorithm would: by its distribution, by chance at the rate of DQN, with noise,
    and by chance alone before learning starts. What it tells the brain is a flat float64 array per decision: the
    action as the algorithm stores it, on-policy followed by the value of the observation and the log of the action's
    probability. All else that it must know comes with the update. What it is can be saved and loaded as named arrays
    (`save_state`, `load_state`), so a lost one goes on bit for bit, and a long phase does not make that slower.

    Params:
        deterministic: Whether the best action is taken in test and evaluation; else one is drawn. Default true.
    """

    batched = True

    def __init__(self, deterministic: bool = True) -> None:
        super().__init__()
        self.deterministic = deterministic
        self._policy: Any = None
        self._architecture: dict[str, Any] = {}
        self._by_chance, self._rate, self._since_noise = False, 0.0, 0

    def setup(self) -> None:
        """Prepare the stream that actions are drawn from."""
        import torch

        from ganglion_sb3.stream import Stream

        torch.set_num_threads(1)
        self.stream = Stream(self.seed)

    def update(self, update: Any) -> None:
        """Take over architecture, parameters and exploration.

        Raises:
            ValueError: They are of another brain, for other sensors or actuators, or do not fit each other.
        """
        from ganglion_sb3.weights import take_parameters

        if not isinstance(update, Mapping) or set(update) != UPDATE:
            raise refused("sb3", update)
        architecture = dict(update["architecture"])
        if architecture != self._architecture:
            self._make(architecture)
        take_parameters(architecture["algorithm"], self._policy, update["parameters"])
        self._by_chance, self._rate = bool(update["random"]), float(update["rate"])
        if architecture["use_sde"]:
            self._since_noise = 0
            with self.stream.running():
                self._exploring.reset_noise(1)

    def _make(self, architecture: dict[str, Any]) -> None:
        """Make the policy."""
        from stable_baselines3.common.noise import NormalActionNoise

        from ganglion_sb3.algorithm import make_policy
        from ganglion_sb3.codec import Actions, Observations

        for what in ("sensors", "actuators"):
            own = [it.space.to_string() for it in getattr(self, what)]
            if own != list(architecture[what]):
                raise ValueError(f"the policy is for other {what}: {architecture[what]}, expected {own}")
        sensors = [(it.uid, it.space) for it in self.sensors]
        self._observations = Observations(sensors, architecture["policy"] == "MultiInputPolicy")
        self._actions = Actions([(it.uid, it.space) for it in self.actuators])
        chosen = self._actions.space
        with self.stream.running():  # weights are drawn, and then replaced
            self._policy = make_policy(
                architecture["algorithm"],
                architecture["policy"],
                architecture["policy_kwargs"],
                architecture["use_sde"],
                self._observations.space,
                chosen,
            )
        chosen.seed(self.seed % 2**32)
        self._on_policy = architecture["algorithm"] in ("A2C", "PPO")
        size = int(np.prod(chosen.shape or ()))
        noise = architecture["action_noise"]
        self._noise = None if noise is None else NormalActionNoise(np.zeros(size), np.full(size, noise))
        self._architecture = architecture

    def propose_batch(self, batch: Batch) -> tuple[Array, Sequence[Any] | Array]:
        """Decide for `[bodies, n]` readings; returns `[bodies, m]` setpoints, and data for the brain.

        Raises:
            RuntimeError: No update has come and no policy was loaded.
        """
        if self._policy is None:
            raise RuntimeError("sb3 has no policy: in test mode give the agent one by `load`, or train it before")
        seen = self._observations(np.asarray(batch.observations))
        bodies = len(batch.observations)
        if self.mode is not Mode.TRAIN:
            with nullcontext() if self.deterministic else self.stream.running_torch():
                actions, _ = self._policy.predict(seen, deterministic=self.deterministic)
            return self._actions.setpoints(actions), [None] * bodies
        # A distribution is drawn from by torch alone, chance and noise by numpy too.
        with self.stream.running_torch() if self._on_policy else self.stream.running():
            self._refresh_noise(bodies)
            act = self._by_distribution if self._on_policy else self._by_rate
            actions, told = act(seen, bodies)
        return self._actions.setpoints(actions), told if bodies > 1 else list(told)

    def _by_distribution(self, seen: Any, bodies: int) -> tuple[Array, Array]:
        """Draw actions from the policy, and say what it thought of them."""
        import torch
        from gymnasium import spaces
        from stable_baselines3.common.utils import obs_as_tensor

        with torch.no_grad():
            drawn, values, log_probs = self._policy(obs_as_tensor(seen, torch.device("cpu")))
        actions = drawn.numpy()
        told = np.column_stack([actions.reshape(bodies, -1), values.reshape(bodies), log_probs.reshape(bodies)])
        chosen = self._actions.space
        if isinstance(chosen, spaces.Box):
            squashed = self._policy.squash_output
            actions = self._policy.unscale_action(actions) if squashed else np.clip(actions, chosen.low, chosen.high)
        return actions, told.astype(np.float64)

    def _by_rate(self, seen: Any, bodies: int) -> tuple[Array, Array]:
        """Take the policy's actions, some by chance or with noise."""
        chosen = self._actions.space
        greedy = self._architecture["algorithm"] == "DQN"
        if self._by_chance or (greedy and np.random.rand() < self._rate):  # noqa: NPY002 - our stream, see `Stream`
            actions = np.array([chosen.sample() for _ in range(bodies)])
        else:
            actions, _ = self._policy.predict(seen, deterministic=False)
        if not hasattr(chosen, "low"):
            return actions, actions.reshape(bodies, -1).astype(np.float64)
        scaled = self._policy.scale_action(actions)
        if self._noise is not None:
            noise = np.stack([self._noise() for _ in range(bodies)])
            scaled = np.clip(scaled + noise.reshape(scaled.shape), -1, 1)
        return self._policy.unscale_action(scaled), scaled.reshape(bodies, -1).astype(np.float64)

    def _refresh_noise(self, bodies: int) -> None:
        """Draw a new matrix of state-dependent noise every `sde_sample_freq` decisions."""
        every = self._architecture["sde_sample_freq"]
        if self._architecture["use_sde"] and every > 0 and self._since_noise % every == 0:
            self._exploring.reset_noise(bodies)
        self._since_noise += 1

    def save_state(self) -> Mapping[str, Array]:
        """Return the policy with its architecture (JSON, uint8), the streams, and how it explores, as named arrays."""
        from ganglion_sb3.stream import generator_array
        from ganglion_sb3.weights import acting, exploring

        state = {f"stream/{name}": array for name, array in self.stream.arrays().items()}
        state["standing"] = np.array([self._by_chance, self._rate, self._since_noise], dtype=np.float64)
        if self._policy is None:
            return state
        parameters = acting(self._architecture["algorithm"], self._policy)
        return {
            **state,
            "architecture": np.frombuffer(json.dumps(self._architecture).encode(), dtype=np.uint8),
            "chance": generator_array(self._actions.space.np_random),
            **{f"policy/{name}": array for name, array in parameters.items()},
            **{f"noise/{name}": array for name, array in exploring(self._exploring).items()},
        }

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Take over what `save_state` returned; this muscle has been set up.

        Raises:
            ValueError: It is for other sensors or actuators, or does not fit itself.
        """
        from ganglion_sb3.stream import restore_generator
        from ganglion_sb3.weights import named, restore_exploring, take_parameters

        if "architecture" in state:
            architecture = json.loads(bytes(state["architecture"]))
            if architecture != self._architecture:
                self._make(architecture)
            take_parameters(architecture["algorithm"], self._policy, named(state, "policy/"))
            restore_generator(self._actions.space.np_random, state["chance"])
            restore_exploring(self._exploring, named(state, "noise/"))
        by_chance, self._rate, since_noise = np.asarray(state["standing"]).tolist()
        self._by_chance, self._since_noise = bool(by_chance), int(since_noise)
        self.stream.restore(named(state, "stream/"))  # last: making a policy draws from it

    @property
    def _exploring(self) -> Any:
        """The part of the policy that explores."""
        return self._policy if self._on_policy else getattr(self._policy, "actor", self._policy)

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> list[ActuatorInformation]:
        """Do nothing: this muscle decides on arrays, by `propose_batch`."""
        raise NotImplementedError("sb3 decides on arrays: call propose_batch")
