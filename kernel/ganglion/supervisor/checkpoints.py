"""Checkpoints: moments of a run's tapes that are kept while it goes on, and when it is interrupted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ganglion.errors import StoreError
from ganglion.run.loss import ours, recovers
from ganglion.supervisor.child import State
from ganglion.supervisor.moment import Moment, Moments

if TYPE_CHECKING:
    from ganglion.supervisor.runs import Run

__all__ = ["Checkpoints"]

_SHARE = 20  # a checkpoint may cost the twentieth part of the time between two
_AGAIN_S = 0.05
_STOP_S = 2.0  # how long an interrupted run may wait for a process that is being replaced just then


class Checkpoints:
    """Keep moments of one run.

    Where a program takes part that writes no tape, or where nobody comes back when he is lost, there are none.

    Args:
        run: The run.
        warn: Told why one could not be kept.
    """

    def __init__(self, run: Run, warn: Callable[[str], None]) -> None:
        self._run, self._warn = run, warn
        self._moments = Moments(run.folder.path)
        self._lock = asyncio.Lock()
        self._stopping = asyncio.Lock()
        self._stopped = False

    async def watch(self) -> None:
        """Keep a moment each time that the phase's `checkpoint_s` and twenty times the cost of the last have passed."""
        cost_s = 0.0
        while not self._run.over.is_set():
            phase = self._run.plan.phases[self._run.phase]
            await asyncio.sleep(max(phase.checkpoint_s, _SHARE * cost_s))
            if self._run.over.is_set() or self._stopped:
                return
            begun_s = time.monotonic()
            await self.take()
            cost_s = time.monotonic() - begun_s

    async def stop(self) -> None:
        """Keep the moment at which the run is interrupted; only the first time counts, and others wait for it."""
        async with self._stopping:
            until_s = time.monotonic() + _STOP_S
            while not self._stopped and self._possible() and time.monotonic() < until_s:
                self._stopped = await self.take(stop=True)
                if not self._stopped:
                    await asyncio.sleep(_AGAIN_S)
            self._stopped = True

    async def take(self, stop: bool = False) -> bool:
        """Keep the present moment; say whether that could be done."""
        async with self._lock:
            try:
                moment = self._note(stop)
                if moment is None:
                    return False
                facts = {"run": self._run.id, "phase": self._run.phase}
                await asyncio.to_thread(self._moments.keep, moment, facts)
            except StoreError as error:
                self._warn(f"{error}; should all processes be lost, the run goes on from an earlier one")
                return False
        return True

    def _note(self, stop: bool) -> Moment | None:
        """Note the lengths of all tapes; nothing else happens in this process meanwhile."""
        there = self._there() if self._possible() else None
        return None if there is None else self._moments.note(*there, stop)

    def _possible(self) -> bool:
        """Say whether all who take part write tapes."""
        run = self._run
        alive = run.begun and not run.over.is_set()
        return alive and recovers(run.plan) and all(ours(place) for place in run.places(run.phase))

    def _there(self) -> tuple[list[int], list[Path]] | None:
        """Return the processes of the phase and their tapes, None while one is missing."""
        run = self._run
        pids, tapes = [], []
        for place in (run.governor, *([run.keeper] if run.keeper else []), *run.places(run.phase)):
            member = run.members.get(place.name)
            if member is None or member.process is None or not member.joined:
                return None
            if member.child.state is not State.RUNNING:
                return None
            pids.append(member.process.pid)
            tapes.append(run.folder.tape(place))
        return pids, tapes
