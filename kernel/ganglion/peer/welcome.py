"""Welcome: the handshake of a participant, on each connection that it makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ganglion.errors import DeadlineExceeded, GanglionError, PeerLost, RemoteProtocolError
from ganglion.limits import RECONNECT_S
from ganglion.peer.link import Connect, LinkLike
from ganglion.wire.codec import codec_of, decode_map
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.messages import Hello, Welcome
from ganglion.wire.verb import Verb

_FIRST_S, _MOST_S = 0.01, 0.5  # between two tries to reach a broker that is lost
_T = TypeVar("_T")


def greet(connect: Connect, hello: Hello, timeout_s: float, again: bool) -> tuple[LinkLike, list[bytes]]:
    """Connect, say HELLO and return the link with the frames of WELCOME; `again` is that of `read_welcome`."""
    link = connect()
    try:
        link.send([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)])
        frames = link.receive(timeout_s)
        if frames is None:
            raise DeadlineExceeded(f"the kernel did not answer HELLO within {timeout_s} s")
        read_welcome(frames, hello, again)
    except GanglionError:
        link.close()
        raise
    return link, frames


def read_welcome(frames: Sequence[bytes], hello: Hello, again: bool) -> Welcome:
    """Return the answer to HELLO.

    Raises:
        PeerLost: Who joins `again` finds that the broker has not noticed yet that his former connection has ended.
        RemoteProtocolError: Says why the kernel refuses.
    """
    head = decode_head(frames[1])
    body = frames[2] if len(frames) > 2 else b""
    if head.verb is Verb.ERROR:
        tree = decode_map(body)
        text = f"the kernel refuses {hello.name!r}: {tree.get('message', 'no reason given')}"
        if again and tree.get("kind") == "name":
            raise PeerLost("broker", text)
        raise RemoteProtocolError(text)
    if head.verb is not Verb.WELCOME:
        raise RemoteProtocolError(f"expected WELCOME, found {head.verb.name}")
    return codec_of(Welcome).decode(body)


def insist(
    act: Callable[[], _T], clock: Callable[[], float], pause: Callable[[float], None], closed: Callable[[], bool]
) -> _T:
    """Do something with the broker, anew while that is lost, after ever longer pauses; return what comes of it.

    Raises:
        PeerLost: The broker did not come back in time, or we are `closed`.
        RemoteProtocolError: It refuses us.
    """
    until_s, delay_s = clock() + RECONNECT_S, _FIRST_S
    while True:
        try:
            return act()
        except RemoteProtocolError:
            raise
        except GanglionError as error:
            if clock() >= until_s or closed():
                text = f"it did not come back within {RECONNECT_S:g} s: {error}"
                raise PeerLost("broker", text) from error
        pause(delay_s)
        delay_s = min(2 * delay_s, _MOST_S)
