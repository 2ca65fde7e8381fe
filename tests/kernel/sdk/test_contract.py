from __future__ import annotations

import asyncio
import subprocess
import sys
from inspect import isawaitable
from typing import Any

import pytest

from ganglion.errors import PluginInvalid
from ganglion.sdk.condition import EpisodeView
from ganglion.sdk.controller import Controller
from ganglion.sdk.environment import Environment, EnvironmentBaseline, EnvironmentState, ResetRequest
from ganglion.sdk.flow import Mode, Signal
from ganglion.sdk.information import ActuatorInformation
from ganglion.sdk.memory import Memory
from ganglion.sdk.muscle import Objective
from ganglion.sdk.part import Part, check_parameters, construct


def test_flow_needs_no_numpy() -> None:
    """Processes that route, watch and decide import their part of the contract without numpy."""
    code = (
        "from ganglion.sdk import Signal, Mode, SimTime, Controller, TerminationCondition, EpisodeView, PhaseView;"
        "from ganglion.sdk import check_parameters, construct, Observer, Store, StoreReader, StoreWriter;"
        "import sys; sys.exit('numpy' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-W", "error", "-c", code]).returncode == 0


def test_the_contract_needs_numpy_and_nothing_else() -> None:
    """With every module of the contract loaded, no third package but numpy is."""
    code = (
        "import sys, ganglion.sdk as sdk; before = set(sys.modules);"
        "[getattr(sdk, name) for name in sdk.__all__];"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "ours = {'ganglion', 'numpy'} | {name for name in tops if 'cython' in name};"  # numpy's own runtime
        "print(sorted(tops - set(sys.stdlib_module_names) - ours));"
        "sys.exit('asyncio' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)

    assert (0, "[]", "") == (found.returncode, found.stdout.strip(), found.stderr)


def test_signals_are_ordered_by_force() -> None:
    """Of several signals the greatest wins, so their order is part of the contract."""
    expected = ["CONTINUE", "PAUSE", "RESET", "RESTART", "STOP_SIMULATION", "STOP_PHASE", "SHUTDOWN"]

    assert expected == [signal.name for signal in sorted(Signal)]
    assert max(Signal.RESET, Signal.STOP_PHASE) is Signal.STOP_PHASE


OFFERED = {"uid": "grid", "seed": 7, "broker_uri": ""}
ATTRIBUTES = {"uid": "grid", "name": "grid", "worker": 1, "mode": Mode.TEST, "seed": 7, "params": {"a": 1}}


class Keyword(Part):
    def __init__(self, a: int, b: int = 2) -> None:
        self.seen = (a, b, self.uid, self.worker, self.seed)
        self.worker = 99


class Offered(Part):
    def __init__(self, uid: str, broker_uri: str, seed: int, *, a: int = 0) -> None:
        super().__init__(uid, broker_uri, seed=seed)
        self.seen = (uid, broker_uri, seed, a)


class Open(Part):
    def __init__(self, **anything: Any) -> None:
        self.seen = anything


class Judge(Objective):
    def __init__(self, params: dict[str, Any] | None = None, a: int = 0) -> None:
        self.seen = (params, a)

    def internal_reward(self, memory: Memory, **kwargs: Any) -> float | None:
        return None


class Positional(Part):
    def __init__(self, a: int, /) -> None:
        pass


class Abstract(Objective):
    pass


class Fixed(Part):
    @property
    def name(self) -> str:  # type: ignore[override]
        return "mine"


def _make(cls: type[Any], params: dict[str, Any]) -> Any:
    return construct(cls, params, OFFERED, ATTRIBUTES)


@pytest.mark.parametrize(
    ("cls", "params", "match"),
    [
        (Keyword, {"a": 1, "c": 3}, "'c' is not taken; expected a, b"),
        (Keyword, {}, "'a' is missing"),
        (Offered, {"b": 3}, "'b' is not taken; expected a"),
        (Positional, {"a": 1}, "positional-only"),
        (Abstract, {}, "internal_reward is not implemented"),
    ],
)
def test_wrong_parameters_are_refused_by_name(cls: type[Any], params: dict[str, Any], match: str) -> None:
    """Checking by signature and making say the same, and name class and parameter."""
    for attempt in (lambda: check_parameters(cls, params), lambda: _make(cls, params)):
        with pytest.raises(PluginInvalid, match=match) as caught:
            attempt()
        assert cls.__name__ in str(caught.value)


@pytest.mark.parametrize(("cls", "params"), [(Keyword, {"a": 1}), (Offered, {}), (Open, {"x": 1}), (Judge, {"y": 1})])
def test_right_parameters_pass_without_calling(cls: type[Any], params: dict[str, Any]) -> None:
    """The check makes no object."""
    check_parameters(cls, params)


def test_an_attribute_that_cannot_be_set_is_named() -> None:
    """A class that occupies a name of the bus is refused instead of half made."""
    with pytest.raises(PluginInvalid, match="'name' belongs to the bus"):
        _make(Fixed, {})


def test_views_know_who_has_ended() -> None:
    """Environments are told in document order; either flag ends one."""
    view = EpisodeView(0, Mode.TRAIN, 0, 1, {"b": False, "a": True, "c": False}, {"b": False, "a": False, "c": True})

    assert (("b", "a", "c"), ("a", "c")) == (view.environments, view.ended)


def test_a_controller_without_a_step_says_so() -> None:
    """A class that overrides neither method is named."""

    class Idle(Controller):
        pass

    with pytest.raises(NotImplementedError, match="Idle"):
        asyncio.run(Idle().simulate())


class Plain(Environment):
    calls: list[str]

    def start_environment(self) -> EnvironmentBaseline:
        self.calls.append("start")
        return EnvironmentBaseline([], [])

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        return EnvironmentState([], [], terminated=True)

    def shutdown(self) -> bool:
        self.calls.append("shutdown")
        return True


class Async(Plain):
    async def start_environment(self) -> EnvironmentBaseline:  # type: ignore[override]
        self.calls.append("start")
        return EnvironmentBaseline([], [])

    async def shutdown(self) -> bool:  # type: ignore[override]
        self.calls.append("shutdown")
        return True


class Half(Plain):
    async def shutdown(self) -> bool:  # type: ignore[override]
        self.calls.append("shutdown")
        return True


@pytest.mark.parametrize("cls", [Plain, Async, Half])
def test_the_default_reset_shuts_down_and_starts(cls: type[Plain]) -> None:
    """In this order, whether the hooks are plain, async, or one of each."""
    environment = cls()
    environment.calls = []
    result: Any = environment.reset(ResetRequest(1, 5))

    async def wait() -> Any:
        return await result if isawaitable(result) else result

    assert isinstance(asyncio.run(wait()), EnvironmentBaseline)
    assert ["shutdown", "start"] == environment.calls


def test_a_batched_environment_needs_its_method() -> None:
    """The message says what lacks."""
    with pytest.raises(NotImplementedError, match="update_batch"):
        Plain().update_batch({})
