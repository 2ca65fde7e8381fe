"""News: what is told of live runs, numbered, kept up to a bound, handed to every page that looks on."""

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
"""The newest news, which a page that was away for a while is still told one by one."""

WAITING = 500
"""The most news that wait for one page; a page that is slower is told how many of each kind it has missed."""

GATHER_S, GATHER_MOST_S = 0.1, 1.0
"""For so long news are gathered into one message of the stream, times the readers there are, up to the second."""

SILENCE_S = 10.0
"""After so long without news a page is told that the server is there."""


class News:
    """Number news, keep the newest, hand them to readers; `tell` may be called from any thread.

    `epoch` is another one for each server: a page that comes back with a number of another epoch begins anew.
    """

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._kept: deque[tuple[int, dict[str, Any]]] = deque(maxlen=KEPT)
        self._readers: dict[_Reader, asyncio.AbstractEventLoop] = {}
        self._lock = threading.Lock()

    @property
    def looked_at(self) -> bool:
        """Say whether anybody reads."""
        return bool(self._readers)

    def tell(self, kind: str, run: str, fields: Mapping[str, Any]) -> None:
        """Tell all readers of something that happened to a run."""
        with self._lock:
            entry = (next(self._numbers), {"kind": kind, "run": run, **fields})
            self._kept.append(entry)
            readers = list(self._readers.items())
        for reader, loop in readers:
            try:
                loop.call_soon_threadsafe(reader.take, entry)
            except RuntimeError:
                continue  # its server is just ending

    async def read(self, last: str | None, run: str | None) -> AsyncIterator[str]:
        """Yield messages of a stream of server-sent events, from behind the identity `last` if it is known still.

        The first message says the epoch, and whether news were missed: then a page has to look at everything anew.
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
        """Return the news behind an identity, and whether some of them are gone."""
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
        """Take one piece of news; the oldest that waits is counted instead where there are too many."""
        if self._run is not None and entry[1]["run"] not in ("", self._run):
            return
        if len(self._waiting) >= WAITING:
            self._missed[self._waiting.popleft()[1]["kind"]] += 1
        self._waiting.append(entry)
        self._there.set()

    async def gather(self, span_s: float) -> tuple[int, dict[str, Any]] | None:
        """Return the newest number and all that waits after a span; None after a while without any.

        Of the processes of a run the newest are told alone.
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
