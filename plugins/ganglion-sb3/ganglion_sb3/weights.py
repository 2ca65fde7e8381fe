"""Weights: parameters and optimisers of an algorithm as named arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.save_util import recursive_getattr

__all__ = ["acting", "arrays_of", "exploring", "named", "restore", "restore_exploring", "take_parameters"]

Array = NDArray[Any]

# What a policy with state-dependent noise has drawn, and goes on acting by.
NOISE = ("exploration_mat", "exploration_matrices")
# What acts is a part of an off-policy algorithm's policy only.
ACTING = {"DQN": "q_net.", "SAC": "actor.", "TD3": "actor.", "DDPG": "actor."}


def acting(algorithm: str, policy: torch.nn.Module) -> dict[str, Array]:
    """Return the parameters that acting needs, in memory of their own."""
    prefix = ACTING.get(algorithm, "")
    return {name: _array(value) for name, value in policy.state_dict().items() if name.startswith(prefix)}


def take_parameters(algorithm: str, policy: torch.nn.Module, parameters: Mapping[str, Array]) -> None:
    """Put parameters that `acting` returned into a policy.

    Raises:
        ValueError: They are those of another network; nothing was changed.
    """
    prefix = ACTING.get(algorithm, "")
    own = {name: tuple(value.shape) for name, value in policy.state_dict().items() if name.startswith(prefix)}
    found = {name: tuple(np.shape(value)) for name, value in parameters.items()}
    _compare(own, found)
    policy.load_state_dict({name: _tensor(value) for name, value in parameters.items()}, strict=False)


def exploring(actor: Any) -> dict[str, Array]:
    """Return the noise by which a policy or its actor explores; nothing where it draws anew each time."""
    distribution = getattr(actor, "action_dist", None)
    return {name: _array(getattr(distribution, name)) for name in NOISE if hasattr(distribution, name)}


def restore_exploring(actor: Any, noise: Mapping[str, Array]) -> None:
    """Take over what `exploring` returned."""
    for name, value in noise.items():
        setattr(actor.action_dist, name, _tensor(value))


def arrays_of(model: BaseAlgorithm) -> dict[str, Array]:
    """Return all that training changes in networks and optimisers, by names.

    `policy.<parameter>`, `<optimiser>/<parameter>/<moment>`, and `<name>` for single tensors.
    """
    found: dict[str, Array] = {}
    states, tensors = model._get_torch_save_params()  # noqa: SLF001 - the list that its own `save` goes by
    for name in states:
        part = recursive_getattr(model, name)
        if isinstance(part, torch.optim.Optimizer):
            for parameter, key in _parameters(model, part):
                for moment, value in part.state.get(parameter, {}).items():
                    found[f"{name}/{key}/{moment}"] = _array(value)
        else:
            found |= {f"{name}.{key}": _array(value) for key, value in part.state_dict().items()}
    return found | {name: _array(recursive_getattr(model, name)) for name in tensors}


def restore(model: BaseAlgorithm, arrays: Mapping[str, Array]) -> None:
    """Take over what `arrays_of` returned.

    Raises:
        ValueError: They are those of another algorithm or network; nothing was changed.
    """
    states, tensors = model._get_torch_save_params()  # noqa: SLF001 - as above
    networks = {name: recursive_getattr(model, name) for name in states}
    own = {name: tuple(recursive_getattr(model, name).shape) for name in tensors}
    for name, part in networks.items():
        if not isinstance(part, torch.optim.Optimizer):
            own |= {f"{name}.{key}": tuple(value.shape) for key, value in part.state_dict().items()}
    _compare(own, {name: tuple(np.shape(value)) for name, value in arrays.items() if "/" not in name})
    for name, part in networks.items():
        if isinstance(part, torch.optim.Optimizer):
            _restore_optimiser(model, name, part, arrays)
        else:
            part.load_state_dict({key: _tensor(arrays[f"{name}.{key}"]) for key in part.state_dict()})
    with torch.no_grad():
        for name in tensors:
            recursive_getattr(model, name).copy_(_tensor(arrays[name]))


def _restore_optimiser(
    model: BaseAlgorithm, name: str, optimiser: torch.optim.Optimizer, arrays: Mapping[str, Array]
) -> None:
    optimiser.state.clear()
    for parameter, key in _parameters(model, optimiser):
        prefix = f"{name}/{key}/"
        moments = {at.removeprefix(prefix): value for at, value in arrays.items() if at.startswith(prefix)}
        if moments:
            # A count that was no tensor is an integer again.
            optimiser.state[parameter] = {
                moment: int(value) if value.dtype.kind == "i" and value.ndim == 0 else _tensor(value)
                for moment, value in moments.items()
            }


def _parameters(model: BaseAlgorithm, optimiser: torch.optim.Optimizer) -> list[tuple[torch.Tensor, str]]:
    """Return the parameters of an optimiser with their names."""
    names = {id(parameter): name for name, parameter in model.policy.named_parameters()}
    listed = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    return [(parameter, names.get(id(parameter), str(i))) for i, parameter in enumerate(listed)]


def _compare(own: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]]) -> None:
    for name in [*own, *found]:
        if own.get(name) != found.get(name):
            raise ValueError(
                f"the stored network is another one: {name} is {found.get(name, 'not there')}, expected "
                f"{own.get(name, 'none of this name')}"
            )


def named(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): np.array(it) for name, it in arrays.items() if name.startswith(prefix)}


def _array(value: Any) -> Array:
    return np.array(value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value)


def _tensor(value: Array) -> torch.Tensor:
    return torch.from_numpy(np.array(value))
