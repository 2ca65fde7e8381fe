"""Algorithm: which there are, what they are told, and how they and their policies are made without an environment."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.utils import LinearSchedule

from ganglion.sdk.naming import nearest
from ganglion_sb3.brain import CHOICES, choices_of

__all__ = ["algorithm_named", "make_algorithm", "make_policy"]

# What is the bus's business, or cannot be said in a document.
OURS = {
    "device", "env", "monitor_wrapper", "optimize_memory_usage", "policy", "replay_buffer_class",
    "replay_buffer_kwargs", "rollout_buffer_class", "rollout_buffer_kwargs", "seed", "self", "stats_window_size",
    "tensorboard_log", "verbose", "_init_setup_model",
}  # fmt: skip
SCHEDULES = ("learning_rate", "clip_range", "clip_range_vf")
MODULES = {"activation_fn": torch.nn, "optimizer_class": torch.optim}


def algorithm_named(name: str) -> type[BaseAlgorithm]:
    """Return the class; ValueError says which there are."""
    choices_of(name)
    found: type[BaseAlgorithm] = getattr(stable_baselines3, name)
    return found


def make_algorithm(
    name: str,
    policy: str,
    params: Mapping[str, Any],
    observed: spaces.Space[Any],
    chosen: spaces.Space[Any],
    muscles: int,
    total: int | None,
) -> BaseAlgorithm:
    """Return an algorithm with networks and buffers, which no environment belongs to.

    Its buffers have one column: `muscles` many take turns in it, and a rollout is as many times as long. Weights are
    drawn from torch's global generator.

    Args:
        name: Of the algorithm.
        policy: `MlpPolicy`, `CnnPolicy`, `MultiInputPolicy`.
        params: Arguments of its constructor, as a document has them.
        observed: What the policy sees.
        chosen: What it chooses from.
        muscles: How many.
        total: Decisions of all muscles over which schedules run; None where there are none.

    Raises:
        ValueError: A parameter is not taken, or does not fit; the message names it.
    """
    cls = algorithm_named(name)
    if type(chosen).__name__ not in CHOICES[name]:
        kinds = ", ".join(CHOICES[name])
        raise ValueError(f"{name} chooses actions of the kinds {kinds}, found {chosen}")
    taken = _taken(cls, params)
    scheduled = [key for key in SCHEDULES if callable(taken.get(key))]
    if total is None and (name == "DQN" or scheduled):
        what = scheduled[0] if scheduled else "the exploration of DQN"
        raise ValueError(f"{what} follows a schedule: say over how many decisions of all workers by total_timesteps")
    _check_policy(cls, policy, observed)
    if "action_noise" in taken:
        size = int(np.prod(chosen.shape or ()))
        taken["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, float(taken["action_noise"])))
    taken["policy_kwargs"] = policy_arguments(cls, policy, params.get("policy_kwargs") or {})
    # As `BaseAlgorithm.load` makes one: spaces first, then networks.
    model = cls(policy=policy, env=None, device="cpu", _init_setup_model=False, **taken)
    model.observation_space, model.action_space, model.n_envs = observed, chosen, 1
    if getattr(model, "target_entropy", None) == "auto":  # it would look at the environment
        model.target_entropy = float(-np.prod(chosen.shape or ()))
    if isinstance(model, OnPolicyAlgorithm):
        model.n_steps *= muscles
    elif muscles > 1 and model.n_steps > 1:
        raise ValueError(f"n_steps: returns over several steps need one worker, found {muscles}")
    model.ep_info_buffer, model.ep_success_buffer = None, None
    model._setup_model()
    model._total_timesteps = total or 0
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def make_policy(
    name: str,
    policy: str,
    policy_kwargs: Mapping[str, Any],
    use_sde: bool,
    observed: spaces.Space[Any],
    chosen: spaces.Space[Any],
) -> Any:
    """Return a policy alone, as `make_algorithm` makes it, for acting; its weights are to be replaced."""
    cls = algorithm_named(name)
    _check_policy(cls, policy, observed)
    arguments = policy_arguments(cls, policy, policy_kwargs)
    if "use_sde" in inspect.signature(cls.policy_aliases[policy].__init__).parameters:
        arguments["use_sde"] = use_sde
    made = cls.policy_aliases[policy](observed, chosen, lambda _: 0.0, **arguments)
    made.set_training_mode(False)
    return made


def policy_arguments(cls: type[BaseAlgorithm], policy: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of a policy: a class of torch by its name, all else as it is.

    Raises:
        ValueError: The policy takes no such argument, or torch has no such class.
    """
    known = set(inspect.signature(cls.policy_aliases[policy].__init__).parameters)
    known -= {"self", "observation_space", "action_space", "lr_schedule", "use_sde", "features_extractor_class"}
    found = dict(given)
    for key, value in given.items():
        if key not in known:
            raise ValueError(
                f"policy_kwargs: {policy} of {cls.__name__} does not take {key!r}; expected "
                f"{', '.join(sorted(known))}{nearest(key, sorted(known))}"
            )
        if key in MODULES:
            found[key] = getattr(MODULES[key], str(value), None)
            if not inspect.isclass(found[key]):
                raise ValueError(f"policy_kwargs.{key}: expected a class of {MODULES[key].__name__}, found {value!r}")
    return found


def _taken(cls: type[BaseAlgorithm], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of an algorithm, those checked that its signature knows."""
    signature = inspect.signature(cls.__init__).parameters
    known = set(signature) - OURS
    found = dict(params)
    for key, value in params.items():
        if key not in known:
            why = ", which the bus sets" if key in OURS & set(signature) else ""
            expected = f"{', '.join(sorted(known))}{nearest(key, sorted(known))}"
            raise ValueError(f"algorithm_params: {cls.__name__} does not take {key!r}{why}; expected {expected}")
        if key in SCHEDULES and isinstance(value, Mapping):
            if set(value) != {"linear"}:
                raise ValueError(f"algorithm_params.{key}: expected a number or {{linear: number}}, found {value!r}")
            found[key] = LinearSchedule(float(value["linear"]), 0.0, 1.0)
        if key == "train_freq" and isinstance(value, list):
            found[key] = tuple(value)
    return found


def _check_policy(cls: type[BaseAlgorithm], policy: str, observed: spaces.Space[Any]) -> None:
    if policy not in cls.policy_aliases:
        raise ValueError(f"policy: expected one of {', '.join(cls.policy_aliases)}, found {policy!r}")
    if isinstance(observed, spaces.Dict) and policy != "MultiInputPolicy":
        raise ValueError(f"policy: a Dict needs MultiInputPolicy, found {policy!r}")
