"""The choice of a link: native on this machine, libzmq with CURVE where keys are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ganglion.errors import UsageError
from ganglion.transport.blocking import BlockingLink
from ganglion.transport.curve import ClientKeys
from ganglion.transport.endpoint import parse_endpoint

CONNECT_S = 5.0  # a broker of ours greets within milliseconds


class BlockingPeerLink(Protocol):
    """Be a link of a peer without an event loop; see `BlockingLink`."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message."""

    def receive(self, timeout_s: float | None = None) -> list[bytes] | None:
        """Return the next message, or None after `timeout_s`."""

    def pending(self) -> bool:
        """Say whether `receive` would return a message that has been read already."""

    def fileno(self) -> int:
        """Return the descriptor to wait for."""

    def close(self, linger_s: float = 0.5) -> None:
        """Close."""


def connect_blocking(endpoint: str, timeout_s: float = CONNECT_S, keys: ClientKeys | None = None) -> BlockingPeerLink:
    """Return a blocking link to the broker at `endpoint`; PeerLost or DeadlineExceeded if there is none.

    With `keys` it is encrypted. Without them UsageError for an endpoint on another machine: nothing is sent there that
    others could read.
    """
    if keys is None:
        _check_local(endpoint)
        return BlockingLink.connect(endpoint, timeout_s)
    from ganglion.transport.zmqlink import ZmqBlockingLink  # libzmq is loaded only where it is needed

    return ZmqBlockingLink.connect(endpoint, keys, timeout_s)


def _check_local(endpoint: str) -> None:
    if not parse_endpoint(endpoint).local:
        raise UsageError(
            f"{endpoint}: expected CURVE keys (GANGLION_SERVER_KEY, or a connection file that holds them) for a "
            f"kernel on another machine"
        )
