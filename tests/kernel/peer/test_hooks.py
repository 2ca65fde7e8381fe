from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

import numpy as np
import pytest

from ganglion.errors import AuthorError, OutOfActionSpaceError
from ganglion.peer.hooks import Hooks, identity, seed_process
from ganglion.sdk.seed import generator_from_words, words

WORDS = words(42, ["a"])


def test_plain_hook() -> None:
    """A plain hook's result is handed on, with the arguments that it was given."""
    assert (1, "b") == Hooks("here")("act", lambda *args: args, 1, "b")


def test_async_hook() -> None:
    """An async hook is waited for; tasks that it leaves running go on in its next call."""
    seen: list[str] = []

    async def background() -> None:
        seen.append("begun")
        await asyncio.sleep(0)
        seen.append("done")

    async def hook() -> str:
        if not seen:
            hook.task = asyncio.ensure_future(background())  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        return "result"

    hooks = Hooks("here")

    assert ["result"] * 3 == [hooks("think", hook) for _ in range(3)]
    assert ["begun", "done"] == seen
    hooks.close()
    hooks.close()


def test_every_object_has_its_own_loop() -> None:
    """Two objects' async hooks share no loop, and one that has none starts none."""
    loops = []

    async def hook() -> None:
        loops.append(asyncio.get_running_loop())

    first, second, plain = Hooks("a"), Hooks("b"), Hooks("c")
    for hooks in (first, first, second):
        hooks("h", hook)
    plain("h", lambda: None)

    assert loops[0] is loops[1] is not loops[2]
    assert plain._runner is None
    first.close()
    second.close()


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_hook_raises_is_blamed_on_it(is_async: bool) -> None:
    """An exception of a hook becomes an author's error with the place; the exception is its cause."""

    def plain() -> None:
        raise KeyError("grid.7")

    async def waiting() -> None:
        plain()

    hooks = Hooks("muscle ada (worker 0), class Farmer of farm 1.0")
    hooks.step = 3
    with pytest.raises(AuthorError, match=r"^KeyError: 'grid.7'") as caught:
        hooks("propose_actions", waiting if is_async else plain)
    hooks.close()

    assert ["muscle ada (worker 0), class Farmer of farm 1.0, step 3, hook propose_actions"] == caught.value.__notes__
    assert isinstance(caught.value.__cause__, KeyError)


def test_author_s_error_passes_as_it_is() -> None:
    """An error of the contract keeps its class and gets the place."""

    def hook() -> Any:
        raise OutOfActionSpaceError("7 is outside Discrete(3)")

    with pytest.raises(OutOfActionSpaceError) as caught:
        Hooks("muscle ada")("propose_actions", hook)
    assert ["muscle ada, hook propose_actions"] == caught.value.__notes__


def test_an_exit_is_blamed_on_its_author() -> None:
    """A hook that calls `sys.exit` is named: a process that only ends would say nothing of it."""

    def hook() -> None:
        sys.exit("no licence")

    with pytest.raises(AuthorError, match="SystemExit: no licence") as caught:
        Hooks("here")("act", hook)
    assert ["here, hook act"] == caught.value.__notes__


def test_an_interruption_is_not_swallowed() -> None:
    """What is meant for the whole process ends it as it would without us."""

    def hook() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Hooks("here")("act", hook)


def test_the_place_is_the_hook_called_last() -> None:
    """What an answer has wrong is blamed on the hook that gave it, with its step."""
    hooks = Hooks("here")
    hooks("setup", lambda: None)
    hooks.step = 4
    hooks("act", lambda: None)

    assert "here, step 4, hook act" == hooks.place


def test_identity_is_the_stream_s() -> None:
    """An object's seed and generator come from its own stream."""
    found = identity(WORDS)

    assert {"seed", "rng"} == set(found)
    assert 0 <= found["seed"] < 2**63
    assert generator_from_words(WORDS).random() == found["rng"].random()
    assert found["seed"] != identity(words(42, ["b"]))["seed"]


def test_process_is_seeded_from_the_stream() -> None:
    """`random` and numpy's global generator begin at the same point for one stream, at another for another."""
    kept = random.getstate(), np.random.get_state()  # noqa: NPY002 - what is seeded here

    def draw(stream: bytes) -> tuple[float, float]:
        seed_process(stream)
        return random.random(), float(np.random.random())  # noqa: NPY002

    try:
        first, again, other = draw(WORDS), draw(WORDS), draw(words(42, ["b"]))
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002

    assert first == again
    assert first[0] != other[0]
    assert first[1] != other[1]
