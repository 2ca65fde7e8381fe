"""News: the events of live runs, numbered, kept up to a bound, sent to every open page."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping
from typing import Any

from ganglion.cli.table import json_text

KEPT = 5_000
"""The newest news, kept for pages that reconnect."""

WAITING = 500
"""The most news that wait for one page; a slower page gets the number of missed ones of each kind."""

GATHER_S, GATHER_MOST_S = 0.1, 1.0
"""The time over which news are gathered into one message, times the number of readers, up to the second one."""

SILENCE_S = 10.0
"""The time without news after which a page gets a sign of life."""


class News:
    """Number news, keep the newest, pass them to readers; `tell` may be called from any thread.

    Each server has its own `epoch`: a page that returns with a number of another epoch begins again.
    """

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._kept: deque[tuple[int, dict[str, Any]]] = deque(maxlen=KEPT)
        self._readers: dict[_Reader, asyncio.AbstractEventLoop] = {}
        self._lock = threading.Lock()

    @property
    def looked_at(self) -> bool:
        """Return whether there is a reader."""
        return bool(self._readers)

    def tell(self, kind: str, run: str, fields: Mapping[str, Any]) -> None:
        """Send an event of a run to all readers."""
        with self._lock:
            entry = (next(self._numbers), {"kind": kind, "run": run, **fields})
            self._kept.append(entry)
            readers = list(self._readers.items())
        for reader, loop in readers:
            try:
                loop.call_soon_threadsafe(reader.take, entry)
            except RuntimeError:
                continue  # the server is ending

    async def read(self, last: str | None, run: str | None) -> AsyncIterator[str]:
        """Yield messages of a stream of server-sent events, after the identity `last` if that is still known.

        The first message has the epoch, and whether news were missed: then a page has to ask for everything again.
        """
        reader = _Reader(run)
        with self._lock:
            self._readers[reader] = asyncio.get_running_loop()
            known, missed = self._since(last)
        try:
            yield _message("hello", {"epoch": self.epoch, "missed": missed})
            for entry in known:
                reader.take(entry)
            while True:
                found = await reader.gather(min(GATHER_S * len(self._readers), GATHER_MOST_S))
                yield _message("news", found[1], f"{self.epoch}-{found[0]}") if found else ": here\n\n"
        finally:
            with self._lock:
                self._readers.pop(reader, None)

    def _since(self, last: str | None) -> tuple[list[tuple[int, dict[str, Any]]], bool]:
        """Return the news after an identity, and whether some of them were dropped."""
        epoch, _, number = (last or "").partition("-")
        if epoch != self.epoch or not number.isdecimal():
            return [], last is not None
        known = [entry for entry in self._kept if entry[0] > int(number)]
        first = known[0][0] if known else int(number) + 1
        return known, first > int(number) + 1


class _Reader:
    """Hold the news that wait for one page."""

    def __init__(self, run: str | None) -> None:
        self._run = run
        self._waiting: deque[tuple[int, dict[str, Any]]] = deque()
        self._missed: Counter[str] = Counter()
        self._there = asyncio.Event()

    def take(self, entry: tuple[int, dict[str, Any]]) -> None:
        """Take one piece of news; with too many, count and drop the oldest."""
        if self._run is not None and entry[1]["run"] not in ("", self._run):
            return
        if len(self._waiting) >= WAITING:
            self._missed[self._waiting.popleft()[1]["kind"]] += 1
        self._waiting.append(entry)
        self._there.set()

    async def gather(self, span_s: float) -> tuple[int, dict[str, Any]] | None:
        """Return the newest number and all waiting news after a span; None after a while without any.

        Of several lists of a run's processes the newest is returned.
        """
        try:
            await asyncio.wait_for(self._there.wait(), SILENCE_S)
        except TimeoutError:
            return None
        await asyncio.sleep(span_s)
        self._there.clear()
        number = self._waiting[-1][0]
        newest = {entry["run"]: entry for _, entry in self._waiting if entry["kind"] == "processes"}
        news = [
            entry
            for _, entry in self._waiting
            if newest.get(entry["run"], entry) is entry or entry["kind"] != "processes"
        ]
        missed = dict(self._missed)
        self._waiting.clear()
        self._missed.clear()
        return number, {"news": news, "missed": missed}


def _message(kind: str, data: Mapping[str, Any], identity: str | None = None) -> str:
    head = f"id: {identity}\n" if identity else ""
    return f"{head}event: {kind}\ndata: {json_text(data)}\n\n"
