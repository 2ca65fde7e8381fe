"""The choice of a link by its endpoint: native on this machine, libzmq to another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ganglion.transport.asynclink import AsyncLink
from ganglion.transport.blocking import BlockingLink
from ganglion.transport.endpoint import parse_endpoint

__all__ = ["CONNECT_S", "AsyncPeerLink", "BlockingPeerLink", "connect_async", "connect_blocking"]

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


class AsyncPeerLink(Protocol):
    """Be a link of a peer with an event loop; see `AsyncLink`."""

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message."""

    async def drain(self) -> None:
        """Wait until the system has taken most of what was sent."""

    def close(self) -> None:
        """Close."""


def connect_blocking(endpoint: str, timeout_s: float = CONNECT_S) -> BlockingPeerLink:
    """Return a blocking link to the broker at `endpoint`; PeerLost or DeadlineExceeded if there is none."""
    if parse_endpoint(endpoint).local:
        return BlockingLink.connect(endpoint, timeout_s)
    from ganglion.transport.zmqlink import ZmqBlockingLink  # libzmq is loaded only where it is needed

    return ZmqBlockingLink.connect(endpoint, timeout_s)


async def connect_async(
    endpoint: str,
    on_message: Callable[[list[bytes]], None],
    on_closed: Callable[[str], None],
    timeout_s: float = CONNECT_S,
) -> AsyncPeerLink:
    """Return a link with callbacks to the broker at `endpoint`; PeerLost or DeadlineExceeded if there is none."""
    if parse_endpoint(endpoint).local:
        return await AsyncLink.connect(endpoint, on_message, on_closed, timeout_s)
    from ganglion.transport.zmqlink import ZmqAsyncLink

    return await ZmqAsyncLink.connect(endpoint, on_message, on_closed, timeout_s)
