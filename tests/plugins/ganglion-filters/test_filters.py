"""Filters in stacks, driven as a muscle's process does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk import (
    ActuatorInformation,
    AuthorError,
    Box,
    Dict,
    Discrete,
    Filter,
    Mask,
    MultiBinary,
    MultiDiscrete,
    Ragged,
    SensorInformation,
    Space,
    Tuple,
)
from ganglion_filters.column import flat
from ganglion_filters.delta_action import DeltaAction
from ganglion_filters.delta_obs import DeltaObs
from ganglion_filters.delta_step import DeltaStep
from ganglion_filters.merge_steps import MergeSteps
from ganglion_filters.moments import Moments
from ganglion_filters.norm import Norm


class Chain:
    """Let readings go through filters in their order, and setpoints in reverse."""

    def __init__(self, filters: Sequence[Filter], sensors: list[Any], actuators: list[Any]) -> None:
        self.filters = list(filters)
        self.outer = (sensors, actuators)
        for one in self.filters:
            one.setup()
        for one in self.filters:
            one.given = sensors, actuators
            one.shown = sensors, actuators = one.declare(sensors, actuators)
        self.sensors, self.actuators = sensors, actuators
        self.reset()

    def reset(self) -> None:
        for one in self.filters:
            one.reset()

    def see(self, **values: Any) -> dict[str, Any]:
        readings = [SensorInformation(values[it.uid], it.space, it.uid) for it in self.outer[0]]
        available = [ActuatorInformation(None, it.space, it.uid) for it in self.outer[1]]
        for one in self.filters:
            readings, available = one.muscle_pre_process(readings, available)
        assert [it.uid for it in self.sensors] == [it.uid for it in readings]
        for declared, it in zip(self.sensors, readings, strict=True):
            assert declared.space == it.space
        return {it.uid: it.value for it in readings}

    def set(self, data: Any = None, **values: Any) -> tuple[dict[str, Any], Any]:
        setpoints = [ActuatorInformation(values[it.uid], it.space, it.uid) for it in self.actuators]
        for one in reversed(self.filters):
            setpoints, data = one.muscle_post_process(setpoints, data)
        assert [it.space for it in self.outer[1]] == [it.space for it in setpoints]
        return {it.uid: it.value for it in setpoints}, data

    def spaces(self) -> dict[str, str]:
        return {it.uid: it.space.to_string() for it in self.sensors}


@pytest.fixture
def chain() -> Callable[..., Chain]:
    """Return a function that stacks filters over sensors and actuators, given by id."""

    def make(filters: Any, sensors: Any = None, actuators: Any = None) -> Chain:
        stack = filters if isinstance(filters, list) else [filters]
        return Chain(
            stack,
            [SensorInformation(None, space, uid) for uid, space in (sensors or {}).items()],
            [ActuatorInformation(value, space, uid) for uid, (space, value) in (actuators or {}).items()],
        )

    return make


SPACES = [
    Box(-1.0, 2.0, ()),
    Box([0.0, -np.inf], [1.0, 5.0], (2,), np.float32),
    Discrete(4, start=-2),
    MultiDiscrete([[2, 3]], start=[[1, 0]]),
    MultiBinary((2, 2)),
    Mask(3, of="a"),
    Ragged(Box(-1.0, 2.0, (3, 2), np.float32)),
    Tuple([Discrete(3), Box(0.0, 1.0, (2,))]),
    Dict({"b": Discrete(2), "a": Box(-5.0, -4.0, ())}),
]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.kind)
@given(seed=st.integers(0, 1000))
def test_columns_lie_within_their_bounds(space: Space, seed: int) -> None:
    """Whatever a space holds, its columns are floats between their bounds, as many as its vector has."""
    low, high = space.column_bounds()
    columns = flat(SensorInformation(space.sample(np.random.default_rng(seed)), space, "a"))

    assert (space.size,) == columns.shape == low.shape == high.shape
    assert np.float64 == columns.dtype
    assert bool((low <= columns).all() and (columns <= high).all())


def test_bounds_of_a_dict_are_in_the_order_of_its_vector() -> None:
    """Parts come by sorted names."""
    assert ([-5.0, 0.0], [-4.0, 1.0]) == tuple(bound.tolist() for bound in SPACES[-1].column_bounds())


def test_a_tuple_has_no_sum(chain: Callable[..., Any]) -> None:
    """It is refused when it is declared."""
    space = Tuple([Discrete(2)])
    with pytest.raises(AuthorError, match="actuator x: expected numbers"):
        chain(DeltaAction(), {}, {"x": (space, (0,))})


UNIT, TEN = Box(-1.0, 3.0, ()), Discrete(10)


def test_changes_stand_behind_the_readings(chain: Callable[..., Any]) -> None:
    """Without `replace` they follow all of them; only those that are named have one."""
    made = chain(DeltaObs(["b"], replace=False), {"a": UNIT, "b": TEN})
    made.see(a=0.0, b=1)

    assert {"a": 0.0, "b": 3, "DELTA-b": 2.0} == made.see(a=0.0, b=3)


def test_an_unknown_sensor_is_refused(chain: Callable[..., Any]) -> None:
    """Its id is named."""
    with pytest.raises(AuthorError, match="there is no sensor 'c'"):
        chain(DeltaObs(["c"]), {"a": UNIT})
    with pytest.raises(ValueError, match="expected a list of ids"):
        DeltaObs("a")


RANGE = Box(0.0, 10.0, ())


def test_relative_steps(chain: Callable[..., Any]) -> None:
    """P becomes clip(p + p a), from the no-op on; 0 is never left. What is no box stays as it is."""
    made = chain(DeltaStep(), {}, {"x": (RANGE, 4.0), "n": (Discrete(3), 0)})

    assert [Box(-1.0, 1.0, ()), Discrete(3)] == [it.space for it in made.actuators]
    assert 0.0 == made.actuators[0].value
    assert [(6.0, 1), (10.0, 2), (5.0, 0), (0.0, 0), (0.0, 0)] == [
        tuple(made.set(x=a, n=n)[0].values()) for a, n in ((0.5, 1), (1.0, 2), (-0.5, 0), (-1.0, 0), (1.0, 0))
    ]
    made.reset()
    assert 4.0 == made.set(x=0.0, n=0)[0]["x"]


def test_steps_of_the_range(chain: Callable[..., Any]) -> None:
    """P becomes clip(p + a (high - low) / 2); arrays keep their dtype."""
    space = Box([0.0, -1.0], [10.0, 1.0], (2,), np.float32)
    made = chain(DeltaStep("range"), {}, {"x": (space, [0.0, 0.0])})

    assert (np.float32, (2,)) == (made.actuators[0].space.dtype, made.actuators[0].space.shape)
    assert [[2.5, 0.5], [7.5, 1.0]] == [made.set(x=a)[0]["x"].tolist() for a in ([0.5, 0.5], [1.0, 1.0])]


def test_the_range_needs_bounds(chain: Callable[..., Any]) -> None:
    """Without them, and with another scale, it is refused."""
    with pytest.raises(AuthorError, match="actuator x: expected bounds"):
        chain(DeltaStep("range"), {}, {"x": (Box(0.0, np.inf, ()), 0.0)})
    with pytest.raises(ValueError, match="scale: expected one of relative, range"):
        DeltaStep("absolute")


HUNDRED, ONE = Discrete(100), Box(0.0, 1.0, ())


@pytest.mark.parametrize("steps", [0, 1.5, True, "3"])
def test_steps_are_a_positive_integer(steps: Any) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="steps: expected an integer >= 1"):
        MergeSteps(steps)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40), st.integers(1, 7))
def test_batches_do_not_matter(numbers: list[float], size: int) -> None:
    """Merged in whatever batches, mean and variance are those of all merged rows."""
    moments = Moments(1, size)
    for number in numbers:
        moments.add(np.array([number]))
    merged = numbers[: moments.count]

    assert len(numbers) - len(numbers) % size == moments.count
    if merged:
        assert np.mean(merged) == pytest.approx(moments.mean[0], abs=1e-9)
        assert np.var(merged) == pytest.approx(moments.variance[0], rel=1e-9, abs=1e-6)


def test_moments_of_other_columns_are_refused() -> None:
    """What was kept for two sensors does not fit one."""
    with pytest.raises(AuthorError, match="expected moments of 1 columns, found 2"):
        Moments(1, 2).load(Moments(2, 2).arrays())


SENSORS = {"a": Box(-100.0, 100.0, ()), "b": Discrete(9)}


def brain_half(**params: Any) -> Norm:
    """Return a brain's half."""
    made = Norm(**params)
    made.declare([SensorInformation(None, space, uid) for uid, space in SENSORS.items()], [])
    return made


