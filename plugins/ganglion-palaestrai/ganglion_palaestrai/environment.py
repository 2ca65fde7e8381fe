"""Environment: environments, rewards and transformers written for `palaestrai.environment`."""

from __future__ import annotations

import functools
from abc import ABC
from collections.abc import Callable
from typing import Any

from ganglion.sdk import Environment as _Environment
from ganglion.sdk import EnvironmentBaseline, EnvironmentState, ResetRequest
from ganglion.sdk import Reward as _Reward
from ganglion.sdk import StateTransformer as _StateTransformer
from ganglion_palaestrai.information import adopt

__all__ = [
    "Environment",
    "EnvironmentBaseline",
    "EnvironmentState",
    "EnvironmentStateTransformer",
    "ResetRequest",
    "Reward",
]


class Environment(_Environment, ABC):
    """Be a world as `ganglion.sdk.Environment` is; the setpoints it gets answer to the old names.

    The constructor may be given `uid`, `broker_uri` (empty) and `seed`, by position too.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "update" in cls.__dict__:
            cls.update = _adopting(cls.update)  # type: ignore[method-assign]

    @property
    def _uid(self) -> str:
        return self.uid

    @property
    def _name(self) -> str:
        return self.name


class Reward(_Reward, ABC):
    """Compute rewards as `ganglion.sdk.Reward` does; the parameters are in `_parameters`, too."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._parameters = kwargs

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__call__" in cls.__dict__:
            cls.__call__ = _seeing(cls.__call__)  # type: ignore[method-assign]


class EnvironmentStateTransformer(_StateTransformer, ABC):
    """Change what is seen of a state as `ganglion.sdk.StateTransformer` does; the parameters are in `_params`, too."""

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._params = params

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__call__" in cls.__dict__:
            cls.__call__ = _seeing(cls.__call__)  # type: ignore[method-assign]


def _adopting(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that teaches the setpoints it is given the old names first."""

    @functools.wraps(method)
    def adopting(self: Any, actuators: Any) -> Any:
        adopt(actuators)
        return method(self, actuators)

    return adopting


def _seeing(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that teaches readings and rewards of the states it is given the old names first."""

    @functools.wraps(method)
    def seeing(self: Any, *states: Any) -> Any:
        for state in states:
            if isinstance(state, EnvironmentState):
                adopt(state.sensor_information)
                adopt(state.rewards)
        return method(self, *states)

    return seeing
