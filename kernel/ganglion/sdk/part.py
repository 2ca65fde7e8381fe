"""Part: the base of plugin classes; objects made from the parameters of a document, or refused by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from inspect import Parameter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ganglion.errors import PluginInvalid
from ganglion.sdk.flow import Mode

if TYPE_CHECKING:
    from numpy.random import Generator


class Part:
    """The base of the classes that plugins offer.

    The attributes are set before `__init__` runs, and again after it. The constructor gets the `params` of the
    document by keyword, and those of `uid`, `seed` and `broker_uri` (always empty) that its signature names. This
    base accepts and ignores any arguments.

    A class may have `save_state() -> Mapping[str, Any]` and `load_state(state)`: the journal from which a lost process
    is restored stays short only if the state of its objects can be saved between two episodes. `save_state` returns
    names and plain values (arrays, numbers, text, bytes, lists, tuples, maps, dataclasses, generators of numpy).
    `load_state` gets an equal map in another process, on an object that was made and set up in the same way. The bus
    restores `rng`, `memory` and everything else that it set. Without the two methods the attributes are saved if they
    are such values, or functions, classes and spaces that do not change. A warning at set-up names any other attribute.
    An environment is saved within an episode, too, and needs both methods or neither; they may be `async def`. Its
    reward and transformer are saved with it. With neither its successor opens the episode by `reset` with the same
    draws and receives the steps again. State that the three keep from earlier episodes is lost then; if the results
    differ, the run goes back to its last checkpoint.
    """

    takes_params: ClassVar[bool] = False
    """Whether a constructor that names `params` gets all parameters in it, as one map."""

    uid: str = ""  # the object's name within the run, with the worker where each has one (`scout/0`)
    name: str = ""  # the name in the document
    worker: int = 0  # number of the worker, from 0; 0 also if workers share the object
    mode: Mode = Mode.TRAIN  # of the phase
    seed: int = 0  # one integer of the object's own stream, in [0, 2**63)
    # The generator of the object's own stream. An object that is made by hand has none until one is set.
    rng: Generator
    params: Mapping[str, Any] = MappingProxyType({})  # the parameters of the document, read-only

    def __init__(self, *_: Any, **__: Any) -> None:
        """Accept and ignore any arguments."""


T = TypeVar("T")

OFFERED = ("uid", "seed", "broker_uri")


def construct(cls: type[T], params: Mapping[str, Any], offered: Mapping[str, Any], attributes: Mapping[str, Any]) -> T:
    """Return a new object whose attributes are set before its constructor runs.

    >>> class Heater(Part):
    ...     def __init__(self, power, seed):
    ...         self.label = f"{self.uid}: {power} W, {seed}"
    >>> construct(Heater, {"power": 60}, {"seed": 7}, {"uid": "tank"}).label
    'tank: 60 W, 7'
    >>> check_parameters(Heater, {"force": 60})
    Traceback (most recent call last):
    ganglion.errors.PluginInvalid: ...Heater: parameter 'force' is not taken; expected power

    The constructor gets `params` by keyword, and those of `offered` (`uid`, `seed`, `broker_uri`) that it names and
    `params` lacks. The attributes are set again after the constructor.

    Raises:
        PluginInvalid: The class is abstract, a parameter is unknown or missing, or an attribute cannot be set.
            Exceptions of the constructor pass through.
    """
    arguments = _arguments(cls, params, offered)
    made = cls.__new__(cls)
    _set(made, attributes)
    made.__init__(**arguments)  # type: ignore[misc]
    _set(made, attributes)
    return made


def check_parameters(cls: type[Any], params: Mapping[str, Any], offered: tuple[str, ...] = OFFERED) -> None:
    """Check by the signature alone that `construct` can make an object; PluginInvalid as there."""
    _arguments(cls, params, dict.fromkeys(offered))


def parameters_of(cls: type[Any]) -> tuple[dict[str, Parameter], bool]:
    """Return the named parameters that a class takes from a document, and whether it takes any other, too.

    PluginInvalid: The constructor has no readable signature, or a parameter cannot be given by keyword.
    """
    taken, any_keyword = _signature(cls)
    whole = getattr(cls, "takes_params", False) and "params" in taken
    return taken, any_keyword or whole


def _arguments(cls: type[Any], params: Mapping[str, Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords for the constructor."""
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise _invalid(cls, f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not implemented")
    taken, any_keyword = _signature(cls)
    arguments = dict(params)
    if getattr(cls, "takes_params", False) and "params" in taken and "params" not in params:
        arguments = {name: value for name, value in params.items() if name in taken}
        arguments["params"] = dict(params)
    arguments |= {name: value for name, value in offered.items() if name in taken and name not in arguments}
    unknown = [name for name in arguments if name not in taken]
    if unknown and not any_keyword:
        own = [name for name in taken if name not in offered]
        raise _invalid(cls, f"parameter {unknown[0]!r} is not taken; expected {', '.join(own) or 'none'}")
    for name, parameter in taken.items():
        if parameter.default is Parameter.empty and name not in arguments:
            raise _invalid(cls, f"parameter {name!r} is missing and has no default")
    return arguments


def _signature(cls: type[Any]) -> tuple[dict[str, Parameter], bool]:
    """Return the parameters that can be given by keyword, and whether any other keyword is accepted too."""
    try:
        # Of the class's __init__ and not of the class: a metaclass or __new__ of its own would hide it.
        found = list(inspect.signature(cls.__init__).parameters.values())[1:]
    except (TypeError, ValueError) as error:
        raise _invalid(cls, f"its constructor has no readable signature: {error}") from error
    for parameter in found:
        if parameter.kind is Parameter.POSITIONAL_ONLY and parameter.default is Parameter.empty:
            raise _invalid(cls, f"parameter {parameter.name!r} is positional-only; parameters are given by keyword")
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    any_keyword = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in found)
    return {it.name: it for it in found if it.kind in named}, any_keyword


def _set(made: object, attributes: Mapping[str, Any]) -> None:
    for name, value in attributes.items():
        try:
            setattr(made, name, value)
        except (AttributeError, TypeError) as error:
            raise _invalid(
                type(made), f"its attribute {name!r} belongs to the bus and cannot be set: {error}"
            ) from error


def _invalid(cls: type[Any], what: str) -> PluginInvalid:
    return PluginInvalid(f"{cls.__module__}:{cls.__qualname__}: {what}", plugin=cls.__qualname__)
