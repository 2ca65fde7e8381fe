from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import PluginInvalid
from ganglion.sdk.construct import Part, check_parameters, construct
from ganglion.sdk.flow import Mode
from ganglion.sdk.memory import Memory
from ganglion.sdk.objective import Objective

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
