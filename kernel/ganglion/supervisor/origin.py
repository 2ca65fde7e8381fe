"""The origin of a run: the plan that it was begun with, kept in its folder so that it can be begun again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgpack

from ganglion.errors import UsageError
from ganglion.run.plan import Plan

__all__ = ["ORIGIN", "origin_bytes", "read_origin"]

ORIGIN = "plan.msgpack"


def origin_bytes(plan: Plan, allow: Sequence[str]) -> bytes:
    """Return the bytes of the file: the plan, and the packages that import paths may name beside those of the plan."""
    data: bytes = msgpack.packb({"plan": plan.to_map(), "allow": list(allow)})
    return data


def read_origin(folder: Path, sha256: object) -> tuple[Plan, tuple[str, ...]]:
    """Return plan and allowed packages of the run in a folder; `sha256` is what its manifest says of the file.

    Raises:
        UsageError: The file cannot be read, is not what the manifest says, or holds no plan.
    """
    path = folder / ORIGIN
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: expected the plan of the run, it cannot be read: {error.strerror}"
        ) from error
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise UsageError(f"{path}: the file is damaged: expected SHA-256 {sha256!s:.64}, found {found}")
    try:
        tree = msgpack.unpackb(data, strict_map_key=False)
        return Plan.from_map(tree["plan"]), tuple(tree["allow"])
    except (AttributeError, KeyError, TypeError, ValueError, msgpack.UnpackException) as error:
        raise UsageError(f"{path}: expected the plan of a run: {type(error).__name__}: {error}") from error
