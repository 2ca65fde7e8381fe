"""One conversation of an environment, byte for byte, as the broker's core and the codec make it."""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ganglion.broker.core import Broker
from ganglion.broker.link import Link, Send
from ganglion.limits import DEADLINE_OTHER_S, DEADLINES_S
from ganglion.transport.zmtp import Connection, encode
from ganglion.wire.codec import codec_of, decode_map
from ganglion.wire.conversation import Conversation
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.messages import (
    PROTOCOL_VERSION,
    Admit,
    Bye,
    EnvironmentDeclared,
    EnvironmentReset,
    EnvironmentStart,
    EnvironmentUpdate,
    EnvironmentUpdated,
    Hello,
    Nothing,
)
from ganglion.wire.verb import Verb

CONTROLLER, ENVIRONMENT = "demo-1/controller/0", "demo-1/environment/field/0"
_TOKEN = "A" * 43  # 32 bytes of zero in base64url: an example, and nobody's secret
_WIDTH = 96


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one thing that was said: its name, `->` or `<-`, the bytes, and the frames if it is a message."""

    name: str
    arrow: str
    data: bytes
    frames: tuple[bytes, ...] = ()


class Talk:
    """Let an environment and a controller talk by way of a broker; keep what the environment hears and says.

    `lines` is the conversation as text, one block per message, `rows` the same as data.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.rows: list[Row] = []
        self._now_s = 0.0
        self._step = 0
        token = _TOKEN.encode()
        self._broker = Broker(hashlib.sha256(token).digest(), "0", 1, 0.0)
        self._links: dict[str, Link] = {}
        self._controller = Conversation()
        self._heard: list[list[bytes]] = []

    def shake_hands(self) -> None:
        """Write down greeting and READY of both sides; they must accept each other's."""
        client, broker = Connection(listening=False), Connection(listening=True)
        said = bytes(client.outgoing)
        client.outgoing.clear()
        broker.messages(said, 0.0)
        answered = bytes(broker.outgoing)
        broker.outgoing.clear()
        client.messages(answered, 0.0)
        ready = bytes(client.outgoing)
        self._raw("->", "greeting of the environment, 64 bytes", said)
        self._raw("<-", "greeting of the broker", answered[:64])
        self._raw("->", "command READY of the environment", ready)
        self._raw("<-", "command READY of the broker", answered[64:])

    def run(self) -> None:
        """Let everything happen that happens to an environment, in order."""
        self.shake_hands()
        self._join_others()
        link, _ = self._broker.connect(self._now_s)
        self._links[ENVIRONMENT] = link
        hello = Hello(PROTOCOL_VERSION, "environment", ENVIRONMENT, _TOKEN, "c", "msgpack", 1)
        self._say([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)])
        self._ask("environment.start", _START, _DECLARED)
        self._ask("environment.update", EnvironmentUpdate([[3.5]]), EnvironmentUpdated([[1]], [[0.5]], ticks=1))
        last = EnvironmentUpdated([[2]], [[1.0]], terminated=True, ticks=2)
        self._ask("environment.update", EnvironmentUpdate([[-1.0]]), last)
        self._ask("environment.reset", EnvironmentReset(1, 1234, bytes(32)), EnvironmentUpdated([[0]], [], ticks=0))
        self._beat()
        self._ask("environment.shutdown", Nothing(), None)
        bye = [ENVIRONMENT.encode(), encode_head(Head(Verb.BYE, 1)), b""]
        self._deliver(self._links["supervisor"], bye)
        self._say([b"", encode_head(Head(Verb.BYE, 1)), codec_of(Bye).encode(Bye())])

    # -- inside -------------------------------------------------------------------------------------------------------
    def _join_others(self) -> None:
        """Join supervisor and controller, out of sight."""
        for name, role, worker in (("supervisor", "supervisor", None), (CONTROLLER, "controller", 0)):
            link, _ = self._broker.connect(self._now_s)
            self._links[name] = link
            if name != "supervisor":
                self._admit(name, role, worker)
            hello = Hello(PROTOCOL_VERSION, role, name, _TOKEN)
            self._deliver(link, [b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)])
        self._admit(ENVIRONMENT, "environment", 0)

    def _admit(self, name: str, role: str, worker: int | None) -> None:
        admit = Admit(name, role, "demo-1", hashlib.sha256(_TOKEN.encode()).digest(), worker=worker)
        head = encode_head(Head(Verb.CALL, 1, "kernel.admit"))
        self._deliver(self._links["supervisor"], [b"", head, codec_of(Admit).encode(admit)])

    def _ask(self, call: str, request: Any, reply: Any) -> None:
        """Let the controller ask, and the environment answer."""
        body = codec_of(type(request)).encode(request)
        position = None
        if call == "environment.update":
            self._step += 1
            position = (0, 0, 0, 0, self._step, 0)
        span_s = DEADLINES_S.get(call.rpartition(".")[2], DEADLINE_OTHER_S)
        _, frames = self._controller.call(ENVIRONMENT, call, body, self._now_s, span_s, position)
        self._deliver(self._links[CONTROLLER], frames)
        serial = decode_head(frames[1]).serial
        answer = b"" if reply is None else codec_of(type(reply)).encode(reply)
        self._say([CONTROLLER.encode(), encode_head(Head(Verb.REPLY, serial)), answer])

    def _beat(self) -> None:
        """Let time pass until the broker asks."""
        while not self._heard:
            self._now_s += 0.25
            self._perform(self._broker.tick(self._now_s))
        self._show_heard()
        self._say([b"", encode_head(Head(Verb.BEAT, 1, "here")), b""])

    def _say(self, frames: list[bytes]) -> None:
        self._show("->", frames)
        self._deliver(self._links[ENVIRONMENT], frames)

    def _deliver(self, link: Link, frames: Sequence[bytes]) -> None:
        self._perform(self._broker.receive(link, frames, self._now_s))
        self._show_heard()

    def _perform(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Send) and effect.link is self._links.get(ENVIRONMENT):
                self._heard.append(list(effect.frames))

    def _show_heard(self) -> None:
        heard, self._heard = self._heard, []
        for frames in heard:
            self._show("<-", frames)

    def _show(self, arrow: str, frames: Sequence[bytes]) -> None:
        head = decode_head(frames[1])
        self.lines.append(f"{arrow} {head.verb.name} {head.call}".rstrip())
        pieces = encode(frames)
        name = f"{head.verb.name} {head.call}".rstrip()
        self.rows.append(Row(name, arrow, b"".join(pieces), tuple(bytes(frame) for frame in frames)))
        for index, frame in enumerate(frames):
            self._hex(pieces[2 * index] + frame)
            meaning = textwrap.wrap(_meaning(index, frame, arrow), _WIDTH)
            self.lines += [f"     {'=' if i == 0 else ' '} {line}" for i, line in enumerate(meaning)]
        self.lines.append("")

    def _raw(self, arrow: str, what: str, data: bytes) -> None:
        self.rows.append(Row(what, arrow, data))
        self.lines.append(f"{arrow} {what}")
        self._hex(data)
        self.lines.append("")

    def _hex(self, data: bytes) -> None:
        self.lines += [f"   {line}" for line in textwrap.wrap(data.hex(), _WIDTH)]


