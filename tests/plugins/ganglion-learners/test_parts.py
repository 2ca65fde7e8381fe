"""Parts of learners: parameters, choices, ranges, memories, networks."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import make_dataclass
from typing import Any

import numpy as np
import pytest

from ganglion.sdk import ActuatorInformation, Box, Discrete, MultiBinary, MultiDiscrete
from ganglion_learners.backend import load_torch
from ganglion_learners.choice import Choices
from ganglion_learners.dqn.brain import DqnBrain
from ganglion_learners.parameter import Config, Count, Finite, Fraction, Pair, Positive, Share, Weight, Whole
from ganglion_learners.perceptron import Perceptron, fan_in_layers, orthogonal_layers
from ganglion_learners.ppo.brain import PpoBrain
from ganglion_learners.ranges import Ranges
from ganglion_learners.replay import Replay
from ganglion_learners.sac.brain import SacBrain
from ganglion_learners.sarsa.brain import SarsaBrain

LIMITS: dict[Any, str] = {  # a value that is out of its range, and what was expected instead
    0: "a whole number >= 1, found 0",
    1: "a whole number >= 2, found 1",
    -1: "a whole number >= 0",
    -7.0: "a finite number above 0",
    1.1: r"a number in \[0, 1\]",
    -0.1: "a finite number >= 0",
    "sine": "tanh or relu",
    float("inf"): "a finite number",
}
RANGES: dict[Any, dict[str, Any]] = {
    DqnBrain: {
        "activation": "sine", "replay": 0, "train_every": 0, "gradient_steps": 0, "learning_rate": -7.0, "minibatch": 0,
        "learning_rate_least": -7.0, "learning_rate_decisions": 0, "discount": 1.1, "target_every": 0,
        "exploration": 1.1, "exploration_least": 1.1, "exploration_decisions": 0, "gradient_norm": -7.0,
        "update_every": 0, "pretrain_steps": -1, "pretrain_caution": -0.1, "warm_up": 0,
    },
    PpoBrain: {
        "activation": "sine", "rollout": 1, "minibatch": 1, "epochs": 0, "learning_rate": -7.0, "discount": 1.1,
        "trace_decay": 1.1, "clip": -7.0, "entropy_weight": -0.1, "value_weight": -7.0, "gradient_norm": -7.0,
        "anneal_decisions": 0, "pretrain_epochs": 0,
    },
    SacBrain: {
        "activation": "sine", "replay": 0, "warm_up": 0, "minibatch": 0, "train_every": 0, "gradient_steps": 0,
        "learning_rate": -7.0, "discount": 1.1, "temperature": -7.0, "entropy_target": float("inf"), "update_every": 0,
        "pretrain_steps": -1, "pretrain_caution": -0.1,
    },
    SarsaBrain: {
        "order": 0, "step_size": -7.0, "discount": 1.1, "trace_decay": 1.1, "exploration": 1.1,
        "exploration_decay": 1.1, "exploration_least": 1.1, "unbounded": -7.0, "send_every": 0,
    },
}  # fmt: skip
OTHERS = [
    (DqnBrain, {"hidden": [0]}, "hidden: expected"),
    (PpoBrain, {"hidden": 64}, "hidden: expected"),
    (SacBrain, {"hidden": [True]}, "hidden: expected"),
    (DqnBrain, {"target_share": 0.0}, "target_share: expected"),
    (SacBrain, {"target_share": 1.5}, "target_share: expected"),
    (DqnBrain, {"warm_up": 60_000}, "warm_up: expected at most replay, 10000, found 60000"),
    (SacBrain, {"warm_up": 200_000}, "warm_up: expected at most replay, 100000, found 200000"),
    (SacBrain, {"entropy_target": "auto"}, "entropy_target: expected a finite number"),
    (SarsaBrain, {"discount": 1.0}, "initial_value: expected a number given where discount is 1"),
]
REFUSED = [(cls, {k: v}, f"{k}: expected {LIMITS[v]}") for cls, row in RANGES.items() for k, v in row.items()] + OTHERS


@pytest.mark.usefixtures("halves")
@pytest.mark.parametrize(("cls", "params", "told"), REFUSED)
def test_refuses_what_is_out_of_range(make, cls, params, told) -> None:
    """Each parameter has its range, and the message names parameter and value."""
    with pytest.raises(ValueError, match=told):
        make(cls, **params)


@pytest.mark.usefixtures("halves")
def test_rates_fall_linearly_to_their_least(make) -> None:
    """Rates of DQN go from the first value to the least, and stay there; those of PPO to nothing, if so asked."""
    given = {"exploration": 0.8, "exploration_least": 0.2, "exploration_decisions": 10}
    rates = {"learning_rate": 0.3, "learning_rate_least": 0.1, "learning_rate_decisions": 4}
    config = make(DqnBrain, **given, **rates).config
    annealed = make(PpoBrain, anneal_decisions=100).config

    assert [0.8, 0.5, 0.2, 0.2] == pytest.approx([config.exploration_at(n) for n in (0, 5, 10, 99)])
    assert [0.3, 0.2, 0.1, 0.1] == pytest.approx([config.rate_at(n) for n in (0, 2, 4, 99)])
    assert [1.0, 0.5, 0.0, 0.0] == [annealed.share_left(n) for n in (0, 50, 100, 200)]
    assert 1.0 == make(PpoBrain).config.share_left(10**9)


def test_a_discount_of_one_needs_a_first_value(make) -> None:
    """With a first value given, a discount of 1 is possible."""
    assert 7.0 == make(SarsaBrain, discount=1.0, initial_value=7.0).config.first_value


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (Count, [0, 7], [-1, 1.0, True, None]),
        (Whole, [1, 7], [0, -1, 1.0, True, None]),
        (Pair, [2, 7], [1, 2.0]),
        (Whole | None, [1, None], [0, 1.0]),
        (Finite, [-1, 0.5], [math.inf, math.nan, "1", True, None]),
        (Positive, [0.1, 3], [0, -1.0, math.inf, math.nan, "1", True]),
        (Weight, [0, 0.0, 7.5], [-0.1, math.inf, math.nan, "1", True, None]),
        (Fraction, [0, 0.5, 1.0], [-0.1, 1.1, math.nan, None]),
        (Share, [0.5, 1.0], [0.0, 1.1, math.nan, None]),
    ],
)
def test_ranges(hint, good, bad) -> None:
    """What lies in the range passes; anything else is refused by the parameter's name and value."""
    config = make_dataclass("Own", [("it", hint)], bases=(Config,))
    for value in good:
        config(value)
    for value in bad:
        with pytest.raises(ValueError, match=r"it: expected .* found"):
            config(value)


