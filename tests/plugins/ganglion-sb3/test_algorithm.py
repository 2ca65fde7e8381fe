"""Algorithms of Stable-Baselines3: parameters, weights, and what they see and set."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: scripts/setup --with stable-baselines3"
)
import torch
from gymnasium import spaces

from ganglion.sdk import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from ganglion_sb3.algorithm import algorithm_named, make_algorithm
from ganglion_sb3.codec import Actions, Observations
from ganglion_sb3.weights import acting, arrays_of, restore, take_parameters

SEEN, CHOSEN, PUSHED = spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2), spaces.Box(-2.0, 2.0, (2,))


def _made(name="PPO", policy="MlpPolicy", chosen=CHOSEN, muscles=1, total=None, **params):
    return make_algorithm(name, policy, params, SEEN, chosen, muscles, total)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "PPQ"}, r"algorithm: expected one of A2C, .*, found 'PPQ'; did you mean `PPO`\?"),
        ({"policy": "MlpLstmPolicy"}, "policy: expected one of MlpPolicy"),
        ({"n_step": 3}, r"PPO does not take 'n_step'; expected batch_size, clip_range.*; did you mean `n_steps`\?"),
        ({"seed": 3}, "does not take 'seed', which the bus sets; expected"),
        ({"policy_kwargs": {"net_arc": [3]}}, r"of PPO does not take 'net_arc'; expected .*; did you mean `net_arch`"),
        ({"policy_kwargs": {"activation_fn": "Rulu"}}, "activation_fn: expected a class of torch.nn, found 'Rulu'"),
        ({"policy_kwargs": {"features_extractor_class": "os.system"}}, "does not take 'features_extractor_class'"),
        ({"learning_rate": {"cosine": 1}}, r"expected a number or \{linear: number\}"),
        ({"learning_rate": {"linear": 1e-3}}, "learning_rate follows a schedule: say over how many"),
        ({"name": "DQN"}, "the exploration of DQN follows a schedule"),
        ({"name": "SAC"}, "SAC chooses actions of the kinds Box, found Discrete"),
        ({"name": "DQN", "chosen": PUSHED, "total": 9}, "DQN chooses actions of the kinds Discrete"),
        ({"name": "SAC", "chosen": PUSHED, "n_steps": 3, "muscles": 2}, "returns over several steps need one worker"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(given, message) -> None:
    """Unknown parameters are refused by the algorithm's own signature, with the nearest right one."""
    with pytest.raises(ValueError, match=message):
        _made(**given)


def test_parameters_arrive() -> None:
    """What is given is what the algorithm has; workers share its rollout; a schedule falls to 0."""
    made = _made(
        n_steps=10, muscles=3, total=100, gamma=0.5, clip_range={"linear": 0.4},
        policy_kwargs={"net_arch": [7], "activation_fn": "ELU"},
    )  # fmt: skip

    assert (30, 0.5, 1) == (made.rollout_buffer.buffer_size, made.gamma, made.rollout_buffer.n_envs)
    assert [0.4, 0.2, 0.0] == [made.clip_range(left) for left in (1.0, 0.5, 0.0)]
    assert isinstance(made.policy.mlp_extractor.policy_net[1], torch.nn.ELU)
    assert (7, 3) == made.policy.mlp_extractor.policy_net[0].weight.shape


def test_a_dict_needs_its_policy() -> None:
    """A Dict of observations is for the policy that takes several inputs."""
    with pytest.raises(ValueError, match="a Dict needs MultiInputPolicy"):
        make_algorithm("PPO", "MlpPolicy", {}, spaces.Dict({"a": SEEN}), CHOSEN, 1, None)
    assert "PPO" == algorithm_named("PPO").__name__


NAMES = {"A2C": CHOSEN, "DDPG": PUSHED, "DQN": CHOSEN, "PPO": CHOSEN, "SAC": PUSHED, "TD3": PUSHED}


def _narrow(name, width=8, **params):
    given = {"policy_kwargs": {"net_arch": [width]}, **params}
    return make_algorithm(name, "MlpPolicy", given, SEEN, NAMES[name], 1, 100)


def _stepped(name):
    """Return an algorithm whose optimisers have moments."""
    made = _narrow(name)
    for optimiser in [
        getattr(part, "optimizer", None)
        for part in (made.policy, getattr(made, "actor", None), getattr(made, "critic", None))
    ]:
        if optimiser is not None:
            for group in optimiser.param_groups:
                for parameter in group["params"]:
                    parameter.grad = torch.ones_like(parameter)
            optimiser.step()
    return made