_START = EnvironmentStart(
    "demo-1", 0, "train", "train", 0, "field", {"size": 3}, 77, 78, bytes(range(32)), bytes(range(32, 64))
)
_DECLARED = EnvironmentDeclared(
    [{"id": "count", "space": {"type": "discrete", "n": 11, "start": 0}}],
    [{"id": "push", "space": {"type": "box", "shape": [], "dtype": "<f8", "low": -10, "high": 10}, "value": 0.0}],
    [[0]],
    [{"id": "gain", "space": {"type": "box", "shape": [], "dtype": "<f8", "low": "-inf", "high": "inf"}}],
    0,
)


def _meaning(index: int, frame: bytes, arrow: str) -> str:
    if index == 0:
        word = "to" if arrow == "->" else "from"
        return f"{word} {frame.decode() or 'the kernel: an empty frame'}"
    if index == 1:
        head = decode_head(frame)
        shown: list[Any] = [int(head.verb), head.serial, head.call or None, head.position, head.deadline_ms]
        while shown and shown[-1] is None:
            shown.pop()
        return "head " + json.dumps(shown)
    if not frame:
        return "body: empty, as good as an empty map"
    return "body " + json.dumps(decode_map(frame), default=lambda data: f"<{len(data)} bytes {data[:2].hex()}...>")


def conversation_text() -> str:
    """Return the conversation as text."""
    talk = Talk()
    talk.run()
    return "\n".join(talk.lines).rstrip() + "\n"
