"""Functional: environments that are a pure, differentiable function on tensors of torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import FunctionalEnvironment, StepBatch
from ganglion_learners.backend import load_torch

__all__ = ["TorchFunctionalEnvironment", "Unrolled", "unroll"]

Array = NDArray[Any]
Tensor = Any  # torch.Tensor; torch may be absent where types are checked


class Unrolled(NamedTuple):
    """The result of n steps, with time as axis 1; maps or lists as the environment declared them.

    Attributes:
        states: After the last step, `[batch, *shape]`.
        observations: `[batch, n + 1, *shape]`; the first are those before the first action.
        actions: `[batch, n, *shape]`.
        rewards: `[batch, n]`.
        is_alive: `[batch, n]` of booleans: up to and including the step in which a body ended. Rows of ended bodies
            continue, so multiply by it.
    """

    states: Any
    observations: Any
    actions: Any
    rewards: Tensor
    is_alive: Tensor


class TorchFunctionalEnvironment(FunctionalEnvironment):
    """A functional environment whose methods compute with tensors of torch; see `FunctionalEnvironment`.

    The states are tensors on `device`. Values from the bus become tensors there, and values for the bus become arrays,
    without gradients. A method may return arrays of numpy, too. Dtypes may be those of torch.

    Args:
        shapes: As those of `FunctionalEnvironment`, likewise its dtypes.
        device: Of torch: `cpu`, `cuda`, ...
    """

    def __init__(self, *shapes: Any, device: str = "cpu", **more: Any) -> None:
        self.torch = load_torch(type(self).__name__)
        self.device = self.torch.device(device)
        super().__init__(*shapes, **more)

    # -- conversions -------------------------------------------------------------------------------------------------
    def from_arrays(self, given: Any) -> Any:
        """Return arrays, or maps and lists of them, as tensors on the device; tensors are returned unchanged."""
        if isinstance(given, Mapping):
            return {name: self.from_arrays(part) for name, part in given.items()}
        if isinstance(given, list | tuple):
            return [self.from_arrays(part) for part in given]
        if isinstance(given, np.ndarray | np.generic):
            return self.torch.tensor(given, device=self.device)
        return given

    def to_array(self, given: Any) -> Array:
        """Return a tensor as an array."""
        return given.detach().cpu().numpy() if isinstance(given, self.torch.Tensor) else np.asarray(given)

    def begin_batch(self, rows: Array, seeds: Sequence[int]) -> Mapping[str, Array]:
        """Begin an episode of each of these bodies, by its seed."""
        with self.torch.no_grad():
            return super().begin_batch(self.torch.tensor(rows), seeds)

    def update_batch(self, setpoints: Mapping[str, Array]) -> StepBatch:
        """Advance the bodies that take part by one step."""
        with self.torch.no_grad():
            return super().update_batch(setpoints)

    def _taken(self, rows: Array) -> dict[str, Any]:
        return super()._taken(self.torch.as_tensor(rows))

    # -- gradients ---------------------------------------------------------------------------------------------------
    def as_module(self) -> Any:
        """Return one step as a `torch.nn.Module`: `(last_states, actions) -> (new_states, observations)`.

        Modules and parameters among the environment's attributes are the module's, too. Arguments and results are as of
        `get_action_results`.
        """
        torch, world = self.torch, self

        class Step(torch.nn.Module):  # type: ignore[misc,name-defined]
            """Make one step of the environment."""

            def forward(self, last_states: Any, actions: Any) -> tuple[Any, Any]:
                last = world.state_items.read(world.from_arrays(last_states), None, "last_states")
                batch = len(next(iter(last.values())))
                done = world.action_items.read(world.from_arrays(actions), batch, "actions")
                new, seen = world.results(last, done)
                return world.state_items.give(new), world.observation_items.give(seen)

        module = Step()
        for name, part in vars(self).items():
            if isinstance(part, torch.nn.Module | torch.nn.Parameter):
                setattr(module, name, part)
        return module

    def unroll(self, policy: Callable[[Any], Any], states: Any, n: int) -> Unrolled:
        """Let a policy act in this world for n steps; see `unroll`."""
        return unroll(self, policy, states, n)


def unroll(world: FunctionalEnvironment, policy: Callable[[Any], Any], states: Any, n: int) -> Unrolled:
    """Let a policy act for n steps in a world of tensors or of arrays, recorded sessions included.

    The policy's arguments and all results are tensors. Gradients run through the policy, and through a world of
    tensors, but not through a world of arrays.

    Args:
        world: Such as a `TorchFunctionalEnvironment`, or a pool of `ganglion-replay`, whose states are ticks.
        policy: Returns actions, `[batch, *shape]` each, from observations in the declared form.
        states: In which the first step begins, `[batch, *shape]` each.
        n: At least 1.

    Raises:
        AuthorError: States, actions, or a method's result have another shape or dtype than declared.
        ValueError: n is below 1.
    """
    if n < 1:
        raise ValueError(f"n is at least 1 step, found {n}")
    torch = load_torch("unroll")
    plain = not isinstance(world, TorchFunctionalEnvironment)
    device = world.device if isinstance(world, TorchFunctionalEnvironment) else torch.device("cpu")

    def tensors(given: Any) -> Any:
        """Return values of the world as tensors."""
        if isinstance(given, Mapping):
            return {name: tensors(part) for name, part in given.items()}
        return torch.tensor(given, device=device) if isinstance(given, np.ndarray) else given

    def arrays(given: Any) -> Any:
        """Return tensors in the form of the world."""
        if not plain:
            return world.from_arrays(given)
        if isinstance(given, Mapping):
            return {name: arrays(part) for name, part in given.items()}
        if isinstance(given, list | tuple):
            return [arrays(part) for part in given]
        return given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else given

    last = world.state_items.read(arrays(states), None, "states")
    batch = len(next(iter(last.values())))
    seen, done, rewards = [tensors(world.first_observations(last))], [], []
    alive = [torch.ones(batch, dtype=torch.bool, device=device)]
    for _ in range(n):
        acted = policy(world.observation_items.give(seen[-1]))
        actions = world.action_items.read(arrays(acted), batch, "policy")
        step = world.step(last, actions)
        last = step.states
        done.append(tensors(world.action_items.read(acted, batch, "policy") if plain else actions))
        seen.append(tensors(step.observations))
        rewards.append(tensors(step.rewards))
        alive.append(alive[-1] & tensors(step.alive))

    def stack(items: Any, steps: list[dict[str, Any]]) -> Any:
        return items.give({name: torch.stack([one[name] for one in steps], 1) for name in items.shapes})

    return Unrolled(
        world.state_items.give(tensors(last)),
        stack(world.observation_items, seen),
        stack(world.action_items, done),
        torch.stack(rewards, 1),
        torch.stack(alive[:n], 1),
    )
