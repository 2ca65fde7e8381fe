"""Hooks: an author's methods, plain or async, called so that what they raise is blamed on them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from ganglion.errors import AuthorError
from ganglion.peer.excuse import Excuses, Pardoned
from ganglion.peer.failure import hook_failed
from ganglion.sdk.seed import derive, generator_from_words, integer_from_words


class Hooks:
    """Call the hooks of one object.

    `where` says whose they are (`environment grid (worker 1), class Grid of ganglion-grid 0.3`); `step` is added to
    it when it is not None. With `excuses` what they raise is excused, in the name of `issuer`: `pardon` calls as the
    object itself does, and raises Pardoned then.
    """

    def __init__(self, where: str, excuses: Excuses | None = None, issuer: str = "") -> None:
        self.where = where
        self.excuses, self.issuer = excuses, issuer
        # Of one that is not excused they are the same, and cost the same.
        self.pardon: Callable[..., Any] = self if excuses is None else self._pardon
        self.step: int | None = None
        self.hook = ""
        """The one that was called last."""
        self._runner: asyncio.Runner | None = None

    def __call__(self, hook: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return what the hook returns; AuthorError stands for what it raises, also for an exit."""
        self.hook = hook
        try:
            result = function(*args)
            return self._wait(result) if hasattr(result, "__await__") else result
        except AuthorError as error:
            error.add_note(self._place(hook))
            raise
        except (Exception, SystemExit) as error:
            raise hook_failed(error, self._place(hook)) from error

    def excused(self, instead: Any, hook: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return what the hook returns, or `instead` if it raises what is excused."""
        try:
            return self.pardon(hook, function, *args)
        except Pardoned:
            return instead

    def _pardon(self, hook: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return what the hook returns; Pardoned if it raises what is excused."""
        assert self.excuses is not None
        try:
            return self(hook, function, *args)
        except AuthorError as error:
            self.excuses.take(self.issuer, hook, error)
            raise Pardoned from error

    def blame(self, hook: str, error: Exception) -> AuthorError:
        """Return the error that stands for what a hook raised that was not called by us."""
        if isinstance(error, AuthorError):
            error.add_note(self._place(hook))
            return error
        return hook_failed(error, self._place(hook))

    def _wait(self, awaitable: Any) -> Any:
        if self._runner is None:
            self._runner = asyncio.Runner()

        async def wait() -> Any:
            return await awaitable

        return self._runner.run(wait())

    @property
    def place(self) -> str:
        """Where it was when it was called last: whose it is, the step, the hook."""
        return self._place(self.hook)

    def _place(self, hook: str) -> str:
        step = "" if self.step is None else f", step {self.step}"
        return f"{self.where}{step}, hook {hook}"

    def close(self) -> None:
        """End the loop of the async hooks, if there is one."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None


def identity(words: bytes) -> dict[str, Any]:
    """Return the attributes `seed` and `rng` of an object that owns this stream."""
    return {"seed": integer_from_words(words), "rng": generator_from_words(words)}


def seed_process(words: bytes) -> None:
    """Seed `random` and numpy's global generator from an object's stream."""
    random.seed(derive(words, "random"))
    np.random.seed(np.frombuffer(derive(words, "numpy"), dtype="<u4"))  # noqa: NPY002 - authors may use it
