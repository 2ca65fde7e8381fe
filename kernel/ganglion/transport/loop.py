"""The event loop of every process of Ganglion: uvloop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on uvloop; return its result or raise its exception."""
    return uvloop.run(main)
