from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import AuthorError
from ganglion.peer.author import ToleratedErrors, failure_of
from ganglion.peer.environment.contract import Judgement
from ganglion.sdk import (
    Discrete,
    EnvironmentBaseline,
    EnvironmentState,
    Reward,
    RewardInformation,
    SensorInformation,
    SimTime,
    StateTransformer,
)
from ganglion.sdk.seed import words
from ganglion.wire.messages import EnvironmentStart

STREAM = words(1, ["test"])
TEN = Discrete(10)


def state(value: int = 1) -> EnvironmentState:
    """Return a state with one reading and one reward."""
    return EnvironmentState([SensorInformation(value, TEN, "s")], [RewardInformation(value, TEN, "r")])


class Nine(Reward):
    """Pay nine, whatever happens."""

    def __call__(self, state: EnvironmentState) -> Any:
        return RewardInformation(9, TEN, "nine")


class Eight(StateTransformer):
    """Show eight."""

    baseline = True

    def __call__(self, state: EnvironmentState) -> Any:
        state.sensor_information[0].value = 8
        return state


def judgement(
    loader: Any, reward: type[Any] | None = None, transformer: type[Any] | None = None, lenient: bool = False
) -> Judgement:
    """Return what these two classes make."""
    named: dict[str, Any] = {"name": "own", **({"on_error": "continue"} if lenient else {})}
    parts = {kind: cls for kind, cls in (("reward", reward), ("transformer", transformer)) if cls is not None}
    start = EnvironmentStart(
        "r", 0, "one", "train", 2, "w", {}, 1, 2, STREAM, STREAM, {"name": "own"},
        *(named if kind in parts else None for kind in ("reward", "transformer")),
    )  # fmt: skip
    return Judgement(loader(**parts), start, ToleratedErrors(lambda: None, "r"), {"uid": "w"})


def blamed(error: AuthorError) -> str:
    """Return whom a failure blames."""
    return failure_of(error).where or ""


def test_a_transformer_may_see_baselines(loader: Any) -> None:
    """With `baseline` true it changes the readings of decision 0; time and declarations stay."""
    given = EnvironmentBaseline([SensorInformation(1, TEN, "s")], [], SimTime(5, None), {"a": 1})
    found = judgement(loader, None, Eight).baseline(given)

    assert (8, 5, {"a": 1}) == (found.sensors_available[0].value, found.simtime.simtime_ticks, found.static_world_model)


@pytest.mark.parametrize("hook", ["__init__", "reset"])
@pytest.mark.parametrize("kind", ["reward", "transformer"])
def test_every_hook_names_its_own_class(loader: Any, kind: str, hook: str) -> None:
    """What reward or transformer raise is not blamed on the environment."""

    def fails(self: Any, *_: Any, **__: Any) -> None:
        raise ZeroDivisionError("no")

    broken = type("Broken", (Nine if kind == "reward" else Eight,), {hook: fails})

    with pytest.raises(AuthorError) as caught:
        judgement(loader, **{kind: broken}).reset()
    assert blamed(caught.value).startswith(f"{kind} of environment w (worker 2), class ")
    assert blamed(caught.value).endswith(f"Broken, hook {hook}")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (None, "the transformer: expected an EnvironmentState, found NoneType"),
        (EnvironmentState([], [], terminated=True), "the transformer changed terminated or truncated"),
    ],
)
def test_a_baseline_is_held_to_what_a_state_is(loader: Any, made: Any, text: str) -> None:
    """What the transformer returns for decision 0 is looked at as any other."""
    kind = type("Strange", (Eight,), {"__call__": lambda self, state: made})

    with pytest.raises(AuthorError, match=text):
        judgement(loader, None, kind).baseline(EnvironmentBaseline([], []))


def test_what_is_excused_leaves_the_environments_own(loader: Any) -> None:
    """Rewards and state are those of the environment, whatever was changed before the exception."""

    class Fails(StateTransformer):
        def __call__(self, state: EnvironmentState) -> Any:
            state.sensor_information[0].value = 5
            raise ZeroDivisionError

    strange = type("Strange", (Nine,), {"__call__": lambda self, state: 1.0})
    it = judgement(loader, strange, Fails, lenient=True)
    found = it.finish(state(4), None)

    assert ([4], [4], True) == (
        [s.value for s in found.sensor_information],
        [r.value for r in found.rewards],
        it.own_rewards,
    )
