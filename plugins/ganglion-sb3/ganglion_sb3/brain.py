"""Brain: an algorithm of Stable-Baselines3, fed with decisions that were made elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import (
    ActuatorInformation,
    CheckpointableBrain,
    SensorInformation,
    Session,
    Signal,
    Transitions,
    mask_columns,
)
from ganglion.sdk.naming import nearest

if TYPE_CHECKING:
    from ganglion_sb3.collector import Collector

__all__ = ["CHOICES", "SB3Brain", "choices_of"]

Array = NDArray[Any]
_ALL = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
# Which actions they can choose; Stable-Baselines3 checks it only where it is given an environment.
CHOICES = {"A2C": _ALL, "DDPG": ("Box",), "DQN": ("Discrete",), "PPO": _ALL, "SAC": ("Box",), "TD3": ("Box",)}
FLOAT32_MAX = float(np.finfo(np.float32).max)  # it computes in float32
COUNTERS = ("num_timesteps", "_n_updates", "_n_calls", "_episode_num")


def choices_of(algorithm: str) -> tuple[str, ...]:
    """Return the kinds of actions that an algorithm can choose; ValueError says which algorithms there are."""
    if algorithm not in CHOICES:
        like = nearest(algorithm, CHOICES)
        raise ValueError(f"algorithm: expected one of {', '.join(CHOICES)}, found {algorithm!r}{like}")
    return CHOICES[algorithm]


class SB3Brain(CheckpointableBrain):
    """Train PPO, A2C, DQN, SAC, TD3 or DDPG of Stable-Baselines3 by the bus; the muscle is `sb3`.

    The bus owns the loop: decisions of all workers come as rows, go into the algorithm's own rollout or replay
    buffer, and its own `train` is called where its `learn` would. A worker counts as an environment of it, with
    bodies each body of each worker. Seed, device (cpu, one thread) and logging are the bus's business; nothing is
    pickled. In lockstep with one worker, and equal random numbers, the weights are those of Stable-Baselines3 bit by
    bit.

    One sensor is seen as it is; several as one flat vector, or each for itself with `MultiInputPolicy`. Several
    actuators are all Box or all Discrete.

    The update, which is also the stored policy, is a map of `architecture`, `parameters` (arrays by the names of the
    policy's state), `random` and `rate` (of exploration). It goes out after each training. The model has all
    parameters and the optimisers' moments by name, the counts, and in its JSON the architecture; that of another
    one is refused. The replay buffer is in checkpoints only.

    Params:
        algorithm: A2C, DDPG, DQN, PPO, SAC or TD3. Default PPO.
        policy: MlpPolicy, CnnPolicy or MultiInputPolicy. Default MlpPolicy.
        algorithm_params: Arguments of the algorithm's constructor by its own names (`n_steps`, `gamma`, ...), with
            its own defaults. `learning_rate`, `clip_range`, `clip_range_vf` are a number, or `{linear: 0.001}`, which
            falls to 0. `train_freq` may be `[4, episode]`. `action_noise` is the deviation of normal noise, in units
            of half the actions' range. In `policy_kwargs`, `activation_fn` and `optimizer_class` are names of
            torch's classes. Default: none.
        total_timesteps: Decisions of all workers, >= 1, over which schedules run (that of DQN's exploration, and
            linear ones), and after which, with the training that is then due, the phase is asked to stop. Default
            None: there may be no schedule, and conditions alone end the phase.
        pretrain_steps: Steps by which DQN, SAC, TD3 and DDPG learn from recorded decisions (agent key `replay`) in
            their replay buffer, >= 0. These algorithms were not made for that: they do not know what would come of
            actions that nobody took, and need recordings in which they were. None is one for each decision. Default
            None.
        pretrain_epochs: Passes over recorded decisions in which PPO and A2C clone what was done, >= 1. Default 10.

    Source: Raffin et al. (2021), Stable-Baselines3: reliable reinforcement learning implementations.
    """

    CHECKPOINT_FORMAT = "sb3"
    CHECKPOINT_SCHEMA_VERSION = 1
    batched = True

    def __init__(
        self,
        algorithm: str = "PPO",
        policy: str = "MlpPolicy",
        algorithm_params: Mapping[str, Any] | None = None,
        total_timesteps: int | None = None,
        pretrain_steps: int | None = None,
        pretrain_epochs: int = 10,
    ) -> None:
        super().__init__()
        for name, least, found in (("pretrain_steps", 0, pretrain_steps), ("pretrain_epochs", 1, pretrain_epochs)):
            whole = isinstance(found, int) and not isinstance(found, bool) and found >= least
            if not whole and (found is not None or name == "pretrain_epochs"):
                raise ValueError(f"{name}: expected a whole number >= {least}, found {found!r}")
        self.pretrain_steps, self.pretrain_epochs = pretrain_steps, pretrain_epochs
        if total_timesteps is not None and total_timesteps < 1:
            raise ValueError(f"total_timesteps: expected at least 1, found {total_timesteps}")
        self.algorithm, self.policy = algorithm, policy
        self.algorithm_params = dict(algorithm_params or {})
        self.total_timesteps = total_timesteps
        self.model: Any = None  # the algorithm, made in `setup`
        self._collector: Collector

    @classmethod
    def check_spaces(
        cls,
        sensors: Sequence[SensorInformation],
        actuators: Sequence[ActuatorInformation],
        algorithm: str = "PPO",
        **params: Any,
    ) -> None:
        """Refuse actuators that the algorithm cannot choose: masked, of another kind, of several kinds, or none.

        ValueError also for an algorithm that is unknown.
        """
        taken = choices_of(algorithm)
        for uid in mask_columns(sensors, actuators):
            raise ValueError(f"{algorithm} of sb3 knows no masks, found one of {uid}; ppo, dqn and sarsa keep to them")
        kinds = {type(it.space).__name__ for it in actuators}
        if kinds == {"Discrete"} and len(actuators) > 1:
            kinds = {"MultiDiscrete"}  # which several choices are to it
        if len(kinds) != 1 or not kinds <= {*taken}:
            found = ", ".join(f"{it.uid}: {it.space.to_string()}" for it in actuators) or "none"
            raise ValueError(f"{algorithm} of sb3 sets actuators of one kind, {' or '.join(taken)}, found {found}")

    def setup(self) -> None:
        """Make networks and buffers from sensors, actuators and seed.

        Raises:
            ValueError: A parameter is not taken, or sensors or actuators do not fit; the message names it.
        """
        import torch

        from ganglion_sb3.algorithm import make_algorithm
        from ganglion_sb3.codec import Actions, Observations
        from ganglion_sb3.collector import path_of
        from ganglion_sb3.replay import Replay
        from ganglion_sb3.rollout import Rollout
        from ganglion_sb3.stream import Stream

        torch.set_num_threads(1)  # how a sum is split among threads decides its last bits
        self.memory.size_limit = 0  # the algorithm has its own
        sensors = [(it.uid, it.space) for it in self.sensors]
        self._observations = Observations(sensors, self.policy == "MultiInputPolicy")
        self._actions = Actions([(it.uid, it.space) for it in self.actuators])
        self.stream = Stream(self.seed)
        muscles = [path_of(muscle, body) for muscle in self.muscles for body in self.bodies] or list(self.muscles)
        with self.stream.running():
            self.model = make_algorithm(
                self.algorithm,
                self.policy,
                self.algorithm_params,
                self._observations.space,
                self._actions.space,
                len(muscles),
                self.total_timesteps,
            )
        kind = Rollout if hasattr(self.model, "rollout_buffer") else Replay
        self._collector = kind(self.model, self._actions, muscles, self.stream)
        if kind is Rollout and len(muscles) == 1:  # of those with a replay one may also stop to act by chance alone
            self.learn_every = int(self.model.rollout_buffer.buffer_size)

    @property
    def architecture(self) -> dict[str, Any]:
        """What makes the network: a JSON object."""
        noise = self.algorithm_params.get("action_noise")
        return {
            "algorithm": self.algorithm,
            "policy": self.policy,
            "policy_kwargs": dict(self.algorithm_params.get("policy_kwargs") or {}),
            "use_sde": bool(self.algorithm_params.get("use_sde", False)),
            "sde_sample_freq": int(self.algorithm_params.get("sde_sample_freq", -1)),
            "action_noise": None if noise is None else float(noise),
            "sensors": [it.space.to_string() for it in self.sensors],
            "actuators": [it.space.to_string() for it in self.actuators],
        }

    def initial_update(self, muscle_id: str) -> dict[str, Any]:
        """Return the policy as it is."""
        return self.update_for_muscles()

    def update_for_muscles(self) -> dict[str, Any]:
        """Return what a muscle needs to act, in memory of its own."""
        from ganglion_sb3.weights import acting

        parameters = acting(self.algorithm, self.model.policy)
        return {"architecture": self.architecture, "parameters": parameters, **self._collector.exploration}

    def pretrain(self, sessions: Iterable[Session]) -> None:
        """Learn from recorded episodes: off-policy algorithms by their replay buffer, the others by cloning.

        No decision of it counts: schedules begin where the phase begins. Chance alone (`learning_starts`) is left out
        then.

        Raises:
            ValueError: A session has other sensors or actuators, or cannot be learned from.
            FloatingPointError: What comes of it is no finite number.
        """
        from ganglion_learners import Recording
        from ganglion_sb3.recording import Recorded

        checked = Recording(sessions, "sb3", self.sensors, self.actuators, self._actions.check)
        recorded = Recorded(checked, self._observations)
        self._collector.pretrain(recorded, self.pretrain_steps, self.pretrain_epochs)
        self._refuse_nan(self.arrays(), "after learning from recorded decisions")
        self._collector.trained()  # what an algorithm has noted of it would stand with the first decisions

    def learn(self, batch: Transitions) -> dict[str, Any] | None:
        """Take decisions in their order; return the update if the algorithm trained.

        Raises:
            ValueError: A decision has no objective, or one that is none in float32.
            FloatingPointError: What was learned is no finite number; learning cannot go on.
        """
        from ganglion_sb3.collector import Decision

        news = False
        for i, muscle in enumerate(batch.muscle):
            objective = float(batch.objectives[i])
            if not abs(objective) <= FLOAT32_MAX:
                found = "none" if objective != objective else f"{objective:g}, which is infinite in float32"
                raise ValueError(
                    f"sb3 needs a finite objective for each decision, and decision {batch.step[i]} of {muscle} in its "
                    f"episode {batch.episode[i]} has {found}"
                )
            news |= self._collector.add(Decision.of(batch, i, self._observations))
        if not news:
            return None
        if self.total_timesteps is not None and self.model.num_timesteps >= self.total_timesteps:
            self.signal(Signal.STOP_PHASE, f"total_timesteps {self.total_timesteps}")
        for name, value in self._collector.trained().items():
            self.add_statistics(name, value, allow_overwrite=True)
        update = self.update_for_muscles()
        self._refuse_nan(update["parameters"], f"after {self.model.num_timesteps} decisions")
        return update

    def _refuse_nan(self, arrays: Mapping[str, Array], when: str) -> None:
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise FloatingPointError(
                    f"{self.algorithm} of sb3: {name} has NaN or infinity {when}, so learning cannot go on; "
                    f"learning_rate {self.model.learning_rate}; readings and objectives should be of the order of 1 "
                    "(filter `norm` makes them so)"
                )

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        """Do nothing: this brain learns from arrays, by `learn`."""
        raise NotImplementedError("sb3 learns from arrays: call learn")

    def store(self) -> None:
        """Save parameters, optimisers and counts, and beside them the architecture."""
        self.models.save(self.arrays(), meta=self.architecture)

    def load(self) -> None:
        """Take over a stored model; decisions are counted anew, as `learn` does it.

        Raises:
            ValueError: It is that of another architecture, or no model of this brain; nothing was changed.
        """
        own, found = self.architecture, self.models.meta() or {}
        if not found.keys() & own.keys():
            raise ValueError(
                f"the stored model is not one of sb3: expected the architecture of {self.algorithm} beside it, "
                "found none"
            )
        for name, value in own.items():
            if found.get(name) != value:
                raise ValueError(
                    f"the stored model has another architecture: {name} is {found.get(name)!r}, expected {value!r}"
                )
        super().load()
        self.model.num_timesteps = 0

    def arrays(self) -> Mapping[str, Array]:
        """Return parameters and optimisers by name, and the counts of decisions and trainings."""
        from ganglion_sb3.weights import arrays_of

        counts = {f"count/{name}": np.array(getattr(self.model, name)) for name in self._counters()}
        return {**arrays_of(self.model), **counts}

    def load_arrays(self, arrays: Mapping[str, Array]) -> None:
        """Go on with stored parameters, optimisers and counts.

        Raises:
            ValueError: They are those of another network; nothing was changed.
        """
        from ganglion_sb3.weights import restore

        counts = {name: arrays[f"count/{name}"] for name in self._counters() if f"count/{name}" in arrays}
        restore(self.model, {name: array for name, array in arrays.items() if not name.startswith("count/")})
        for name, value in counts.items():
            setattr(self.model, name, int(value))

    def _counters(self) -> list[str]:
        return [name for name in COUNTERS if hasattr(self.model, name)]

    def export_checkpoint_state(self) -> Mapping[str, Array]:
        """Return the model, what was collected, and the states of the generators."""
        progress = [self.model._current_progress_remaining, getattr(self.model, "exploration_rate", 0.0)]  # noqa: SLF001
        return {
            **{f"model/{name}": array for name, array in self.arrays().items()},
            **{f"collected/{name}": array for name, array in self._collector.arrays().items()},
            **{f"stream/{name}": array for name, array in self.stream.arrays().items()},
            "progress": np.array(progress, dtype=np.float64),
        }

    def restore_checkpoint_state(self, state: Mapping[str, Array] | bytes) -> None:
        """Take over what `export_checkpoint_state` returned."""
        from ganglion_sb3.weights import named

        assert not isinstance(state, bytes)
        self.load_arrays(named(state, "model/"))
        self._collector.restore(named(state, "collected/"))
        self.stream.restore(named(state, "stream/"))
        progress, rate = np.asarray(state["progress"]).tolist()
        self.model._current_progress_remaining = progress  # noqa: SLF001 - a counter of the loop, which is ours
        if hasattr(self.model, "exploration_rate"):
            self.model.exploration_rate = rate
