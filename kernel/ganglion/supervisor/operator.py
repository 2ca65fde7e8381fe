"""An operator's side: joins a living kernel with its connection file, asks, and leaves."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ganglion.errors import CallFailed, DeadlineExceeded, PeerLost, RemoteProtocolError
from ganglion.limits import DEADLINE_OTHER_S, HANDSHAKE_S, RETRY_S
from ganglion.supervisor.connection import Connection, find_connections, places, read_connection
from ganglion.transport.blocking import connect_blocking
from ganglion.wire.codec import codec_of, decode_map
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.messages import CALL_BY_NAME, PROTOCOL_VERSION, Hello, RunEvent, RunRequest, Subscribe
from ganglion.wire.name import KERNEL, Role, topic
from ganglion.wire.verb import Verb

_BEAT_HERE = (b"", encode_head(Head(Verb.BEAT, 0, "here")), b"")


class Operator(contextlib.AbstractContextManager["Operator"]):
    """Call a kernel as an operator, one call after the other; a context manager."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._serial = 1
        self._link = connect_blocking(connection.endpoint, HANDSHAKE_S, connection.keys("operator"))
        hello = Hello(PROTOCOL_VERSION, Role.OPERATOR.value, "operator", connection.operator_token, "python")
        try:
            self._link.send([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)])
            head, body = self._next(time.monotonic() + HANDSHAKE_S, "HELLO")
            if head.verb is not Verb.WELCOME:
                raise RemoteProtocolError(f"the kernel refuses: {decode_map(body).get('message', 'no reason given')}")
        except BaseException:
            self._link.close()
            raise

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave."""
        self._link.close()

    def ask(self, call: str, request: Any, span_s: float = DEADLINE_OTHER_S) -> Any:
        """Call the kernel, repeatedly while it is busy; return its reply, or raise CallFailed or DeadlineExceeded."""
        row = CALL_BY_NAME[call]
        self._serial += 1
        head = encode_head(Head(Verb.CALL, self._serial, call, None, int(1000 * span_s)))
        frames = [KERNEL.encode(), head, codec_of(row.request).encode(request)]
        self._link.send(frames)
        until_s = time.monotonic() + span_s
        while True:
            head_in, body = self._next(until_s, call)
            again_s: float | None = RETRY_S["broker"] if head_in.verb is Verb.LOST else None
            if head_in.verb is not Verb.LOST and head_in.serial != self._serial:
                continue
            if head_in.verb is Verb.REPLY:
                return codec_of(row.reply).decode(body)
            if head_in.verb is Verb.ERROR:
                tree = decode_map(body)
                again_s = retry_after_s(tree)
                if again_s is None or time.monotonic() + again_s > until_s:
                    raise CallFailed("the kernel", call, tree)
            if again_s is not None:
                time.sleep(again_s)
                self._link.send(frames)

    def follow(self, run: str, show: Callable[[RunEvent], None], over: Callable[[], bool]) -> None:
        """Show the events of a run until `over` says so; it is asked after each event, and every second."""
        self.ask("kernel.subscribe", Subscribe(topic(run, "events")))
        while not over():
            until_s = time.monotonic() + 1.0
            try:
                head, body = self._next(until_s, "events")
            except DeadlineExceeded:
                continue
            if head.verb is Verb.TELL and head.call == "event":
                show(codec_of(RunEvent).decode(body))

    def _next(self, until_s: float, what: str) -> tuple[Head, bytes]:
        """Return the next message that is no beat."""
        while True:
            frames = self._link.receive(max(0.0, until_s - time.monotonic()))
            if frames is None:
                raise DeadlineExceeded(f"the kernel did not answer {what} in time")
            head = decode_head(frames[1])
            if head.verb is Verb.BEAT:
                if not head.call:
                    self._link.send(_BEAT_HERE)
                continue
            return head, frames[2] if len(frames) > 2 else b""


def retry_after_s(failure: dict[str, Any]) -> float | None:
    """Return after how long a CALL is repeated; None if the failure is its answer."""
    after_ms = failure.get("retry_after_ms")
    if failure.get("kind") != "busy" or type(after_ms) is not int or after_ms <= 0:
        return None
    return after_ms / 1000


def find_kernel(results: Path, file: Path | None, daemon: bool = False) -> tuple[Path, Connection]:
    """Return the newest living kernel (or daemon), or that of `file`; PeerLost if there is none."""
    if file is not None:
        return file, read_connection(file)
    for path, connection in find_connections(results):
        if not (daemon and connection.run is not None):
            return path, connection
    looked = ", ".join(str(place) for place in places(results))
    raise PeerLost("kernel", f"no connection file of a living {'daemon' if daemon else 'kernel'} in {looked}")


def find_run(results: Path, file: Path | None, run: str) -> Operator:
    """Return an operator that has joined the kernel which knows a run; PeerLost if none does."""
    found = [find_kernel(results, file)] if file is not None else list(find_connections(results))
    reasons: list[str] = []
    for path, connection in found:
        try:
            operator = Operator(connection)
        except (PeerLost, DeadlineExceeded, RemoteProtocolError) as error:
            reasons.append(f"{path}: {error}")
            continue
        try:
            operator.ask("kernel.runs", RunRequest(run))
        except CallFailed as error:
            operator.close()
            reasons.append(f"{path}: {error.remote_message}")
            continue
        return operator
    if not found:
        find_kernel(results, file)  # says where was looked
    raise PeerLost(f"run {run}", "no living kernel knows it: " + "; ".join(reasons))
