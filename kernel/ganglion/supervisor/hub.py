"""The hub: the broker's process and our place on its bus; another broker in its place when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from ganglion.errors import GanglionError, LaunchError, PeerLost
from ganglion.limits import LEAVE_TERMINATE_S, RESTARTS_WITHIN_S
from ganglion.supervisor.access import Access
from ganglion.supervisor.bus import Bus
from ganglion.supervisor.launcher import Launcher
from ganglion.supervisor.process import Process, end
from ganglion.supervisor.restarts import Restarts
from ganglion.transport.binding import Bound, bind_local
from ganglion.wire.messages import Admit

__all__ = ["Hub", "Patron"]

NAME = "broker"
_DYING_S = 1.0  # between the end of its connections and that of its process


class Patron(Protocol):
    """Whose broker it is: says who may join it, and hears how it fares."""

    def wants_broker(self) -> bool:
        """Say whether another broker is to take the place of one that is lost."""

    def admissions(self) -> list[Admit]:
        """Return who may join."""

    def interests(self) -> tuple[list[str], list[str]]:
        """Return the topics that we read, and the names that we watch."""

    def broker_lost(self, how: str, words: list[str], returns: bool) -> None:
        """Hear how a broker ended, with the last words of its process, and whether there will be another one."""

    def broker_back(self, took_s: float) -> None:
        """Hear that there is a broker again, after so many seconds."""


class Hub:
    """Keep a broker running at endpoints that stay ours while there is none.

    The sockets that listen are held here and handed to each broker: whoever connects while there is none waits, and
    nobody else can listen there. A broker knows who may join, and which incarnations have been succeeded, before it
    hears anybody.

    Args:
        launcher: Starts its process.
        access: Tokens and keys, the same for each broker.
        patron: Whose broker it is.
        bus: Our place on the bus; it joins each broker in turn.
        words_of: Says how a process ended.
        log: Where its output goes.
    """

    def __init__(
        self,
        launcher: Launcher,
        access: Access,
        patron: Patron,
        bus: Bus,
        words_of: Callable[[Process], str],
        log: Path | None = None,
    ) -> None:
        self.process: Process | None = None
        self.since_s = math.inf  # when the present broker was there for us, by the loop's clock
        self.bus = bus
        self._launcher = launcher
        self._access = access
        self._patron = patron
        self._words_of = words_of
        self._log = log
        self._bound: list[Bound] = []
        self._remote: list[str] = []
        self._lifeline = -1
        self._restarts = Restarts()
        self._reviving: asyncio.Task[None] | None = None
        self._opening = False
        self._closing = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def open(self, endpoints: Sequence[str], remote: Sequence[str] = ()) -> dict[str, list[str]]:
        """Listen, start the first broker and join it; return its endpoints as bound.

        LaunchError says what prevents that.
        """
        for text in endpoints:
            self._bound.append(bind_local(text))
        self._opening = True
        try:
            answer = await self._open(remote)
        finally:
            self._opening = False
        self.since_s = self._loop.time()
        assert self.process is not None
        if self.process.ended.is_set():
            self._ended(self.process)
        return answer

    async def _open(self, remote: Sequence[str]) -> dict[str, list[str]]:
        """Start the first broker and join it; one that is killed meanwhile is replaced, as later ones are."""
        while True:
            try:
                answer = await self._start(remote)
                self._remote = answer.get("remote", [])
                await self._join()
            except PeerLost as error:
                delay_s = self._restarts.next_s(NAME, self._loop.time())
                if delay_s is None:
                    raise LaunchError(f"the broker does not come up: {error}") from error
                await self._clear_away()
                await asyncio.sleep(delay_s)
            else:
                return answer

    async def close(self) -> None:
        """Leave the bus and end the broker."""
        self._closing.set()
        if self._reviving is not None:
            await asyncio.wait([self._reviving])
        self.bus.close()
        self._cut_lifeline()
        if self.process is not None:
            await end(self.process)
        self._give_endpoints_up()

    def there_since(self, moment_s: float) -> bool:
        """Say whether there has been a broker without a break since a moment of the loop's clock."""
        return self._reviving is None and not self.bus.closed and self.since_s <= moment_s

    def bus_closed(self) -> bool:
        """Make sure that a broker which has left us ends; say whether another one comes.

        Its end is what begins the next one, or fails the runs.
        """
        process = self.process
        if process is not None and not self._closing.is_set():
            self._loop.call_later(_DYING_S, process.signal, signal.SIGTERM)
            self._loop.call_later(_DYING_S + LEAVE_TERMINATE_S, process.signal, signal.SIGKILL)
        return self._opening or self._reviving is not None or self._wanted()

    def _wanted(self) -> bool:
        return not self._closing.is_set() and self._patron.wants_broker()

    # -- one broker ---------------------------------------------------------------------------------------------------
    async def _start(self, remote: Sequence[str]) -> dict[str, list[str]]:
        descriptors = [bound.listening.fileno() for bound in self._bound]
        endpoints, admissions = [bound.endpoint for bound in self._bound], self._patron.admissions()
        order = self._access.order(endpoints, remote, descriptors, admissions)
        self.process, line, self._lifeline = await self._launcher.serve(
            NAME, ["-m", "ganglion.transport.server"], order, self._ended, self._log, descriptors
        )
        self.bus.heard_s = self._loop.time()
        answer: dict[str, list[str]] = json.loads(line)
        if "endpoints" not in answer:
            raise LaunchError(f"the broker does not come up: {answer.get('error', 'no reason given')}")
        return answer

    def _cut_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def _give_endpoints_up(self) -> None:
        for bound in self._bound:
            bound.close()
        self._bound = []

    # -- the next one -------------------------------------------------------------------------------------------------
    def _ended(self, process: Process) -> None:
        if (
            self._closing.is_set()
            or process is not self.process
            or self._reviving is not None
            or self._opening
        ):
            return  # who waits for one that is coming up sees it
        how, words = self._how(process), list(process.output.lines)
        delay_s = self._delay_s()
        self._patron.broker_lost(how, words, delay_s is not None)
        if delay_s is None:
            self._give_up(how)
        else:
            self._reviving = asyncio.ensure_future(self._revive(delay_s))
            self.bus.lose(how)

    def _how(self, process: Process) -> str:
        return f"{'was' if (process.code or 0) < 0 else 'ended with'} {self._words_of(process)}"

    def _delay_s(self) -> float | None:
        """Return after how long the next broker is started; None if there is to be none."""
        now_s = self._loop.time()
        if now_s - self.since_s > RESTARTS_WITHIN_S:
            self._restarts = Restarts()  # what was before has nothing to do with this
        return self._restarts.next_s(NAME, now_s) if self._wanted() else None

    def _give_up(self, how: str) -> None:
        self.bus.fail(f"it {how}")
        self._give_endpoints_up()

    async def _revive(self, delay_s: float) -> None:
        lost_s, how = self._loop.time(), ""
        next_s: float | None = delay_s
        while next_s is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), next_s)
            if self._closing.is_set():
                return
            try:
                await self._replace()
            except (GanglionError, OSError) as error:
                how = f"is gone, and another one does not come up: {error}"
                await self._clear_away()
                next_s = self._delay_s()
                continue
            self._reviving = None
            self.since_s = self._loop.time()
            self._patron.broker_back(self.since_s - lost_s)
            return
        self._reviving = None
        if not self._closing.is_set():
            self._patron.broker_lost(how, [], False)
            self._give_up(how)

    async def _replace(self) -> None:
        """Start another broker and join it; PeerLost if it ends before we have."""
        self._cut_lifeline()
        await self._start(self._remote)
        await self._join()

    async def _join(self) -> None:
        """Join the present broker; PeerLost if it ends before we have."""
        process = self.process
        assert process is not None
        topics, watched = self._patron.interests()
        joining = asyncio.ensure_future(
            self.bus.join(self._bound[0].endpoint, self._access.supervisor_token, topics, watched)
        )
        ending = asyncio.ensure_future(process.ended.wait())
        await asyncio.wait([joining, ending], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if process.ended.is_set():
            joining.cancel()
            await asyncio.wait([joining])
            raise PeerLost(NAME, f"it {self._how(process)}")
        await joining

    async def _clear_away(self) -> None:
        """End a broker that came up and could not be joined."""
        self.bus.lose("another one is coming")
        self._cut_lifeline()
        if self.process is not None:
            self.process.signal(signal.SIGKILL)
            await self.process.ended.wait()
