"""Drivers and listeners: how the kit reaches the peer that it judges: a program, one that attaches, or a plugin."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ganglion.errors import GanglionError, LaunchError, PeerLost, RemoteProtocolError
from ganglion.limits import HANDSHAKE_S, MESSAGE_BYTES_LARGE
from ganglion.peer.main import host_of, live
from ganglion.transport.curve import KeyPair, new_pair
from ganglion.transport.zmtp import Connection, State, encode
from ganglion.wire.name import Role

_READ_BYTES = 65_536
_PEER = "the peer"
_HEARTBEAT_MS, _HEARTBEAT_TIMEOUT_MS = 500, 1500


class NativeListener:
    """Listen on loopback as the native front does, for one peer.

    A connection that ends before its first message makes room for the next: libraries try again by themselves.
    """

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=1)
        self._socket: socket.socket | None = None
        self._connection = Connection(listening=True)
        self._messages: deque[list[bytes]] = deque()
        self._lost = ""
        self._spoken = False  # a message has come
        self.endpoint = f"tcp://127.0.0.1:{self._listening.getsockname()[1]}"

    def receive(self, span_s: float) -> list[bytes] | None:
        """Return the next message; None if none comes within `span_s`; PeerLost when the connection has ended."""
        until_s = time.monotonic() + span_s
        while not self._messages:
            left_s = until_s - time.monotonic()
            if self._lost:
                raise PeerLost(_PEER, self._lost)
            if left_s < 0.0 or not self._step(left_s):
                if left_s <= 0.0:
                    return None
        return self._messages.popleft()

    def _step(self, span_s: float) -> bool:
        """Wait for one thing to happen; False if nothing did."""
        source = self._socket or self._listening
        if not select.select([source], [], [], span_s)[0]:
            return False
        if self._socket is None:
            self._socket, _ = self._listening.accept()
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(HANDSHAKE_S * 5)
            self._speak()
        else:
            self._take(self._socket)
        return True

    def _take(self, connected: socket.socket) -> None:
        try:
            data = connected.recv(_READ_BYTES)
            if not data:
                raise PeerLost(_PEER, "it closed the connection")
            found = self._connection.messages(data, time.monotonic())
        except (OSError, PeerLost, RemoteProtocolError) as error:
            self._speak()
            if self._spoken or isinstance(error, RemoteProtocolError):
                self._lost = error.reason if isinstance(error, PeerLost) else str(error)
            else:
                connected.close()
                self._socket, self._connection = None, Connection(listening=True)
            return
        self._speak()
        self._spoken = self._spoken or bool(found)
        if found and self._connection.state is State.HELLO:
            self._connection.join(MESSAGE_BYTES_LARGE)
        self._messages.extend(found)

    def _speak(self) -> None:
        """Send what the handshake has to say."""
        if self._connection.outgoing and self._socket is not None:
            try:
                self._socket.sendall(self._connection.outgoing)
            except OSError as error:
                self._lost = self._lost or str(error)
            self._connection.outgoing.clear()

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message; PeerLost when the connection has ended."""
        if self._socket is None or self._lost:
            raise PeerLost(_PEER, self._lost or "it has not connected")
        try:
            self._socket.sendall(b"".join(encode(frames)))
        except OSError as error:
            self._lost = error.strerror or str(error)
            raise PeerLost(_PEER, self._lost) from error

    def close(self) -> None:
        """End the connection without a word, and listen no more."""
        self._lost = self._lost or "we closed the connection"
        self._listening.close()
        if self._socket is not None:
            self._socket.close()


class CurveListener:
    """Listen on loopback by libzmq with CURVE, for one peer that knows the public half of the key."""

    def __init__(self, keys: KeyPair) -> None:
        import zmq  # not before it is needed

        self._zmq = zmq
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._router.setsockopt(zmq.LINGER, 0)
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._router.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
        self._router.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS)
        self._router.setsockopt(zmq.CURVE_SERVER, 1)
        self._router.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
        port = self._router.bind_to_random_port("tcp://127.0.0.1")
        self._identity: bytes | None = None
        self.endpoint = f"tcp://127.0.0.1:{port}"

    def receive(self, span_s: float) -> list[bytes] | None:
        """Return the next message; None if none comes within `span_s`."""
        if self._router.closed:
            raise PeerLost(_PEER, "we closed the connection")
        if not self._router.poll(int(1000 * span_s)):
            return None
        self._identity, *frames = self._router.recv_multipart()
        return frames

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message; PeerLost when the connection has ended."""
        if self._router.closed or self._identity is None:
            raise PeerLost(_PEER, "it has not connected")
        try:
            self._router.send_multipart([self._identity, *frames])
        except self._zmq.ZMQError as error:  # EHOSTUNREACH
            raise PeerLost(_PEER, error.strerror or str(error)) from error

    def close(self) -> None:
        """End the connection without a word, and listen no more."""
        self._router.close(0)
        self._context.destroy(0)


Listener = NativeListener | CurveListener


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

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables that name it."""
        named = {"GANGLION_NAME": self.name, "GANGLION_TOKEN": self.token, "GANGLION_ROLE": self.role}
        return {**named, "GANGLION_INCARNATION": "1"}


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
    """One process of a program."""

    def __init__(self, listener: Listener, process: subprocess.Popen[bytes] | None, errors: Any) -> None:
        self._listener = listener
        self._process = process
        self._errors = errors
        self.receive = listener.receive
        self.send = listener.send
        self.cut = listener.close

    def terminate(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def ended(self, span_s: float) -> End | None:
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
    """Wait for a program that is started from outside; print to standard error the variables by which it joins."""

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
    variables = {**place.variables, "GANGLION_RUN": "kit"}
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
    """Hold one end of a connection in memory; `inbox` is what the other end sends into."""

    def __init__(self, other: str) -> None:
        self.inbox: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
        self.out: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
        self._other = other
        self._lost = False

    def send(self, frames: Sequence[bytes]) -> None:
        if self._lost:
            raise PeerLost(self._other, "it closed the connection")
        self.out.put([bytes(frame) for frame in frames])

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        if self._lost:
            raise PeerLost(self._other, "it closed the connection")
        try:
            found = self.inbox.get(timeout=_LONG_S if timeout_s is None else timeout_s)
        except queue.Empty:
            return None
        if found is _NO_LONGER:
            self._lost = True
            raise PeerLost(self._other, "it closed the connection")
        return found

    def close(self) -> None:
        self.out.put(_NO_LONGER)


class _PluginPeer:
    """Run one host until it leaves."""

    def __init__(self, place: Place, variables: Mapping[str, str]) -> None:
        self._link, self._own = _Link("broker"), _Link(_PEER)
        self._own.inbox, self._own.out = self._link.out, self._link.inbox
        self.receive = self._own.receive
        self.cut = self._own.close
        self._end: End | None = None
        self._variables = {**variables, **place.variables}
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
        self._link.close()

    def send(self, frames: Sequence[bytes]) -> None:
        if self._end is not None:
            raise PeerLost(_PEER, "it closed the connection")
        self._link.inbox.put([bytes(frame) for frame in frames])

    def terminate(self) -> None:
        """Do nothing: there is no process to end."""

    def ended(self, span_s: float) -> End | None:
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
