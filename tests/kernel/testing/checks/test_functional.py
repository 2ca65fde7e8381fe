from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import ContractBroken
from ganglion.sdk import FunctionalEnvironment
from ganglion.testing import check_environment, check_functional


class Right(FunctionalEnvironment):
    """A world that keeps the contract."""

    action_bounds = (-1.0, 1.0)

    def __init__(self) -> None:
        super().__init__({"place": (2,)}, [(2,)], (), action_dtypes=np.float32)

    def initial_states(self, batch: int, rng: np.random.Generator) -> Any:
        return rng.uniform(-1, 1, (batch, 2)).astype(np.float32)

    def get_first_observations(self, states: Any) -> Any:
        return [states["place"]]

    def get_action_results(self, last_states: Any, actions: Any, **kwargs: Any) -> Any:
        place = last_states["place"] + actions[0][:, None]
        return {"place": place}, [place]

    def get_reward(self, last_states: Any, actions: Any, new_states: Any, observations: Any) -> Any:
        return actions[0]

    def get_whether_alive(self, observations: Any) -> Any:
        return np.abs(observations[0]).max(axis=1) < 2


def test_world_that_keeps_the_contract_passes() -> None:
    """Also where bodies end, and in an ordinary episode."""
    check_functional(Right)
    check_functional(Right, seed=3, bodies=2, steps=50)
    check_environment(Right)


def _changes(self: Any, last: Any, actions: Any) -> Any:
    last["place"] += 1
    return Right.get_action_results(self, last, actions)


def _counts(self: Any, last: Any, actions: Any) -> Any:
    self.calls = vars(self).get("calls", 0) + 1
    place = last["place"] + np.float32(self.calls)
    return {"place": place}, [place]


def _mixes(self: Any, last: Any, actions: Any, new: Any, seen: Any) -> Any:
    return actions[0] - actions[0].mean()


def _draws(self: Any, batch: int, rng: Any) -> Any:
    return np.random.default_rng().uniform(-1, 1, (batch, 2)).astype(np.float32)


def _widens(self: Any, last: Any, actions: Any) -> Any:
    place = last["place"].astype(np.float64)
    return {"place": place}, [place]


BROKEN = {
    "`get_action_results` leaves what it is given as it is: found another place": {"get_action_results": _changes},
    "`get_action_results` returns the same for the same, bit for bit": {"get_action_results": _counts},
    "`get_reward`: a row of a batch equals the same row alone, bit for bit: found another row 0": {
        "get_reward": _mixes
    },
    "`initial_states` draw from the generator that they are given: found others": {"initial_states": _draws},
    "names, shapes behind the batch axis, and dtypes: get_action_results: state 'place': expected float32 (5, 2), "
    "found float64 (5, 2)": {"get_action_results": _widens},
}


@pytest.mark.parametrize("text", BROKEN)
def test_breach_is_named(text: str) -> None:
    """Each clause of the contract is the sentence with which a breach is told."""
    for check in (check_functional, check_environment):
        with pytest.raises(ContractBroken) as caught:
            check(type("Broken", (Right,), BROKEN[text]))
        assert text in str(caught.value)
