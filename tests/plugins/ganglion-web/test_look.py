"""What is answered without a server, and news: numbered, kept up to a bound, summed up for who is slow."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import ganglion_web.look
from ganglion.cli.settings import Settings
from ganglion_web.curves import POINTS_MAX, Bin, over_runs, thinned
from ganglion_web.kernels import Kernels
from ganglion_web.look import Look
from ganglion_web.news import KEPT, WAITING, News

ASKED: dict[str, Callable[[Look], Any]] = {
    "runs": lambda look: look.runs(),
    "run": lambda look: look.run("one-1"),
    "document": lambda look: look.document("one-1"),
    "processes": lambda look: look.processes("one-1"),
    "topology": lambda look: look.topology("one-1"),
    "curves": lambda look: look.curves("one-1"),
    "results": lambda look: look.results("one-1", "episodes", None, None, 10),
    "logs": lambda look: look.logs("one-1"),
    "sweeps": lambda look: look.sweeps(),
}


@pytest.fixture
def look(folder: Path) -> Look:
    """Return who answers for the folder of the page."""
    settings = dataclasses.replace(Settings.load(), results=folder / "results")
    return Look(settings, Kernels(settings, News()))


@pytest.mark.parametrize("name", ASKED)
def test_store_is_opened_once(look: Look, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One question opens the store one time."""
    opened = []
    real = ganglion_web.look.open_reader

    def counted(settings: Settings) -> Any:
        opened.append(settings)
        return real(settings)

    monkeypatch.setattr(ganglion_web.look, "open_reader", counted)
    ASKED[name](look)

    assert 1 == len(opened)


def _bins(returns: list[float]) -> list[Bin]:
    return [Bin(i, i, 1, 2.0, value, 1, value, value, 0.5, 1) for i, value in enumerate(returns)]


@pytest.mark.parametrize("points", [1, 7, 500, POINTS_MAX])
def test_thinned_curves_keep_count_mean_and_bounds(points: int) -> None:
    """However few points there are, all episodes are counted, and least, greatest and mean are those of all."""
    returns = [float((i * 37) % 101) for i in range(POINTS_MAX)]
    [curve] = thinned({(0, "train", "ada"): _bins(returns)}, points)

    assert len(curve["mean"]) <= points
    assert (len(returns), min(returns), max(returns)) == (sum(curve["count"]), min(curve["low"]), max(curve["high"]))
    assert sum(returns) == pytest.approx(sum(m * n for m, n in zip(curve["mean"], curve["count"], strict=True)))
    assert 2.0 * len(returns) == curve["step"][-1]


def test_band_of_equal_runs_is_that_of_their_means() -> None:
    """Each run weighs the same; the band is from the least to the greatest of the runs."""
    key = (0, "train", "ada")
    [curve] = over_runs([{key: _bins([1.0, 2.0])}, {key: _bins([3.0, 6.0])}], 10)

    assert (2, [2.0, 4.0], [1.0, 2.0], [3.0, 6.0]) == (curve["runs"], curve["mean"], curve["low"], curve["high"])


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
