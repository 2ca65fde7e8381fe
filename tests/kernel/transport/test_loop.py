from __future__ import annotations

import asyncio

import pytest
import uvloop

from ganglion.transport import loop


def test_run_is_on_uvloop() -> None:
    """A coroutine runs on uvloop, and its result comes back."""

    async def main() -> type:
        return type(asyncio.get_running_loop())

    assert issubclass(loop.run(main()), uvloop.Loop)


def test_errors_pass() -> None:
    """What a coroutine raises is raised."""

    async def main() -> None:
        raise LookupError("x")

    with pytest.raises(LookupError):
        loop.run(main())
