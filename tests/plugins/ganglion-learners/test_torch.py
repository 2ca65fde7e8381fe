"""Tensors, and worlds of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.sdk import AuthorError
from ganglion.testing import StagedEnvironment, check_environment
from ganglion_learners import TorchFunctionalEnvironment, unroll

torch = pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")
from ganglion_learners.perceptron import fan_in_layers  # noqa: E402 - these need torch
from ganglion_learners.tensors import Adam, Parameters  # noqa: E402


def _parameters(seed: int = 1, copies: int = 0) -> Parameters:
    return Parameters(fan_in_layers(np.random.default_rng(seed), "n", [3, 8, 2], copies))


def test_the_gradient_is_that_of_autograd() -> None:
    """The flat gradient has the parts of all arrays in their order."""
    parameters = _parameters()
    rows = torch.ones(4, 3)
    flat = parameters.gradient(parameters.forward("n", rows, "tanh").square().sum())
    for tensor in parameters.tensors.values():
        tensor.grad = None
    parameters.forward("n", rows, "tanh").square().sum().backward()

    assert torch.equal(flat, torch.cat([it.grad.reshape(-1) for it in parameters.tensors.values()]))


def test_several_in_one_are_each_by_itself() -> None:
    """Two perceptrons in one give what each gives alone."""
    both = _parameters(copies=2)
    rows = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    found = both.forward("n", rows.expand(2, 5, 3), "relu")
    for i in range(2):
        alone = Parameters(
            {name: it[i].reshape(it[i].shape[-2:] if "weight" in name else -1) for name, it in both.arrays().items()}
        )
        torch.testing.assert_close(found[i], alone.forward("n", rows, "relu"))


def test_adam_is_torchs() -> None:
    """The same gradients move the same parameters as torch's own Adam does, with clipping."""
    ours = _parameters()
    theirs = [torch.nn.Parameter(torch.from_numpy(it)) for it in ours.arrays().values()]
    adam, reference = Adam(ours, epsilon=1e-5), torch.optim.Adam(theirs, lr=0.01, eps=1e-5)
    rng = np.random.default_rng(3)
    for scale in (0.01, 10.0, 1.0, 0.1):
        gradient = torch.from_numpy((scale * rng.normal(size=len(ours.flat))).astype(np.float32))
        start = 0
        for parameter in theirs:
            parameter.grad = gradient[start : start + parameter.numel()].view_as(parameter).clone()
            start += parameter.numel()
        torch.nn.utils.clip_grad_norm_(theirs, 0.5)
        reference.step()
        adam.step(gradient, 0.01, 0.5)
    for found, parameter in zip(ours.arrays().values(), theirs, strict=True):
        np.testing.assert_allclose(found, parameter.detach().numpy(), rtol=1e-5, atol=1e-6)


class Spring(TorchFunctionalEnvironment):
    """A mass on a spring with a learned stiffness, that is to be brought to rest."""

    action_bounds = (-1.0, 1.0)

    def __init__(self, dtype: str = "float64") -> None:
        super().__init__({"place": (), "speed": ()}, {"seen": (2,)}, {"push": ()}, dtype, dtype, dtype)
        self.stiffness = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))

    def initial_states(self, batch: int, rng: np.random.Generator) -> Any:
        return {name: rng.uniform(-1, 1, batch) for name in ("place", "speed")}  # arrays of numpy are taken, too

    def get_first_observations(self, states: Any) -> Any:
        return {"seen": torch.stack([states["place"], states["speed"]], 1)}

    def get_action_results(self, last_states: Any, actions: Any, **kwargs: Any) -> Any:
        place, speed = last_states.values()
        speed = speed + 0.1 * (actions["push"] - self.stiffness * place)
        states = {"place": place + 0.1 * speed, "speed": speed}
        return states, self.get_first_observations(states)

    def get_reward(self, last_states: Any, actions: Any, new_states: Any, observations: Any) -> Any:
        return -(observations["seen"] ** 2).sum(1)

    def get_whether_alive(self, observations: Any) -> Any:
        return observations["seen"][:, 0].abs() < 1.5


def act(weights: Any) -> Any:
    """Return a policy with these two weights."""
    return lambda observations: {"push": torch.tanh(observations["seen"] @ weights)}


def states_of(world: Any, batch: int) -> Any:
    """Return states that are drawn from a seed."""
    return world.initial_states(batch, np.random.default_rng(3))


def test_world_of_tensors_keeps_the_contract() -> None:
    """Checks and episodes are those of every environment."""
    check_environment(Spring, steps=30)


