"""Flags: whether an episode ended, and whether what follows still has a value."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import AuthorError

__all__ = ["bootstrap_mask", "resolve_flags"]

Flag = bool | np.bool_ | None
FlagArray = NDArray[Any]


@overload
def bootstrap_mask(done: Flag, terminated: Flag = None, truncated: Flag = None) -> float: ...
@overload
def bootstrap_mask(
    done: FlagArray, terminated: FlagArray | None = None, truncated: FlagArray | None = None
) -> NDArray[np.float64]: ...
def bootstrap_mask(done: Any, terminated: Any = None, truncated: Any = None) -> Any:
    """Return 1.0 where the value of the next readings counts, 0.0 where no future exists.

    The target of a decision is `reward + discount * mask * V(next readings)`: a truncated decision, also one that was
    cut by a condition or a signal, bootstraps; a terminated one does not.

    Args:
        done: Whether the episode ended with the decision; a boolean, or an array or list of them.
        terminated: Whether no future exists; None, or None in an array, means unknown.
        truncated: Whether the episode was cut off from outside; None means unknown.

    Returns:
        A float for scalars, for arrays a float64 array of the shape that they have together: 1.0 where not done;
        0.0 where terminated; 1.0 where truncated; 0.0 where done and neither is known.

    Source: Pardo et al. (2018), Time limits in reinforcement learning, section 3.
    """
    if not any(isinstance(flag, np.ndarray | list | tuple) for flag in (done, terminated, truncated)):
        return _mask(done, terminated, truncated)
    shape = np.broadcast_shapes(*(np.shape(it) for it in (done, terminated, truncated) if it is not None))
    done = np.broadcast_to(np.asarray(done), shape)
    known_terminated = _as_known(terminated, done)
    known_truncated = _as_known(truncated, done)
    over = done.astype(bool)
    return np.where(~over | (known_truncated & ~known_terminated), 1.0, 0.0)


def _mask(done: Flag, terminated: Flag, truncated: Flag) -> float:
    if not done:
        return 1.0
    if terminated:
        return 0.0
    return 1.0 if truncated else 0.0


def _as_known(flags: FlagArray | None, like: FlagArray) -> NDArray[np.bool_]:
    if flags is None:
        return np.zeros(like.shape, dtype=bool)
    flags = np.asarray(flags)
    if flags.dtype == object or flags.dtype.kind == "f":
        flags = flags == True  # noqa: E712 - elementwise: None and NaN stand for unknown
    return np.broadcast_to(flags.astype(bool), like.shape)


def resolve_flags(done: bool | None, terminated: bool | None, truncated: bool | None) -> tuple[bool, bool]:
    """Return `(terminated, truncated)` from what an environment gave of the three flags.

    `done` alone means terminated. With one of the others known to be False it means the remaining one.

    Raises:
        AuthorError: Both are true; `done` is true and both others are false; `done` is false and one of them true; one
            is neither true nor false.
    """
    done, terminated, truncated = (
        _flag("done", done),
        _flag("terminated", terminated),
        _flag("truncated", truncated),
    )
    if terminated and truncated:
        raise AuthorError("terminated and truncated exclude each other: found both true")
    if done is None:
        return bool(terminated), bool(truncated)
    if not done:
        if terminated or truncated:
            raise AuthorError(
                f"done follows from terminated and truncated: found done=False, terminated={terminated}, "
                f"truncated={truncated}"
            )
        return False, False
    if terminated or truncated:
        return bool(terminated), bool(truncated)
    if terminated is None:
        return True, False
    if truncated is None:
        return False, True
    raise AuthorError("done=True needs terminated or truncated: found both False")


def _flag(name: str, flag: Any) -> bool | None:
    """Return a flag that may be a number or an array of one."""
    if flag is None or flag is True or flag is False:
        return flag
    try:
        return bool(flag)
    except (TypeError, ValueError) as error:
        raise AuthorError(f"{name}: expected a boolean, found {flag!r:.80}") from error
