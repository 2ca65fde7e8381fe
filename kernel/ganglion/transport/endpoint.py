"""Endpoints: `ipc:///path` and `tcp://host:port`, which of them are local, and sockets bound there."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ganglion.errors import DeadlineExceeded, LaunchError, PeerLost

_BACKLOG = 128  # connections that the system queues until they are accepted
_OWNER_ALONE = 0o600
_LOOPBACK_4, _LOOPBACK_6 = 127, bytes(15) + b"\1"
_PATH_BYTES_MAX = 107  # sun_path of Linux holds 108 with its zero; macOS 104, where bind reports the error


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Hold the address of a broker: the `path` of a socket file, or `host` and `port`."""

    path: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.path:
            return f"ipc://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"

    @property
    def local(self) -> bool:
        """Return whether only this machine can reach the endpoint."""
        if self.path or self.host == "localhost":
            return True
        try:  # without the module ipaddress, whose import takes a twentieth of a broker's start
            if ":" in self.host:
                return socket.inet_pton(socket.AF_INET6, self.host) == _LOOPBACK_6
            return socket.inet_pton(socket.AF_INET, self.host)[0] == _LOOPBACK_4
        except OSError:
            return False  # a name may resolve to any machine


def parse_endpoint(text: str) -> Endpoint:
    """Return the endpoint that `text` denotes; LaunchError says what is wrong with it."""
    scheme, found, rest = text.partition("://")
    if found and scheme == "ipc":
        if not rest.startswith("/"):
            raise LaunchError(f"endpoint {text!r}: expected an absolute path after ipc://, which abstract names lack")
        if len(rest.encode()) > _PATH_BYTES_MAX:
            raise LaunchError(f"endpoint {text!r}: expected a path of at most {_PATH_BYTES_MAX} bytes")
        return Endpoint(path=rest)
    if found and scheme == "tcp":
        host, _, port = rest.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if host and port.isascii() and port.isdigit() and int(port) < 65536:
            return Endpoint(host=host, port=int(port))
        raise LaunchError(f"endpoint {text!r}: expected tcp://host:port with a port of 0 to 65535")
    raise LaunchError(f"endpoint {text!r}: expected ipc:///path or tcp://host:port")


@contextlib.contextmanager
def connecting(endpoint: str, timeout_s: float, close: Callable[[], None]) -> Iterator[None]:
    """On a failed connection call `close` and raise PeerLost or DeadlineExceeded with the reason."""
    try:
        yield
    except BaseException as error:
        close()
        if isinstance(error, TimeoutError):
            raise DeadlineExceeded(f"{endpoint}: expected a broker's handshake within {timeout_s} s") from error
        if isinstance(error, OSError):
            raise PeerLost("broker", f"{endpoint}: {error.strerror or error}") from error
        raise


@dataclass(frozen=True, slots=True)
class Bound:
    """Hold a listening socket, and its endpoint as bound.

    While one process holds the socket, no other process can listen there. A peer that connects while no process accepts
    waits: a broker that inherits the socket after the death of another one finds its peers waiting.
    """

    listening: socket.socket
    endpoint: str
    _inode: int = 0

    def close(self) -> None:
        """Stop listening, and remove the socket file unless a successor has replaced it."""
        self.listening.close()
        path = parse_endpoint(self.endpoint).path
        if path:
            with contextlib.suppress(OSError):
                if Path(path).lstat().st_ino == self._inode:
                    Path(path).unlink()


def bind_local(text: str) -> Bound:
    """Listen at an endpoint that only this machine can reach; LaunchError gives the reason of a failure.

    A socket file has mode 0600; a missing folder is made with mode 0700. A socket file without a listener is replaced;
    it belongs to a broker that has died.
    """
    endpoint = parse_endpoint(text)
    if not endpoint.local:
        raise LaunchError(f"endpoint {text!r}: expected one that only this machine can reach, without encryption")
    try:
        if endpoint.path:
            return _bind_ipc(endpoint)
        listening = _bind_tcp(endpoint)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise LaunchError(f"{text} is in use: another process listens there already") from error
        raise LaunchError(f"{text} cannot be bound: {error.strerror or error}") from error
    return Bound(listening, str(Endpoint(host=endpoint.host, port=listening.getsockname()[1])))


def _bind_ipc(endpoint: Endpoint) -> Bound:
    path = Path(endpoint.path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_unused(path)
    fresh = path.with_name(f".{os.getpid()}.new")  # renamed once it listens: peers find no socket before that
    fresh.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(fresh))
        fresh.chmod(_OWNER_ALONE)  # before it listens: until then no peer can connect, whatever the mode
        listening.listen(_BACKLOG)
        fresh.rename(path)
    except OSError:
        listening.close()
        fresh.unlink(missing_ok=True)
        raise
    return Bound(listening, str(endpoint), path.lstat().st_ino)


def _bind_tcp(endpoint: Endpoint) -> socket.socket:
    host = "127.0.0.1" if endpoint.host == "localhost" else endpoint.host
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, endpoint.port))
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def check_unused(path: Path) -> None:
    """Raise LaunchError if a process listens at `path`, or if `path` is not a socket."""
    if not path.exists():
        return
    if not path.is_socket():
        raise LaunchError(f"ipc://{path} cannot be bound: a file that is no socket is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        try:
            trial.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
    raise LaunchError(f"ipc://{path} is in use: another process listens there already")