def test_bus_gets_arrays_and_no_gradient() -> None:
    """What travels are arrays, and what is kept of a step is no graph of another."""
    staged = StagedEnvironment(Spring)
    staged.start()
    updated = staged.update([1.0])
    saved = staged.environment.save_state()["states"]

    assert 16 == len(updated.readings[0])
    assert [np.ndarray] * 2 == [type(it) for it in saved.values()]
    assert not any(it.requires_grad for it in staged.environment._states.values())


def test_gradient_through_ten_steps_is_that_of_differences(make) -> None:
    """It runs through policy, world, and the parameters of the world."""
    world = make(Spring)
    weights = torch.tensor([0.3, -0.2], dtype=torch.float64, requires_grad=True)
    total = world.unroll(act(weights), states_of(world, 4), 10).rewards.sum()
    total.backward()
    found = [*weights.grad.tolist(), world.stiffness.grad.item()]

    def reward(delta: Any) -> float:
        with torch.no_grad():
            world.stiffness += delta[2]
            rewards = world.unroll(act(weights + delta[:2]), states_of(world, 4), 10).rewards
            world.stiffness -= delta[2]
        return float(rewards.sum())

    small = 1e-6 * torch.eye(3, dtype=torch.float64)
    expected = [(reward(it) - reward(-it)) / 2e-6 for it in small]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_unrolled_steps_are_those_of_the_module(make) -> None:
    """`as_module` makes the same steps, with the parameters of the world; time is axis 1."""
    world, weights = make(Spring), torch.tensor([0.3, -0.2], dtype=torch.float64)
    module = world.as_module()
    found = world.unroll(act(weights), states_of(world, 4), 3)
    states, seen = world.from_arrays(states_of(world, 4)), found.observations["seen"][:, 0]
    for step in range(3):
        states, observed = module(states, act(weights)({"seen": seen}))
        seen = observed["seen"]
        assert torch.equal(seen, found.observations["seen"][:, step + 1])

    assert isinstance(module, torch.nn.Module)
    assert ["stiffness"] == [name for name, _ in module.named_parameters()]
    assert [(4, 4, 2), (4, 3), (4, 3)] == [
        tuple(it.shape) for it in (found.observations["seen"], found.actions["push"], found.is_alive)
    ]
    assert all(torch.equal(states[name], found.states[name]) for name in states)


def test_rows_are_alive_up_to_their_end(make) -> None:
    """The step in which a body ended counts, those after it do not."""
    world = make(Spring)
    states = {"place": np.array([1.4, 0.0]), "speed": np.array([1.0, 0.0])}
    found = world.unroll(lambda seen: {"push": torch.zeros(2, dtype=torch.float64)}, states, 3)

    assert [[True, True, False], [True, True, True]] == found.is_alive.tolist()


def test_what_was_not_declared_is_refused(make) -> None:
    """A policy's actions have the declared dtype and shape; a step is made of them."""
    world = make(Spring)
    with pytest.raises(AuthorError, match=r"policy: action 'push': expected float64 \(4,\), found float32 \(4,\)"):
        world.unroll(lambda seen: torch.zeros(4), states_of(world, 4), 1)
    with pytest.raises(AuthorError, match=r"states: state 'place': expected float64 \(4,\), found float32 \(4,\)"):
        world.unroll(act(None), {name: torch.zeros(4) for name in ("place", "speed")}, 1)
    with pytest.raises(ValueError, match="n is at least 1 step, found 0"):
        world.unroll(act(None), states_of(world, 4), 0)


def test_policies_are_unrolled_over_recorded_sessions_by_the_same_call() -> None:
    """A pool is a world: what was recorded is shown whatever a policy does, whose gradients are its own."""
    replay = pytest.importorskip("ganglion_replay")
    pool = replay.SessionPoolEnvironment([("seen", (2,), "float32")], 1, 0)
    recorded = [np.arange(2 * n + 2, dtype=np.float32).reshape(n + 1, 2) for n in (3, 2)]
    pool.load_sessions([recorded], [[np.arange(n) for n in (3, 2)]], [[1.0, 2.0, 3.0], [4.0, 5.0]])
    weight = torch.tensor(0.5, requires_grad=True)

    def policy(seen: Any) -> Any:
        return (weight * seen["seen"].sum(1)).to(torch.int32)

    found = unroll(pool, policy, pool.initial_states(2, None), 3)
    total = unroll(pool, policy, {"tick": np.zeros(2, np.int32)}, 2).rewards.sum()

    assert recorded[0].tolist() == found.observations["seen"][0].tolist()
    assert [[1.0, 2.0, 3.0], [4.0, 5.0, 0.0]] == found.rewards.tolist()
    assert [[True, True, True], [True, True, False]] == found.is_alive.tolist()
    assert ([[0, 2, 4], [0, 2, 4]], [3, 3]) == (found.actions[0].tolist(), found.states["tick"].tolist())
    assert 12.0 == float(total)
