"""Sitters: objects of authors that are portrayed in their place, by their attributes or as they say themselves."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import logging
import re
import types
from collections import deque
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any

import numpy as np

from ganglion.sdk.brain import CheckpointableBrain
from ganglion.sdk.condition import TerminationCondition

_MET_MAX = 100_000  # objects that are looked at: what is larger than this has not just been made
_CONSTANT = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    np.ufunc,
    np.dtype,
    enum.Enum,
    logging.Logger,
    re.Pattern,
    PurePath,
    range,
    dt.date,
    dt.time,
    dt.timedelta,
    dt.tzinfo,
    Decimal,
    Fraction,
)
_HOOKS = (
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
)  # by which a class is copied otherwise


def way_of(one: Any) -> tuple[Any, Any] | None:
    """Return how an object saves and loads its state itself; None if it does not."""
    pair = getattr(one, "save_state", None), getattr(one, "load_state", None)
    if all(map(callable, pair)):
        return pair
    if isinstance(one, CheckpointableBrain):
        return lambda: _exported(one), lambda state: one.restore_checkpoint_state(state.get("", state))
    if isinstance(one, TerminationCondition) and type(one).state is not TerminationCondition.state:
        return one.state, one.restore
    return None


def _exported(brain: CheckpointableBrain) -> Mapping[str, Any]:
    state = brain.export_checkpoint_state()
    return {"": state} if isinstance(state, bytes) else state


def attributes_of(one: Any) -> dict[str, Any] | None:
    """Return all attributes of an object; None if it is more than they are, or says itself how it is copied."""
    cls = type(one)
    if getattr(cls.__getstate__, "__module__", "") == dataclasses.__name__:  # frozen, with slots
        names = [field.name for field in dataclasses.fields(one)]
        return {name: getattr(one, name) for name in names if hasattr(one, name)}
    if any(getattr(cls, hook, None) is not getattr(object, hook, None) for hook in _HOOKS):
        return None
    if hasattr(cls, "__getnewargs__") or hasattr(cls, "__getnewargs_ex__"):
        return None
    try:
        parts: Any = object.__reduce_ex__(one, 2)  # refuses what has more than its attributes
    except TypeError:
        return None
    if any(item is not None for item in parts[3:]):
        return None
    state = parts[2]
    own, slots = state if isinstance(state, tuple) else (state, None)
    return {**(own or {}), **(slots or {})}


def put_attributes(one: Any, state: Mapping[str, Any]) -> None:
    """Give an object these attributes and no others."""
    for name in (attributes_of(one) or {}).keys() - state.keys():
        object.__delattr__(one, name)
    own: dict[str, Any] | None = getattr(one, "__dict__", None)
    for name, value in state.items():
        if own is None or isinstance(getattr(type(one), name, None), types.MemberDescriptorType):
            object.__setattr__(one, name, value)
        else:
            own[name] = value  # past properties, and in a class that is frozen


def found_in(parts: Mapping[str, Any], host: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the objects that these consist of, and the constants among what they hold, each by its path.

    What the host has given them is not looked into.
    """
    seen = {id(one) for one in host.values()}
    inner: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    waiting = deque(parts.items())
    while waiting and len(seen) < _MET_MAX:
        path, one = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, _CONSTANT):
            if getattr(one, "__closure__", None) is None:
                constants[path] = one
            continue
        within = _within(one)
        if within is None:
            own = attributes_of(one)
            if own is None and way_of(one) is None:
                continue
            inner[path] = one
            within = ((f".{name}", value) for name, value in (own or {}).items())
        waiting.extend((path + step, value) for step, value in within)
    return inner, constants


def _within(one: Any) -> Iterator[tuple[str, Any]] | None:
    """Yield what a plain value holds; None if it is an object."""
    if isinstance(one, dict):
        return ((f"[{key!r:.80}]", value) for key, value in one.items())
    if isinstance(one, list | tuple | deque):
        return ((f"[{i}]", value) for i, value in enumerate(one))
    plain = one is None or isinstance(
        one, bool | int | float | complex | str | bytes | bytearray | np.ndarray
    )
    return iter(()) if plain or isinstance(one, np.generic | set | frozenset) else None
