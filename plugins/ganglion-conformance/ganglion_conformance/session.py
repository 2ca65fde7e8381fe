"""One conversation of the kit with a peer: HELLO heard, WELCOME said, calls asked and answered."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from ganglion.errors import PeerLost, RemoteProtocolError
from ganglion.limits import (
    BEAT_AFTER_SILENCE_S,
    BEAT_ANSWER_S,
    BODY_BYTES,
    FRAME_BYTES,
    INTEGER_MAX,
    MESSAGE_BYTES,
    MESSAGE_FRAMES,
)
from ganglion.wire.codec import Content, decode_map, encode_map
from ganglion.wire.envelope import Head, Position, decode_head, encode_head
from ganglion.wire.messages import PROTOCOL_VERSION
from ganglion.wire.verb import Verb
from ganglion_conformance.case import Miss, expect
from ganglion_conformance.drivers import End, Peer, Place

CALLER = "kit/controller/0"
_SUPERVISOR = "supervisor"
_LOOK_S = 0.25  # between two looks whether it has ended
LEAVE_S = 2.0  # from BYE to the end of the process


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold the answer to a CALL: `fields` of its body, and the frames as they came."""

    verb: Verb
    fields: dict[str, Any]
    frames: tuple[bytes, ...]

    @property
    def failed(self) -> bool:
        """Say whether it is ERROR."""
        return self.verb is Verb.ERROR

    @property
    def text(self) -> str:
        """Return it as it stands in a report."""
        if self.failed:
            return f"ERROR {self.fields.get('kind')}: {self.fields.get('message')!s:.200}"
        return f"REPLY {self.fields!r:.120}"

    def granted(self, where: str, what: str) -> Answer:
        """Return the answer unless it is ERROR; Miss says that `what` was expected."""
        expect(not self.failed, f"{where}: expected {what}, found {self.text}")
        return self