def _actuators(*spaces):
    return [ActuatorInformation(None, space, f"e.{i}") for i, space in enumerate(spaces)]


def test_combinations_and_columns_are_each_others_inverse() -> None:
    """Every combination has columns of its own, which lie in the spaces."""
    space = MultiDiscrete([2, 3], start=[5, -1])
    choices = Choices(_actuators(space))
    columns = choices.split(np.arange(6))

    assert [0, 1, 2, 3, 4, 5] == choices.join(columns).tolist()
    assert [[5, -1], [5, 0], [5, 1], [6, -1], [6, 0], [6, 1]] == columns.tolist()
    assert all(space.contains(row) for row in columns)


def test_what_is_no_choice_is_named() -> None:
    """Each column is a whole number between its first and last choice; another one is named with row and column."""
    choices = Choices(_actuators(Discrete(3, start=-1), MultiBinary(1)))
    choices.check(np.array([[-1, 0], [1.0, 1.0]]))
    for bad, told in (
        ([2, 0], r"decision 1 has the action 2 \(column 0\), expected a whole number in \[-1, 1\]"),
        ([0.5, 0], r"the action 0\.5 \(column 0\)"),
        ([0, np.nan], r"the action nan \(column 1\), expected a whole number in \[0, 1\]"),
    ):
        with pytest.raises(ValueError, match=told):
            choices.check(np.array([[0, 0], bad]))


def test_scales_where_both_bounds_are() -> None:
    """-1 is low and 1 is high; without a bound a number stays, and is clipped at the bound that there is."""
    ranges = Ranges(_actuators(Box(2.0, 6.0, (2,)), Box(0.0, np.inf, ())))
    found = ranges.scale(np.array([[-1.0, 0.5, 3.0], [9.0, -9.0, -1.0]]))

    assert [[2.0, 5.0, 3.0], [6.0, 2.0, 0.0]] == found.tolist()
    assert [[-1.0, 0.5, 3.0]] == ranges.unscale(found[:1]).tolist()
    assert 3 == len(ranges)


