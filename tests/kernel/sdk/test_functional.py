from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError
from ganglion.sdk import Box, Discrete, FunctionalEnvironment, MultiBinary, MultiDiscrete
from ganglion.testing import StagedEnvironment


class Echo(FunctionalEnvironment):
    """Keep what it was declared with, and return what it is told to."""

    results: Any = ((), ())

    def get_action_results(self, last_states: Any, actions: Any, **kwargs: Any) -> Any:
        return self.results


ONE = ((3, 4), {"state_0": (3, 4)}, False)  # one tuple is one item: a matrix
TWO = ([(3,), ()], {"state_0": (3,), "state_1": ()}, False)
NAMED = ({"b": (), "a": [2, 2]}, {"b": (), "a": (2, 2)}, True)


@pytest.mark.parametrize(("shapes", "found", "named"), [ONE, TWO, NAMED, ((), {"state_0": ()}, False)])
def test_shapes_name_their_items(shapes: Any, found: dict[str, Any], named: bool) -> None:
    """A tuple is one item, a list has items by number, a map by name; they come and go in declared order."""
    world = Echo(shapes, [()], [()])
    zeros = world.initial_states(2, np.random.default_rng(1))

    assert (found, list(found)) == (world.state_items.shapes, list(world.state_items.shapes))
    assert (dict if named else list) is type(zeros)
    assert [(2, *shape) for shape in found.values()] == [it.shape for it in (zeros.values() if named else zeros)]


def test_dtypes_are_those_of_the_contract() -> None:
    """States and observations are float32, actions int32; one dtype is for all, or there is one per item."""
    plain = Echo([()], {"x": ()}, [(), ()])
    given = Echo([(), ()], [()], {"u": (), "v": ()}, "float64", [np.int16], {"v": "bool", "u": "int64"})
    kinds = ("state_items", "observation_items", "action_items")

    assert [["float32"], ["float32"], ["int32"] * 2] == [
        [it.name for it in getattr(plain, kind).dtypes.values()] for kind in kinds
    ]
    assert [["float64"] * 2, ["int16"], ["int64", "bool"]] == [
        [it.name for it in getattr(given, kind).dtypes.values()] for kind in kinds
    ]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (([4], [()], [()]), "state 'state_0': expected a tuple of sizes as its shape, found 4"),
        (([()], {"x": (-1,)}, [()]), "observation 'x': expected a tuple of sizes as its shape, found (-1,)"),
        (([], [()], [()]), "state_shapes: expected at least one state, found none"),
        (
            ([(), ()], [()], [()], ["int8"]),
            "state_dtypes: expected one for all, or one for each of state_0, state_1, found ['int8']",
        ),
    ],
)
def test_declarations_that_mean_nothing_are_refused(given: Any, text: str) -> None:
    """The constructor names the item, what it expected and what it found."""
    with pytest.raises(ValueError, match="expected") as caught:
        Echo(*given)

    assert text == str(caught.value)


def test_actuators_have_bounds() -> None:
    """Integers within bounds are choices; without bounds those of the dtype hold."""
    shapes = {"push": (), "gear": (), "switches": (2,), "lamp": (), "lamps": (3,), "free": (), "up": ()}
    world = Echo([()], [()], shapes, action_dtypes=["f4", "i4", "i4", "?", "?", "i1", "i2"])
    world.action_bounds = {"push": (-2, 2), "gear": (1, 5), "switches": ([0, 1], [1, 3]), "up": (0, np.inf)}

    assert {
        "push": Box(-2, 2, (), np.float32),
        "gear": Discrete(5, start=1),
        "switches": MultiDiscrete([2, 3], [0, 1]),
        "lamp": Discrete(2),
        "lamps": MultiBinary(3),
        "free": Box(-128, 127, (), np.int8),
        "up": Box(0, 2**15 - 1, (), np.int16),
    } == world.action_items.spaces(world.action_bounds)
    with pytest.raises(AuthorError, match=r"expected actions of push, gear, .*, found 'brake'"):
        world.action_items.spaces({"brake": (0, 1)})


class Counter(FunctionalEnvironment):
    """Add what it is told; end at ten."""

    action_bounds = (0, 3)

    def __init__(self) -> None:
        super().__init__((), {"sum": ()}, {"add": ()}, "int64", "int64")

    def get_first_observations(self, states: Any) -> Any:
        return states

    def get_action_results(self, last_states: Any, actions: Any, **kwargs: Any) -> Any:
        new = last_states[0] + actions["add"]
        return new, [new]  # one item may be bare

    def get_reward(self, last_states: Any, actions: Any, new_states: Any, observations: Any) -> Any:
        return observations["sum"]

    def get_whether_alive(self, observations: Any) -> Any:
        return observations["sum"] < 10


def test_one_body_plays_an_ordinary_episode() -> None:
    """Sensors, actuators with their no-ops and the reward `reward` are declared; what is not alive has terminated."""
    staged = StagedEnvironment(Counter)
    declared = staged.start()
    answers = [staged.update(setpoints) for setpoints in ([3], [3], [3])]
    answers.append(staged.update([], []))  # not set: the no-op, 0
    answers.append(staged.update([1]))

    assert ["sum"] == [it["id"] for it in declared.sensors]
    assert [("add", 0)] == [(it["id"], it["value"]) for it in declared.actuators]
    assert [(9, False), (9, False), (10, True)] == [
        (int(np.frombuffer(it.readings[0], np.int64)[0]), it.terminated) for it in answers[2:]
    ]


def counter(**methods: Any) -> type[Counter]:
    """Return the counter with other methods, which take no self."""
    return type("Other", (Counter,), {name: staticmethod(method) for name, method in methods.items()})


def play(cls: type[Counter]) -> None:
    """Begin an episode and make a step."""
    staged = StagedEnvironment(cls)
    staged.start()
    staged.update([1])


WRONG: dict[str, Any] = {
    "initial_states: state 'state_0': expected int64 (1,), found float64 (1,)": {
        "initial_states": lambda batch, rng: np.zeros(batch)
    },
    "get_first_observations: expected the observations sum, found total": {
        "get_first_observations": lambda states: {"total": states[0]}
    },
    "get_action_results: expected (new_states, observations), found list": {
        "get_action_results": lambda last, actions: [last, last]
    },
    "get_action_results: state 'state_0': expected int64 (1,), found int64 (2,)": {
        "get_action_results": lambda last, actions: (np.zeros(2, np.int64), last)
    },
    "get_reward: expected numbers (1,), found float": {"get_reward": lambda *given: 1.0},
    "get_whether_alive: expected bool (1,), found int64 (1,)": {"get_whether_alive": lambda seen: seen["sum"]},
}


@pytest.mark.parametrize("text", WRONG)
def test_what_was_not_declared_is_refused(text: str) -> None:
    """The method is named, with what it was to return and what it returned."""
    with pytest.raises(AuthorError) as caught:
        play(counter(**WRONG[text]))

    assert text in str(caught.value)


def test_states_given_cannot_be_changed() -> None:
    """What a method gets is read-only."""

    def change(last: Any, actions: Any) -> Any:
        last[0][:] += 1
        return last, last

    with pytest.raises(AuthorError, match="read-only"):
        play(counter(get_action_results=change))
