"""Endpoints: `ipc:///path` and `tcp://host:port`, and which of them stay on this machine."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from ganglion.errors import LaunchError

_LOOPBACK_4, _LOOPBACK_6 = 127, bytes(15) + b"\1"
_PATH_BYTES_MAX = 107  # sun_path of Linux holds 108 with its zero; macOS 104, where bind says so itself


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Say where a broker is: `path` of a socket file, or `host` and `port`."""

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
        """Say whether only this machine can reach it."""
        if self.path or self.host == "localhost":
            return True
        try:  # by hand: the module ipaddress would be a twentieth of a broker's start
            if ":" in self.host:
                return socket.inet_pton(socket.AF_INET6, self.host) == _LOOPBACK_6
            return socket.inet_pton(socket.AF_INET, self.host)[0] == _LOOPBACK_4
        except OSError:
            return False  # a name may lead anywhere


def parse_endpoint(text: str) -> Endpoint:
    """Return the endpoint that `text` names; LaunchError says what is wrong with it."""
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