def test_setpoints_lie_in_narrow_spaces_too() -> None:
    """Whatever a network says, the space contains the setpoint, in float32 and where low equals high."""
    spaces = [Box(0.1, 0.3, (), np.float32), Box(0.7, 0.7, ())]
    ranges = Ranges(_actuators(*spaces))
    for unit in np.random.default_rng(1).normal(scale=3.0, size=(50, 1, 2)).astype(np.float32):
        for space, value in zip(spaces, ranges.scale(unit)[0], strict=True):
            assert space.contains(space.from_vector([value]))


def test_what_leaves_its_bounds_is_named() -> None:
    """A number beyond a bound, and one that is none, are named with row and column; bounds themselves are inside."""
    ranges = Ranges(_actuators(Box(0.1, 0.3, (), np.float32), Box(0.0, np.inf, ())))
    ranges.check(np.array([[0.1, 0.0], [0.3, 9.0]], dtype=np.float32))
    for bad, told in (
        ([0.31, 0.0], r"decision 0 has the action 0\.31 \(column 0\), expected a number in \[0\.1, 0\.3\]"),
        ([0.2, -1.0], r"the action -1 \(column 1\), expected a number in \[0, inf\]"),
        ([0.2, np.nan], r"the action nan \(column 1\)"),
        ([0.2, np.inf], r"the action inf \(column 1\)"),
    ):
        with pytest.raises(ValueError, match=told):
            ranges.check(np.array([bad]))


def _filled(count: int, capacity: int = 4) -> Replay:
    replay = Replay(capacity, 2)
    for i in range(1, count + 1):
        replay.append(np.array([i, -i]))
    return replay


def test_the_oldest_make_room() -> None:
    """It holds the newest rows, and draws from these only."""
    drawn = _filled(6).sample(200, np.random.default_rng(1))

    assert {3.0, 4.0, 5.0, 6.0} == set(drawn[:, 0].tolist())
    np.testing.assert_array_equal(drawn[:, 0], -drawn[:, 1])
    assert 4 == len(_filled(6))


def test_draws_only_what_is_there() -> None:
    """While it fills, rows that do not exist yet are not drawn; equal generators draw equally."""
    draws = [_filled(2).sample(50, np.random.default_rng(1)) for _ in range(2)]

    assert {1.0, 2.0} == set(draws[0][:, 0].tolist())
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize("before", [0, 3, 4, 5])
@pytest.mark.parametrize("many", [0, 1, 3, 4, 9, 10])
def test_many_at_once_are_as_one_by_one(before, many) -> None:
    """Rows that come together lie where they would lie one after the other, also if they are more than it holds."""
    one, two = _filled(before), _filled(before)
    rows = np.arange(2.0 * many).reshape(many, 2) + 100
    one.extend(rows)
    for row in rows:
        two.append(row)

    assert len(one) == len(two)
    for name, array in one.arrays().items():
        np.testing.assert_array_equal(array, two.arrays()[name])


@pytest.mark.parametrize(("capacity", "width"), [(3, 2), (4, 3)])
def test_another_shape_is_refused(capacity, width) -> None:
    """Rows of another width, or more than it holds, are refused."""
    with pytest.raises(ValueError, match="replay: expected at most"):
        Replay(capacity, width).load(_filled(4).arrays())


def _layers(sizes=(3, 8, 2), seed=1):
    return fan_in_layers(np.random.default_rng(seed), "n", sizes)


def test_computes_layers_by_hand() -> None:
    """Linear, activation, linear."""
    arrays = {
        "n.0.weight": np.array([[1.0, -1.0]], dtype=np.float32),
        "n.0.bias": np.array([0.0, 0.5], dtype=np.float32),
        "n.1.weight": np.array([[2.0], [3.0]], dtype=np.float32),
        "n.1.bias": np.array([1.0], dtype=np.float32),
    }
    rows = np.array([[2.0], [-1.0]], dtype=np.float32)

    assert [[5.0], [5.5]] == Perceptron("n", arrays, 1, 1, "relu")(rows).tolist()
    x = np.tanh(np.array([[2.0, -1.5], [-1.0, 1.5]], dtype=np.float32)) @ arrays["n.1.weight"] + 1.0
    np.testing.assert_allclose(Perceptron("n", arrays, 1, 1, "tanh")(rows), x, rtol=1e-6)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("sizes", [(3, 2), (3, 64, 64, 2), (3, 256, 7)])
