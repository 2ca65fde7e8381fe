"""News: numbered, kept up to a bound, and summed up for a page that is slow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

from ganglion_web.news import KEPT, WAITING, News


def _data(message: str) -> dict[str, Any]:
    [line] = [line for line in message.splitlines() if line.startswith("data: ")]
    found: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return found


def _identity(message: str) -> str:
    [line] = [line for line in message.splitlines() if line.startswith("id: ")]
    return line.removeprefix("id: ")


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30.0))


def test_a_page_that_comes_back_is_told_what_it_missed() -> None:
    """What was told while a page was away comes behind its last identity; nothing comes twice."""

    async def work() -> None:
        news = News()
        stream = news.read(None, None)
        await anext(stream)
        news.tell("event", "a", {"n": 1})
        first = await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        news.tell("event", "a", {"n": 2})
        again = news.read(_identity(first), None)
        hello, rest = await anext(again), await anext(again)

        assert (False, [2]) == (_data(hello)["missed"], [one["n"] for one in _data(rest)["news"]])

    _run(work())


def test_a_page_of_another_server_begins_anew() -> None:
    """An identity of another epoch, or of news that are gone, says that something was missed."""

    async def work() -> None:
        news = News()
        for number in range(KEPT + 10):
            news.tell("event", "a", {"n": number})
        for last in ("other-3", f"{news.epoch}-2"):
            assert _data(await anext(news.read(last, None)))["missed"]

    _run(work())


def test_a_slow_page_gets_sums() -> None:
    """What a page does not read is counted by kind, and the newest of it is kept."""

    async def work() -> None:
        news = News()
        stream = news.read(None, "a")
        await anext(stream)
        for number in range(WAITING + 7):
            news.tell("event", "a", {"n": number})
            news.tell("event", "b", {"n": number})
        found = _data(await anext(stream))

        assert ({"event": 7}, WAITING) == (found["missed"], len(found["news"]))
        assert {"a"} == {one["run"] for one in found["news"]}

    _run(work())