@pytest.mark.parametrize("name", NAMES)
def test_all_that_training_changes_there_and_back(name) -> None:
    """Parameters and moments have names and come back bit for bit; the next step of an optimiser is the same."""
    one, two = _stepped(name), _narrow(name)
    arrays = arrays_of(one)
    restore(two, {key: array.copy() for key, array in arrays.items()})

    assert any("/" in key for key in arrays)
    assert all(array.dtype.kind in "fiub" for array in arrays.values())
    again = arrays_of(two)
    assert list(arrays) == list(again)
    assert all(arrays[key].tobytes() == again[key].tobytes() for key in arrays)


@pytest.mark.parametrize("name", NAMES)
def test_another_network_is_refused(name) -> None:
    """A parameter of another shape is named, and nothing is changed."""
    made = _narrow(name)
    before = {key: array.tobytes() for key, array in arrays_of(made).items()}
    with pytest.raises(ValueError, match=r"the stored network is another one: .* expected"):
        restore(made, arrays_of(_narrow(name, width=9)))
    assert before == {key: array.tobytes() for key, array in arrays_of(made).items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_muscle_gets_what_acts(name) -> None:
    """Of off-policy algorithms neither targets nor critics travel; what travels is copied, and fits or is refused."""
    one, two = _narrow(name), _narrow(name)
    sent = acting(name, one.policy)
    take_parameters(name, two.policy, sent)
    first = next(iter(sent))

    assert not any("target" in key or key.startswith("critic") for key in sent)
    np.testing.assert_array_equal(sent[first], two.policy.state_dict()[first].numpy())
    two.policy.state_dict()[first].add_(1.0)
    np.testing.assert_array_equal(sent[first], one.policy.state_dict()[first].numpy())
    with pytest.raises(ValueError, match="another one"):
        take_parameters(name, two.policy, {key: array for key, array in sent.items() if key != first})


ALONE = [
    (Box(-1.0, 2.0, (2, 3), np.float32), spaces.Box(-1.0, 2.0, (2, 3), np.float32)),
    (Box(0.0, 2.0, ()), spaces.Box(0.0, 2.0, (1,), np.float64)),
    (Discrete(5, start=-2), spaces.Discrete(5)),
    (MultiDiscrete([2, 4], start=[1, 3]), spaces.MultiDiscrete([2, 4])),
    (MultiBinary((2, 2)), spaces.MultiBinary((2, 2))),
]


@pytest.mark.parametrize(("ours", "theirs"), ALONE)
def test_one_sensor_is_seen_as_it_is(ours, theirs) -> None:
    """A sensor alone keeps kind and shape; counting begins at 0."""
    codec = Observations([("e.s", ours)], False)
    values = [ours.sample(np.random.default_rng(seed)) for seed in range(6)]
    found = codec(np.stack([ours.to_vector(value) for value in values]))

    assert theirs == codec.space
    assert 6 == len(found)
    for value, seen in zip(values, found, strict=True):
        assert theirs.contains(seen)
        start = getattr(ours, "start", 0)
        np.testing.assert_array_equal(np.ravel(np.asarray(value) - start), np.ravel(seen))


def test_an_image_gets_its_channels_first() -> None:
    """Images are turned as Stable-Baselines3's own wrapper does it."""
    codec = Observations([("e.s", Box(0, 255, (40, 50, 3), np.uint8))], False)
    image = np.arange(6000, dtype=np.uint64).astype(np.uint8).reshape(40, 50, 3)

    assert spaces.Box(0, 255, (3, 40, 50), np.uint8) == codec.space
    np.testing.assert_array_equal(np.moveaxis(image, -1, 0), codec(image.reshape(1, -1))[0])


def test_several_sensors_are_one_vector() -> None:
    """In declared order; what is counted becomes one-hot."""
    sensors = [("e.a", Discrete(3, start=1)), ("e.b", Box(-1.0, 4.0, (2,))), ("e.c", MultiDiscrete([2, 2]))]
    codec = Observations([*sensors, ("e.d", MultiBinary(2))], False)
    found = codec(np.array([[2.0, 0.5, 4.0, 1.0, 0.0, 1.0, 0.0]]))

    assert [0, 1, 0, 0.5, 4.0, 0, 1, 1, 0, 1, 0] == found[0].tolist()
    assert codec.space.contains(found[0])
    assert [-1.0, -1.0] == codec.space.low[3:5].tolist()


def test_several_sensors_each_for_itself() -> None:
    """For `MultiInputPolicy` they are a Dict, in which each is what it is alone."""
    codec = Observations([("e.a", Discrete(3, start=1)), ("e.b", Box(-1.0, 4.0, (2,)))], True)
    found = codec(np.array([[2.0, 0.5, 4.0], [3.0, 0.0, 0.0]]))

    assert [1, 2] == found["sensor_0"].tolist()
    assert [[0.5, 4.0], [0.0, 0.0]] == found["sensor_1"].tolist()


@pytest.mark.parametrize(("ours", "theirs"), ALONE)
def test_one_actuator_there_and_back(ours, theirs) -> None:
    """Actions become setpoints that the space contains, and these the same actions again."""
    codec = Actions([("e.a", ours)])
    codec.space.seed(3)
    actions = np.stack([codec.space.sample() for _ in range(5)])
    found = codec.setpoints(actions)

    assert (theirs if ours != MultiBinary((2, 2)) else spaces.MultiBinary(4)) == codec.space
    assert all(ours.contains(ours.from_vector(row)) for row in found)
    np.testing.assert_array_equal(actions, codec.actions(found))


def test_several_actuators() -> None:
    """Boxes are one Box, Discretes a MultiDiscrete, each with its own bounds or start."""
    boxes = Actions([("e.a", Box(0.0, 1.0, ())), ("e.b", Box(-3.0, -2.0, (2,)))])
    assert [[1.0, -3.0, -2.5]] == boxes.setpoints(np.array([[7.0, -4.0, -2.5]], np.float32)).tolist()
    counts = Actions([("e.a", Discrete(2, start=5)), ("e.b", Discrete(4, start=-1))])
    assert [[6, 2]] == counts.setpoints(np.array([[1, 3]])).tolist()
    assert [[1, 3]] == counts.actions(np.array([[6, 2]])).tolist()


@pytest.mark.parametrize(
    ("actuators", "message"),
    [
        ([], "at least one actuator"),
        ([("e.a", Box(0.0, np.inf, ()))], "actuator e.a: sb3 needs finite bounds"),
        ([("e.a", Box(0.0, 1.0, ())), ("e.b", Discrete(2))], "all Box or all Discrete, found e.a Box, e.b Discrete"),
        ([("e.a", Dict({"x": Discrete(2)}))], "actuator e.a: sb3 takes Box"),
    ],
)
def test_actions_that_nothing_chooses_from_are_refused(actuators, message) -> None:
    """The message names the actuator."""
    with pytest.raises(ValueError, match=message):
        Actions(actuators)


def test_an_agent_must_see_something() -> None:
    """Without sensors, or with composite ones, there is nothing to learn from."""
    with pytest.raises(ValueError, match="at least one sensor"):
        Observations([], False)
    with pytest.raises(ValueError, match=r"sensor e\.s: sb3 takes Box"):
        Observations([("e.s", Dict({"x": Discrete(2)}))], True)


def test_what_no_actuator_takes_is_named() -> None:
    """Of choices a whole number from the first to the last, of a Box one within its bounds; else row and column."""
    several = Actions([("e.a", Discrete(3, start=5)), ("e.b", Discrete(2))])
    several.check(np.array([[5, 0], [7.0, 1.0]]))
    boxes = Actions([("e.a", Box(-0.1, 0.3, (2,), np.float32))])
    boxes.check(np.array([[-0.1, 0.3]], dtype=np.float32))
    for actions, row, told in (
        (several, [8, 0], r"the action 8 \(column 0\), expected a whole number in \[5, 7\]"),
        (several, [5, 0.5], r"the action 0\.5 \(column 1\), expected a whole number in \[0, 1\]"),
        (boxes, [0.0, 0.31], r"the action 0\.31 \(column 1\), expected a number in \[-0\.1, 0\.3\]"),
        (boxes, [np.nan, 0.0], r"the action nan \(column 0\)"),
        (Actions([("e.a", MultiBinary((2, 2)))]), [0, 1, 2, 0], r"the action 2 \(column 2\)"),
        (Actions([("e.a", MultiDiscrete([2, 3], start=[1, -1]))]), [0, 0], r"\(column 0\), .* in \[1, 2\]"),
    ):
        with pytest.raises(ValueError, match=told):
            actions.check(np.array([row]))
