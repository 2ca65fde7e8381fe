from __future__ import annotations

import asyncio
from typing import Any

from ganglion.peer.author import Hooks, failure_of
from ganglion.wire.messages import Failure


def boom() -> None:
    """Raise as an author's helper would."""
    raise ValueError("boom")


def caught(function: Any, *args: Any) -> BaseException:
    """Return what a function raises."""
    try:
        function(*args)
    except BaseException as error:  # noqa: BLE001 - the test looks at whatever it is
        return error
    raise AssertionError("nothing was raised")


def first_frame(failure: Failure) -> str:
    """Return the first frame that a traceback shows."""
    assert failure.traceback is not None
    lines = failure.traceback.splitlines()
    assert "Traceback (most recent call last):" == lines[0]
    return lines[1]


def test_async_hook_s_traceback_begins_in_the_author_s_file() -> None:
    """The loop that runs an async hook is not shown either."""

    async def hook() -> None:
        await asyncio.sleep(0)
        boom()

    hooks = Hooks("brain ada")
    failure = failure_of(caught(hooks, "think", hook))
    hooks.close()

    assert "test_failure.py" in first_frame(failure)
    assert "asyncio" not in (failure.traceback or "")
