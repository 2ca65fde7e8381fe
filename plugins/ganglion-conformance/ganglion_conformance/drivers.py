"""Drivers: how the kit reaches the peer that it judges: a program, one that attaches, or a plugin in memory."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ganglion.errors import GanglionError, LaunchError, PeerLost
from ganglion.peer.main import host_of, live
from ganglion.transport.curve import new_pair
from ganglion.wire.name import Role
from ganglion_conformance.listener import CurveListener, Listener, NativeListener

__all__ = ["AttachedDriver", "Driver", "End", "Peer", "Place", "PluginDriver", "ProgramDriver"]


@dataclass(frozen=True, slots=True)
class Place:
    """Say where a peer is to take its place, as the variables of its environment do.

    `curve` is empty for a bus without CURVE; `right` lets it in, with `wrong` the peer gets another server's key.
    `silence_ms` is after what silence of the bus it should give up.
    """

    role: str
    name: str
    token: str
    curve: str = ""
    silence_ms: int | None = None


@dataclass(frozen=True, slots=True)
class End:
    """Say how a peer ended: its exit status (negative: the signal) and what it wrote to its standard error."""

    status: int
    words: str = ""


class Peer(Protocol):
    """One life of a peer, and its connection to the kit."""

    def receive(self, span_s: float) -> list[bytes] | None:
        """Return its next message; None if nothing comes within `span_s`; PeerLost when its connection has ended."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send it one message; PeerLost when its connection has ended."""

    def cut(self) -> None:
        """Be gone, as a kernel that was killed: no word, no connection, nobody who listens."""

    def terminate(self) -> None:
        """Ask the system to end it, by SIGTERM."""

    def ended(self, span_s: float) -> End | None:
        """Return how it ended, None if it has not within `span_s`."""

    def stop(self) -> None:
        """Leave nothing of it behind."""


class Driver(Protocol):
    """Start a peer, as often as the kit asks."""

    @property
    def what(self) -> str:
        """Return the peer in a few words, for the report."""

    @property
    def program(self) -> bool:
        """Say whether it is a process that the kit starts: it can be asked how it ends, and to speak CURVE."""

    @property
    def again(self) -> bool:
        """Say whether it can be started more than once."""

    def start(self, place: Place) -> Peer:
        """Start it; LaunchError if it cannot be."""


_WORDS = 2000  # characters of what a program said last that are kept


class _ProgramPeer:
    """Be one process of a program."""

    def __init__(self, listener: Listener, process: subprocess.Popen[bytes] | None, errors: Any) -> None:
        self._listener = listener
        self._process = process
        self._errors = errors
        self.receive = listener.receive
        self.send = listener.send
        self.cut = listener.close

    def terminate(self) -> None:
        """Ask the system to end it, by SIGTERM."""
        if self._process is not None:
            self._process.terminate()

    def ended(self, span_s: float) -> End | None:
        """Return how it ended, None if it has not within `span_s`."""
        if self._process is None:
            return None
        try:
            status = self._process.wait(span_s)
        except subprocess.TimeoutExpired:
            return None
        self._errors.seek(0)
        return End(status, self._errors.read().decode(errors="backslashreplace")[-_WORDS:])

    def stop(self) -> None:
        """Leave nothing of it behind: what it has started goes with it."""
        self._listener.close()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._errors.close()


class ProgramDriver:
    """Start a command with the variables of its place, and listen for it."""

    program = True
    again = True

    def __init__(self, argv: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
        self._argv = list(argv)
        self._variables = dict(variables or {})
        self.what = os.path.basename(argv[-1] if len(argv) > 1 else argv[0])  # noqa: PTH119 - no path is meant

    def start(self, place: Place) -> Peer:
        """Start it; LaunchError if it cannot be."""
        listener, variables = _listen(place)
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the peer's `stop`
        ours = {k: v for k, v in os.environ.items() if not k.startswith("GANGLION_") or k == "GANGLION_AUDIT"}
        try:
            process = subprocess.Popen(
                self._argv,
                env={**ours, **self._variables, **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            listener.close()
            errors.close()
            raise LaunchError(f"{self._argv[0]}: {error.strerror or error}") from error
        return _ProgramPeer(listener, process, errors)


class AttachedDriver:
    """Wait for a program that somebody else starts; tell on standard error by which variables it finds us."""

    program = False
    again = False

    def __init__(self, uid: str) -> None:
        self.what = uid

    def start(self, place: Place) -> Peer:
        """Listen, and say where."""
        listener, variables = _listen(place)
        for name, value in variables.items():
            sys.stderr.write(f"{name}={value}\n")
        sys.stderr.write("waiting for a program that is started with these variables\n")
        sys.stderr.flush()
        return _ProgramPeer(listener, None, tempfile.TemporaryFile())


def _listen(place: Place) -> tuple[Listener, dict[str, str]]:
    """Return a listener, and the variables by which a peer finds its place at it."""
    variables = {
        "GANGLION_NAME": place.name,
        "GANGLION_TOKEN": place.token,
        "GANGLION_ROLE": place.role,
        "GANGLION_INCARNATION": "1",
        "GANGLION_RUN": "kit",
    }
    if place.silence_ms is not None:
        variables["GANGLION_SILENCE_MS"] = str(place.silence_ms)
    listener: Listener
    if place.curve:
        server, other, client = new_pair(), new_pair(), new_pair()
        listener = CurveListener(server)
        variables["GANGLION_SERVER_KEY"] = (server if place.curve == "right" else other).public
        variables["GANGLION_PUBLIC_KEY"] = client.public
        variables["GANGLION_SECRET_KEY"] = client.secret
    else:
        listener = NativeListener()
    return listener, {"GANGLION_ENDPOINT": listener.endpoint, **variables}


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