def test_the_brain_publishes_what_the_muscles_apply(chain: Callable[..., Any]) -> None:
    """Two rows of all muscles make a batch: a 1, 3 (mean 2, variance 1), b 0, 8 (mean 4, variance 16)."""
    muscle, brain = chain(Norm(epsilon=1e-30, batch_size=2), SENSORS), brain_half(batch_size=2)
    data = []
    for worker, (a, b) in enumerate([(1.0, 0), (3.0, 8)]):
        muscle.see(a=a, b=b)
        data.append(brain.brain_pre_process(f"x/{worker}", muscle.set(data={"n": worker})[1]))
        assert worker + 1.0 == brain.brain_objective(f"x/{worker}", worker + 1.0)
        published = brain.publish()
        assert (published is None) == (worker == 0)

    assert ([{"n": 0}, {"n": 1}], None) == (data, brain.publish())
    assert published is not None
    muscle.filters[0].receive(published)
    assert {"a": 3.0, "b": 1.0} == muscle.see(a=5.0, b=8)


def test_objectives_are_normalised_from_a_row_on() -> None:
    """Rows before it are as they are; None stays None and is a row; the bound is that of objectives."""
    made = brain_half(batch_size=2, norm_objective_after=3, epsilon=1e-30, clip_reward=2.0)
    found = [made.brain_objective("x/0", o) for o in (1.0, 3.0, None, 5.0, 4.0, 100.0)]

    # (1, 3): mean 2, variance 1 for 5; then (1, 3, 5, 4): mean 3.25, variance 35/16
    assert [1.0, 3.0, None, 2.0] == found[:4]
    assert found[4:] == [pytest.approx(0.75 / np.sqrt(35 / 16)), 2.0]


def test_infinity_has_a_place_but_no_mean() -> None:
    """It is clipped as others are, and does not count: what comes after is as without it."""
    made = brain_half(batch_size=2, norm_objective_after=0, epsilon=1e-30, clip_reward=2.0)
    found = [made.brain_objective("x/0", o) for o in (np.inf, 1.0, -np.inf, 3.0, 2.0)]

    assert [2.0, 1.0, -2.0, 1.0, 0.0] == found


@pytest.mark.parametrize(
    "params", [{"clip_obs": 0}, {"epsilon": -1.0}, {"batch_size": 0}, {"norm_objective_after": -1}]
)
def test_params_have_bounds(params: dict[str, Any]) -> None:
    """What is out of them is named."""
    with pytest.raises(ValueError, match=next(iter(params))):
        Norm(**params)