def test_a_row_has_the_same_bits_in_any_company(activation, sizes) -> None:
    """What one row gives does not depend on how many are computed with it."""
    network = Perceptron("n", _layers(sizes), sizes[0], sizes[-1], activation)
    rows = np.random.default_rng(2).normal(size=(33, sizes[0])).astype(np.float32)
    alone = np.concatenate([network(rows[i : i + 1]) for i in range(len(rows))])

    assert alone.tobytes() == network(rows).tobytes()


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_agrees_with_torch(activation) -> None:
    """Brain and muscle compute the same network, up to rounding of float32."""
    torch = pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")
    from ganglion_learners.tensors import Parameters

    arrays = _layers((5, 64, 64, 3))
    rows = np.random.default_rng(2).normal(size=(200, 5)).astype(np.float32)
    theirs = Parameters(arrays).forward("n", torch.from_numpy(rows), activation).detach().numpy()

    np.testing.assert_allclose(Perceptron("n", arrays, 5, 3, activation)(rows), theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n.0.weight": None}, r"n\.0\.weight: expected float32 \(3, any\), found NoneType"),
        (
            {"n.0.weight": np.zeros((4, 8), np.float32)},
            r"n\.0\.weight: expected float32 \(3, any\), found float32 \(4, 8\)",
        ),
        ({"n.1.weight": np.zeros((8, 3), np.float32)}, r"n\.1\.weight: expected float32 \(any, 2\)|\(8, 2\)"),
        ({"n.1.bias": np.zeros(2)}, r"n\.1\.bias: expected float32 \(2\), found float64"),
        ({"n.0.bias": np.full(8, np.nan, np.float32)}, r"n\.0\.bias: expected finite numbers"),
    ],
)
def test_arrays_that_do_not_fit_are_named(change, told) -> None:
    """Of a network of other columns, another dtype or with NaN the array at fault is named."""
    with pytest.raises(ValueError, match=told):
        Perceptron("n", {**_layers(), **change}, 3, 2, "tanh")
    with pytest.raises(ValueError, match=r"expected arrays m\.0\.weight and on, found n\.0\.weight"):
        Perceptron("m", _layers(), 3, 2, "tanh")
    with pytest.raises(ValueError, match="activation: expected tanh or relu"):
        Perceptron("n", _layers(), 3, 2, "sine")


def test_orthogonal_layers_are_orthogonal() -> None:
    """Rows or columns, whichever are fewer, are orthogonal with the length of the gain; biases are zero."""
    arrays = orthogonal_layers(np.random.default_rng(1), "n", [3, 8, 2], 2.0, 0.01)

    np.testing.assert_allclose(arrays["n.0.weight"] @ arrays["n.0.weight"].T, 4.0 * np.eye(3), atol=1e-5)
    np.testing.assert_allclose(arrays["n.1.weight"].T @ arrays["n.1.weight"], 1e-4 * np.eye(2), atol=1e-9)
    assert not arrays["n.0.bias"].any()


BLOCKED = """
import sys
sys.modules["torch"] = None  # as if it were not installed
from ganglion_learners.sarsa.brain import SarsaBrain
from ganglion_learners.ppo.muscle import PpoMuscle
from ganglion_learners.LEARNER.brain import BRAIN
SarsaBrain()
try:
    BRAIN()
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize(("learner", "brain"), [("dqn", "DqnBrain"), ("ppo", "PpoBrain"), ("sac", "SacBrain")])
def test_without_torch_it_says_what_to_install(learner, brain) -> None:
    """Without torch sarsa and all muscles are there; a brain that needs it says by what it gets there."""
    program = BLOCKED.replace("LEARNER", learner).replace("BRAIN", brain)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    told = f"{learner} needs torch, which is not installed: pip install 'ganglion-learners[torch]'\n"
    assert (0, told) == (done.returncode, done.stdout), done.stderr


def test_torch_is_set_to_equal_bits() -> None:
    """One thread, and no algorithm that rounds differently from run to run."""
    torch = pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")
    load_torch("ppo")

    assert 1 == torch.get_num_threads()
    assert torch.are_deterministic_algorithms_enabled()


def test_muscles_and_listing_import_no_torch() -> None:
    """A muscle's process never imports torch, nor does anybody who only looks at a brain's class."""
    modules = ("actor", "dqn.muscle", "ppo.muscle", "sac.muscle", "dqn.brain", "ppo.brain", "sac.brain")
    program = f"import sys, {', '.join(f'ganglion_learners.{it}' for it in modules)}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert "False\n" == done.stdout, done.stderr
