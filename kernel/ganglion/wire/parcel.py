"""Parcels: values too large or too deep for a body, as blobs beside it: parts of a set-up message, values of rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgpack

from ganglion.errors import LimitExceeded, LocalProtocolError, RemoteProtocolError
from ganglion.limits import PARCEL_BYTES, PARCEL_DEPTH, PLAN_BYTES
from ganglion.wire.codec import Codec, Content, check_claims
from ganglion.wire.messages import Act, Acted, EnvironmentDeclared, EnvironmentUpdate, EnvironmentUpdated, Think

M = TypeVar("M")

PARTS: dict[str, tuple[str, ...]] = {  # call -> fields of its request that may be blobs
    "governor.start": ("plan", "resume"),
    "controller.setup": ("controller", "conditions", "environments"),
    "controller.start": ("agents", "static_models"),
    "environment.start": ("params", "plugin", "reward", "transformer"),
    "muscle.setup": ("plugin", "objective", "sensors", "actuators", "rewards", "filters", "static_models"),
    "record.batch": ("records",),
    "brain.setup": ("plugin", "sensors", "actuators", "rewards", "filters", "static_models"),
}

_ROWS: dict[type[Any], tuple[str, ...]] = {  # message -> its fields of values, which may be blobs
    EnvironmentDeclared: ("readings",),
    EnvironmentUpdate: ("setpoints",),
    EnvironmentUpdated: ("readings", "rewards", "applied"),
    Act: ("readings", "rewards", "applied", "forced"),
    Acted: ("setpoints", "proposed"),
    Think: ("readings", "applied", "rewards", "next_readings", "proposed", "observations", "next_observations"),
}


def encoded(
    codec: Codec[M], message: M, blobs: Sequence[bytes] = (), content: Content = Content.MSGPACK
) -> tuple[bytes, Sequence[bytes]]:
    """Return the body of a message and its blobs: the given ones, then its large blocks and values."""
    rows = _ROWS.get(codec.kind, ())
    try:
        body = codec.encode(message, content)
        if not rows or len(body) <= PARCEL_BYTES:
            return body, blobs
    except LocalProtocolError:
        if not rows:
            raise
    lifted = list(blobs)

    def lift(value: Any, _name: str) -> Any:
        if type(value) is not bytes or len(value) <= PARCEL_BYTES:
            return value
        lifted.append(value)
        return {"blob": len(lifted) - 1}

    return codec.encode(_with_values(message, lift), content), lifted


def lower(message: M, blobs: Sequence[bytes]) -> M:
    """Return a message with its large blocks and values restored; RemoteProtocolError: a blob is missing."""

    def lowered(value: Any, name: str) -> Any:
        if type(value) is not dict:
            return value
        number = value.get("blob")
        if type(number) is not int or not 0 <= number < len(blobs):
            raise RemoteProtocolError(f"{name}: expected the number of one of {len(blobs)} blobs, found {value!r:.40}")
        return blobs[number]

    return _with_values(message, lowered) if blobs else message


def _with_values(message: M, change: Callable[[Any, str], Any]) -> M:
    """Return a message with each block, or value of a row, replaced by a function of value and field."""
    changes = {
        name: [[change(v, name) for v in row] if type(row) is list else change(row, name) for row in rows]
        for name in _ROWS.get(type(message), ())
        if (rows := getattr(message, name))
    }
    return dataclasses.replace(message, **changes) if changes else message  # type: ignore[type-var]


def detach(call: str, message: M) -> tuple[M, list[bytes]]:
    """Return a request as sent, and its blobs; a request without large parts is returned unchanged.

    A request to a program of another language has no blobs; the bounds of a body apply. LimitExceeded: a part is larger
    than any message.
    """
    names = PARTS.get(call)
    if names is None or (call == "environment.start" and getattr(message, "plugin", None) is None):
        return message, []
    blobs: list[bytes] = []
    changes: dict[str, Any] = {}
    for name in names:
        value = getattr(message, name)
        data = msgpack.packb(value) if value else b""
        if len(data) > PARCEL_BYTES or _is_deep(value, PARCEL_DEPTH):
            if len(data) > PLAN_BYTES:
                raise LimitExceeded(
                    f"{call}.{name}: expected at most {PLAN_BYTES} bytes, found {len(data)} (limit plan_bytes)"
                )
            changes[name] = type(value)()
            changes.setdefault("parcels", {})[name] = len(blobs)
            blobs.append(data)
    return (dataclasses.replace(message, **changes) if blobs else message), blobs  # type: ignore[type-var]


def attach(call: str, message: M, blobs: Sequence[bytes]) -> M:
    """Restore a request that `detach` and `encoded` took apart.

    RemoteProtocolError: a parcel is of a field that has none, is missing, or has another type.
    """
    parcels: dict[str, Any] | None = getattr(message, "parcels", None)
    if not parcels:
        return lower(message, blobs)
    changes: dict[str, Any] = {"parcels": None}
    for name, number in parcels.items():
        if name not in PARTS.get(call, ()):
            raise RemoteProtocolError(f"{call}.parcels: {name[:40]!r} is no field that travels as a blob")
        if type(number) is not int or not 0 <= number < len(blobs):
            raise RemoteProtocolError(
                f"{call}.parcels.{name}: expected the number of one of {len(blobs)} blobs, found {str(number)[:40]}"
            )
        changes[name] = _unpacked(f"{call}.{name}", blobs[number], type(getattr(message, name)))
    return dataclasses.replace(message, **changes)  # type: ignore[type-var]


def _is_deep(value: Any, levels: int) -> bool:
    """Return whether lists and maps are nested on more levels."""
    if not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deep(part, levels - 1) for part in parts)


def _unpacked(what: str, data: bytes, kind: type[Any]) -> Any:
    try:
        check_claims(data)
        value = msgpack.unpackb(data)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise RemoteProtocolError(f"{what}: expected msgpack in its blob, found {data[:16].hex()}") from error
    if type(value) is not kind:
        raise RemoteProtocolError(f"{what}: expected {kind.__name__} in its blob, found {type(value).__name__}")
    return value
