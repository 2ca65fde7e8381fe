"""A driver for plugins: our own host in a thread of this process, with queues for a socket."""

from __future__ import annotations

import queue
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence

from ganglion.errors import GanglionError, PeerLost
from ganglion.peer.main import host_of, live
from ganglion.testing.kit.peer import End, Peer, Place
from ganglion.wire.name import Role

__all__ = ["PluginDriver"]

_NO_LONGER = None  # what stands in a queue for the end of the connection
_LONG_S = 1e6


class _Link:
    """Be the plugin's end of the connection."""

    def __init__(self, out: queue.SimpleQueue[list[bytes] | None]) -> None:
        self.inbox: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
        self._out = out
        self._lost = False

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message."""
        if self._lost:
            raise PeerLost("broker", "it closed the connection")
        self._out.put([bytes(frame) for frame in frames])

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return one message, or None after `timeout_s`."""
        if self._lost:
            raise PeerLost("broker", "it closed the connection")
        try:
            found = self.inbox.get(timeout=_LONG_S if timeout_s is None else timeout_s)
        except queue.Empty:
            return None
        if found is _NO_LONGER:
            self._lost = True
            raise PeerLost("broker", "it closed the connection")
        return found

    def close(self) -> None:
        """End the connection."""
        self._out.put(_NO_LONGER)


class _PluginPeer:
    """Run one host until it leaves."""

    def __init__(self, place: Place, variables: Mapping[str, str]) -> None:
        self._heard: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
        self._link = _Link(self._heard)
        self._end: End | None = None
        self._over = False
        self._variables = {
            **variables,
            "GANGLION_NAME": place.name,
            "GANGLION_TOKEN": place.token,
            "GANGLION_ROLE": place.role,
            "GANGLION_INCARNATION": "1",
        }
        self._thread = threading.Thread(target=self._run, name="plugin", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            host = host_of(Role(self._variables["GANGLION_ROLE"]), self._variables)
            status = live(host, lambda: self._link, self._variables, pulse=False)
            self._end = End(status)
        except GanglionError as error:
            self._end = End(error.exit_status, str(error))
        except BaseException as error:  # noqa: BLE001 - a plugin may raise whatever it likes, SystemExit included
            self._end = End(1, "".join(traceback.format_exception(error)))
        self._heard.put(_NO_LONGER)

    def receive(self, span_s: float) -> list[bytes] | None:
        """Return its next message; None if nothing comes within `span_s`; PeerLost when it has ended."""
        if self._over:
            raise PeerLost("the peer", "it closed the connection")
        try:
            found = self._heard.get(timeout=span_s)
        except queue.Empty:
            return None
        if found is _NO_LONGER:
            self._over = True
            raise PeerLost("the peer", "it closed the connection")
        return found

    def send(self, frames: Sequence[bytes]) -> None:
        """Send it one message."""
        if self._end is not None:
            raise PeerLost("the peer", "it closed the connection")
        self._link.inbox.put([bytes(frame) for frame in frames])

    def cut(self) -> None:
        """Be gone without a word."""
        self._link.inbox.put(_NO_LONGER)

    def terminate(self) -> None:
        """Do nothing: there is no process to end."""

    def ended(self, span_s: float) -> End | None:
        """Return how it ended, None if it has not within `span_s`."""
        self._thread.join(span_s)
        return self._end

    def stop(self) -> None:
        """End the connection; a hook that hangs stays behind in its thread, which ends with this process."""
        self.cut()
        self._thread.join(1.0)
        if self._thread.is_alive():
            sys.stderr.write(f"{self._variables['GANGLION_NAME']}: a hook has not returned\n")


class PluginDriver:
    """Start the host of a plugin of ours, as a run does, without a process."""

    program = False
    again = True

    def __init__(self, name: str, folder: str = "", allow: Sequence[str] = ()) -> None:
        self.what = name
        self._variables = {"GANGLION_FOLDER": folder, "GANGLION_ALLOW": ",".join(allow)}

    def start(self, place: Place) -> Peer:
        """Start the host; what goes wrong with the plugin itself is its answer to the first call."""
        return _PluginPeer(place, self._variables)
