"""Accept connections of one listening socket, a few at a time, and rest where there is no room for more."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from ganglion.broker.effect import Note
from ganglion.limits import LISTENER_REST_S

__all__ = ["Listener"]

_ACCEPTS_PER_TURN = 16  # then those who are connected already have their turn


class Listener:
    """Hand each connection to a protocol of its own; needs a running event loop.

    Without descriptors (or memory) left the system goes on to say that somebody waits, and accepts nobody: who listens
    on spins. We rest instead, and look again ten times a second. Those who are connected are served meanwhile.
    """

    def __init__(
        self,
        listening: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        note: Callable[[Note], None],
    ) -> None:
        listening.setblocking(False)
        self._listening = listening
        self._protocol = protocol
        self._note = note
        self._loop = asyncio.get_running_loop()
        self._taking: set[asyncio.Task[None]] = set()
        self._waking: asyncio.TimerHandle | None = None
        self._loop.add_reader(listening.fileno(), self._accept)

    def close(self) -> None:
        """Listen no more; connections stay."""
        if self._listening.fileno() >= 0:
            if self._waking is None:
                self._loop.remove_reader(self._listening.fileno())
            else:
                self._waking.cancel()
            self._listening.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                connected, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # EMFILE, ENFILE, ENOBUFS, ENOMEM
                self._rest(error)
                return
            connected.setblocking(False)
            if connected.family != socket.AF_UNIX:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._take(connected))
            self._taking.add(task)
            task.add_done_callback(self._taking.discard)

    async def _take(self, connected: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connected)
        except OSError as error:
            connected.close()
            self._note(Note("warning", "connection.failed", {"reason": error.strerror or str(error)}))

    def _rest(self, error: OSError) -> None:
        self._loop.remove_reader(self._listening.fileno())
        self._waking = self._loop.call_later(LISTENER_REST_S, self._wake)
        self._note(Note("warning", "listener.resting", {"reason": error.strerror or str(error)}))

    def _wake(self) -> None:
        self._waking = None
        self._loop.add_reader(self._listening.fileno(), self._accept)
        self._accept()
