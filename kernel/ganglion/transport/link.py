"""The choice of a link: native on this machine, libzmq with CURVE where keys are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganglion.errors import UsageError
from ganglion.transport.blocking import BlockingLink
from ganglion.transport.curve import ClientKeys
from ganglion.transport.endpoint import parse_endpoint

if TYPE_CHECKING:
    from ganglion.transport.zmqlink import ZmqBlockingLink

CONNECT_S = 5.0  # a broker of ours greets within milliseconds


def connect_blocking(
    endpoint: str, timeout_s: float = CONNECT_S, keys: ClientKeys | None = None
) -> BlockingLink | ZmqBlockingLink:
    """Return a blocking link to the broker at `endpoint`; PeerLost or DeadlineExceeded if there is none.

    With `keys` it is encrypted. Without them UsageError for an endpoint on another machine: nothing is sent there that
    others could read.
    """
    if keys is None:
        if not parse_endpoint(endpoint).local:
            raise UsageError(
                f"{endpoint}: expected CURVE keys (GANGLION_SERVER_KEY, or a connection file that holds them) for a "
                f"kernel on another machine"
            )
        return BlockingLink.connect(endpoint, timeout_s)
    from ganglion.transport.zmqlink import ZmqBlockingLink  # libzmq is loaded only where it is needed

    return ZmqBlockingLink.connect(endpoint, keys, timeout_s)