@dataclass(slots=True)
class Session:
    """Play the bus for one life of a peer.

    `hello` are the frames of its first message. `started` says whether a phase was begun. `said` are messages that
    nobody awaited. `calls` answers what the peer asks of others: name of a call -> body of the reply.
    """

    peer: Peer
    place: Place
    deadline_s: float
    hello: list[bytes] = field(default_factory=list)
    content: Content = Content.MSGPACK
    serial: int = 0
    started: bool = False
    lost: bool = False
    errors: list[dict[str, Any]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    calls: Callable[[str, dict[str, Any]], tuple[dict[str, Any], Sequence[bytes]]] | None = None
    spans: list[float] = field(default_factory=list)

    # -- joining ------------------------------------------------------------------------------------------------------
    def listen(self, span_s: float) -> None:
        """Wait for HELLO."""
        until_s = time.perf_counter() + span_s
        frames, over = None, False
        try:
            while frames is None and not over:
                left_s = until_s - time.perf_counter()
                over = left_s <= 0.0 or self.peer.ended(0.0) is not None
                frames = self.peer.receive(max(0.0, min(left_s, _LOOK_S)))
        except PeerLost as error:
            raise Miss(f"expected HELLO, found the end: {error.reason}{self.last_words()}") from error
        if frames is None:
            raise Miss(f"expected HELLO within {span_s:g} s, heard nothing{self.last_words()}")
        self.hello = frames

    def hello_fields(self) -> dict[str, Any]:
        """Return the body of HELLO; Miss if it has none."""
        if len(self.hello) < 3:
            raise Miss(f"HELLO: expected the frames [name] [head] [body], found {len(self.hello)} frames")
        try:
            return decode_map(self.hello[2])
        except RemoteProtocolError as error:
            raise Miss(f"HELLO: body: {error}") from error

    def welcome(self) -> None:
        """Let the peer join, as the kernel does."""
        content = self.hello_fields().get("content", "msgpack")
        self.content = Content.JSON if content == "json" else Content.MSGPACK
        body = {
            "version": PROTOCOL_VERSION,
            "name": self.name,
            "incarnation": 1,
            "beat_after_s": BEAT_AFTER_SILENCE_S,
            "beat_answer_s": BEAT_ANSWER_S,
            "limits": {
                "body_bytes": BODY_BYTES,
                "frame_bytes": FRAME_BYTES,
                "message_bytes": MESSAGE_BYTES,
                "message_frames": MESSAGE_FRAMES,
                "integer_max": INTEGER_MAX,
            },
            "run": "kit",
            "worker": 0,
            "next": "await the first call from your controller",
        }
        self.say("", Head(Verb.WELCOME, 1), body)

    @property
    def name(self) -> str:
        """Return the name that WELCOME gives: one that attaches has asked by its uid."""
        name = self.place.name
        return name if "/" in name else f"kit/{self.place.role}/{name}/0"

    def refuse(self, kind: str, message: str) -> None:
        """Answer HELLO by ERROR."""
        self.say("", Head(Verb.ERROR, 1), {"kind": kind, "message": message})

    # -- talking ------------------------------------------------------------------------------------------------------
    def say(
        self, source: str, head: Head, body: Mapping[str, Any] | bytes | None = None, blobs: Sequence[bytes] = ()
    ) -> None:
        """Send a message; a map is encoded as the peer likes it."""
        packed = body if isinstance(body, bytes) else b"" if body is None else self.encode(body)
        self.peer.send([source.encode(), encode_head(head), packed, *blobs])

    def encode(self, body: Mapping[str, Any]) -> bytes:
        """Return a map as a body; NaN and infinity too, which our own codec refuses to JSON alone."""
        if self.content is Content.JSON:
            return encode_map(dict(body), Content.JSON)
        packed = msgpack.packb(body)
        assert isinstance(packed, bytes)
        return packed

    def ask(
        self,
        call: str,
        body: Mapping[str, Any] | bytes | None = None,
        *,
        serial: int | None = None,
        position: Position | None = None,
        blobs: Sequence[bytes] = (),
        source: str = CALLER,
    ) -> Answer:
        """Send a CALL and return its answer; Miss if none comes in time."""
        if serial is None:
            self.serial += 1
            serial = self.serial
        deadline_ms = int(1000 * self.deadline_s)
        since_s = time.perf_counter()
        self._carefully(
            call, lambda: self.say(source, Head(Verb.CALL, serial, call, position, deadline_ms), body, blobs)
        )
        answer = self._await(call, serial, source, since_s + self.deadline_s)
        self.spans.append(time.perf_counter() - since_s)
        if answer.failed:
            self.errors.append({"call": call, **answer.fields})
        return answer

    def _await(self, call: str, serial: int, source: str, until_s: float) -> Answer:
        others: list[str] = []
        while True:
            frames = self.hear(call, until_s - time.perf_counter())
            if frames is None:
                self.lost = True
                found = f"; it said {', '.join(others)}" if others else ""
                raise Miss(f"{call}: expected an answer within {self.deadline_s:g} s, heard none{found}")
            head = self._head(frames, call)
            if head.verb is Verb.CALL:
                self._serve(head, frames)
            elif head.verb in (Verb.REPLY, Verb.ERROR) and head.serial == serial:
                if frames[0] != source.encode():
                    self.lost = True
                    raise Miss(f"{call}: expected the answer to go to {source}, found {frames[0]!r:.60}")
                return Answer(head.verb, self._fields(frames, call), tuple(frames))
            else:
                others.append(f"{head.verb.name} with serial {head.serial}")

    def _serve(self, head: Head, frames: Sequence[bytes]) -> None:
        """Answer what the peer asks of another one."""
        to = frames[0].decode()
        if self.calls is None:
            failure = {"kind": "forbidden", "message": f"no peer is there that could be asked {head.call}"}
            self.say(to, Head(Verb.ERROR, head.serial), failure)
            return
        body, blobs = self.calls(head.call, self._fields(frames, head.call))
        self.say(to, Head(Verb.REPLY, head.serial), body, blobs)

    def hear(self, what: str, span_s: float) -> list[bytes] | None:
        """Return the next message, None if none comes in time; Miss when the connection has ended."""
        found: list[list[bytes] | None] = []
        self._carefully(what, lambda: found.append(self.peer.receive(max(span_s, 0.0))))
        return found[0]

    def _carefully(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except PeerLost as error:
            self.lost = True
            raise Miss(f"{what}: the program ended: {error.reason}{self.last_words()}") from error

    def _head(self, frames: Sequence[bytes], what: str) -> Head:
        if len(frames) < 2:
            self.lost = True
            raise Miss(f"{what}: expected the frames [name] [head] [body], found {len(frames)} frames")
        try:
            return decode_head(frames[1])
        except RemoteProtocolError as error:
            self.lost = True
            raise Miss(f"{what}: {error}") from error

    def _fields(self, frames: Sequence[bytes], what: str) -> dict[str, Any]:
        if len(frames) < 3 or not frames[2]:
            return {}
        try:
            return decode_map(frames[2])
        except RemoteProtocolError as error:
            raise Miss(f"{what}: body of the answer: {error}") from error

    # -- beats and leaving --------------------------------------------------------------------------------------------
    def beat(self, span_s: float) -> Head:
        """Ask whether it is there, and return the head of the answer; Miss if none comes in time."""
        self._carefully("BEAT", lambda: self.say("", Head(Verb.BEAT)))
        frames = self.hear("BEAT", span_s)
        if frames is None:
            raise Miss(f"BEAT: expected BEAT here within {span_s:g} s, heard nothing")
        expect(frames[0] == b"", f"BEAT: expected its answer to the kernel, found it to {frames[0]!r:.60}")
        return self._head(frames, "BEAT")

    def bye(self) -> list[list[bytes]]:
        """Bid it to leave, as the supervisor does, and take leave of it; return all that it says until its end."""
        self.lost = True  # whatever comes of it, nothing more can be asked
        self._carefully("BYE", lambda: self.say(_SUPERVISOR, Head(Verb.BYE, 1)))
        heard: list[list[bytes]] = []
        until_s = time.perf_counter() + LEAVE_S
        try:
            while (left_s := until_s - time.perf_counter()) > 0.0:
                frames = self.peer.receive(left_s)
                if frames is None:
                    break
                heard.append(frames)
                if self._head(frames, "BYE").verb is Verb.BYE and len(heard) == 1:
                    with contextlib.suppress(PeerLost):  # it need not wait for ours
                        self.say("", Head(Verb.BYE, 1))
        except PeerLost:  # which is how a peer leaves
            pass
        return heard

    def end(self, span_s: float) -> End:
        """Return how the peer ended; Miss if it lives after `span_s`, Skip where it is no process of ours."""
        found = self.peer.ended(span_s)
        if found is None:
            raise Miss(f"expected it to end within {span_s:g} s, it is still there")
        return found

    def last_words(self) -> str:
        """Return what the peer wrote last, as the end of a sentence; empty if it has not ended."""
        found = self.peer.ended(0.2)
        if found is None:
            return ""
        words = found.words.strip().splitlines()
        return f" (exit status {found.status}" + (f"; its last words: {words[-1][:200]}" if words else "") + ")"
