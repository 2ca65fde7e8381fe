"""ZMTP 3.0 and 3.1 with the NULL mechanism: bytes in, events out; no socket and no clock.

The protocol is that of https://rfc.zeromq.org/spec/23/ (3.0) and /37/ (3.1). A DEALER and its broker need this part of
it: a greeting of 64 bytes, one READY command each, then messages of frames, and the commands PING, PONG and ERROR,
which may also come between the frames of one message. Items that `TRANSITIONS` does not list are refused.

A length is compared with its bound before memory is reserved for it. Received data is kept in the pieces in which it
arrived, so that a large frame can be forwarded without being joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ganglion import limits
from ganglion.errors import LocalProtocolError, RemoteProtocolError

MORE, LONG, COMMAND = 1, 2, 4  # the flag bits of a frame's first byte; all others are reserved

_ERROR_TEXT_BYTES = 255  # the length of an ERROR's reason is one byte

GREETING = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
assert len(GREETING) == limits.GREETING_BYTES

_SHORT_LAST = tuple(bytes((0, n)) for n in range(256))
_SHORT_MORE = tuple(bytes((MORE, n)) for n in range(256))


def frame_header(size: int, more: bool) -> bytes:
    """Return the header of a frame of `size` bytes: two bytes up to 255, else nine."""
    if size < 256:
        return _SHORT_MORE[size] if more else _SHORT_LAST[size]
    return (b"\x03" if more else b"\x02") + size.to_bytes(8, "big")


def encode(frames: Sequence[bytes]) -> list[bytes]:
    """Return a message as pieces in wire format, frames uncopied; LocalProtocolError for an empty message."""
    if not frames:
        raise LocalProtocolError("expected a message of at least one frame, found none")
    parts: list[bytes] = []
    last = len(frames) - 1
    for index, frame in enumerate(frames):
        size = len(frame)
        if size > 255:
            parts.append((b"\x03" if index < last else b"\x02") + size.to_bytes(8, "big"))
        else:
            parts.append(_SHORT_MORE[size] if index < last else _SHORT_LAST[size])
        parts.append(frame)
    return parts


def encode_command(name: bytes, data: bytes) -> bytes:
    """Return a command frame."""
    body = bytes((len(name),)) + name + data
    if len(body) < 256:
        return bytes((COMMAND, len(body))) + body
    return bytes((COMMAND | LONG,)) + len(body).to_bytes(8, "big") + body


def encode_error(reason: str) -> bytes:
    """Return an ERROR command; the reason is cut to 255 bytes."""
    data = reason.encode("ascii", "replace")[:_ERROR_TEXT_BYTES]
    return encode_command(b"ERROR", bytes((len(data),)) + data)


def encode_ready(socket_type: bytes) -> bytes:
    """Return a READY command with a socket type and an empty identity."""
    data = b""
    for name, value in ((b"Socket-Type", socket_type), (b"Identity", b"")):
        data += bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value
    return encode_command(b"READY", data)


def split(data: bytes, start: int, messages: list[list[bytes]], frames_max: int = limits.MESSAGE_FRAMES) -> int:
    """Append the plain, complete messages that begin at `start`; return the position of the first other one.

    A command, an unfinished message or a breach of the protocol is not plain, and is left to `Connection.advance`.
    """
    end = len(data)
    try:
        while start < end:
            frames: list[bytes] = []
            stop = start
            more = 1
            while more:
                flags = data[stop]
                if flags < 2:
                    begin = stop + 2
                    stop = begin + data[stop + 1]
                elif flags < 4:
                    begin = stop + 9
                    stop = begin + int.from_bytes(data[stop + 1 : begin], "big")
                else:
                    return start
                frames.append(data[begin:stop])
                more = flags & 1
            if stop > end or len(frames) > frames_max:
                return start
            messages.append(frames)
            start = stop
    except IndexError:  # the chunk ends within a header; cheaper than a check at each byte
        pass
    return start


_SIGNATURE_BYTES = 10
_VERSION_BYTES = 11  # up to here the greetings of all versions agree
_PING_CONTEXT_BYTES = 16  # the bound of the 3.1 specification
_MERGE_BYTES = 4096  # smaller pieces are merged: a sender of single bytes must not cost an object each
_MERGED_BYTES = 64 * 1024  # a merged piece ends at this size, so that no large frame is copied as a whole


State = Enum("State", "SIGNATURE VERSION READY HELLO OPEN CLOSING")
"""State of a connection: the item that it waits for."""

Item = Enum("Item", "SIGNATURE GREETING READY MESSAGE PING PONG ERROR")
"""Items that a connection may receive."""

TRANSITIONS: dict[State, dict[Item, State]] = {
    State.SIGNATURE: {Item.SIGNATURE: State.VERSION},
    State.VERSION: {Item.GREETING: State.READY},
    State.READY: {Item.READY: State.HELLO, Item.ERROR: State.CLOSING},
    # HELLO differs from OPEN in its bounds; the broker's core ensures that the first message is a HELLO.
    State.HELLO: {Item.MESSAGE: State.HELLO, Item.PING: State.HELLO, Item.ERROR: State.CLOSING},
    State.OPEN: {Item.MESSAGE: State.OPEN, Item.PING: State.OPEN, Item.PONG: State.OPEN, Item.ERROR: State.CLOSING},
    State.CLOSING: {},
}


@dataclass(frozen=True, slots=True)
class Message:
    """Hold one complete message: for each frame the pieces in which it arrived."""

    pieces: tuple[tuple[bytes, ...], ...]

    @property
    def frames(self) -> list[bytes]:
        """Return the frames, each in one piece."""
        return [frame[0] if len(frame) == 1 else b"".join(frame) for frame in self.pieces]

    def encode_body(self) -> list[bytes]:
        """Return the frames after the head in wire format, without joining a large one."""
        parts: list[bytes] = []
        body = self.pieces[2:]
        for index, frame in enumerate(body, 1):
            parts += [frame_header(sum(map(len, frame)), more=index < len(body)), *frame]
        return parts


@dataclass(frozen=True, slots=True)
class Broken:
    """Report the end of the connection: send the rest of `outgoing`, then close."""

    reason: str


Event = Message | Broken


# == bytes in: the whole table ========================================================================================
class Connection:
    """Decode one side of one connection; all bytes enter by `advance`, on the client's side through `messages`.

    `listening` is the broker's side, which accepts a DEALER and begins with the bounds of an unjoined connection. The
    other side is a DEALER that accepts a ROUTER.
    """

    def __init__(self, listening: bool, message_bytes: int = limits.MESSAGE_BYTES_LARGE) -> None:
        self.listening = listening
        self.state = State.SIGNATURE
        self.outgoing = bytearray(GREETING)  # what must be sent, and then cleared, after each `advance`
        self.plain = False  # whether the next byte begins a message of an open connection, as `split` requires
        self.minor = 0
        self.silence_s: float | None = None  # tolerated silence that the other side requested: the TTL of its PING
        self.unfinished_bytes = 0  # announced by the incomplete message
        self.taken_bytes = 0  # of all messages, without commands
        self._held = bytearray()  # incomplete greeting, header or command
        self._left = -1  # bytes of the current frame still to come; -1: its header is incomplete
        self._more = False
        self._is_command = False
        self._frame: list[bytes] = []  # pieces of the current frame
        self._tail: bytearray | None = None  # merged small pieces; the end of the current frame
        self._frames: list[tuple[bytes, ...]] = []  # complete frames of the current message
        self._command_since_s = 0.0
        self._command_count = 0
        self._size_max = limits.UNJOINED_MESSAGE_BYTES if listening else message_bytes
        self._frames_max = limits.UNJOINED_MESSAGE_FRAMES if listening else limits.MESSAGE_FRAMES
        self._frame_bytes_max = min(limits.FRAME_BYTES, self._size_max)

    @property
    def unfinished(self) -> bool:
        """Return whether a frame or a message has begun and not ended."""
        return self._left >= 0 or bool(self._frames or self._held)

    @property
    def arrived_bytes(self) -> int:
        """Return the number of received bytes of the unfinished message, which is its present memory."""
        return self.unfinished_bytes - (0 if self._is_command else max(self._left, 0))

    def join(self, message_bytes: int = limits.MESSAGE_BYTES) -> None:
        """Grant the other side the bounds of a joined peer."""
        if self.state is State.HELLO:
            self.state = State.OPEN
            self.plain = not self.unfinished
            self._size_max = message_bytes
            self._frames_max = limits.MESSAGE_FRAMES
            self._frame_bytes_max = min(limits.FRAME_BYTES, message_bytes)

    def close(self) -> None:
        """Stop receiving; the received part of an unfinished message is dropped."""
        self.state = State.CLOSING
        self.plain = False
        self._held.clear()
        self._frame, self._frames, self._tail = [], [], None
        self._left = -1
        self.unfinished_bytes = 0

    def messages(self, data: bytes, now_s: float) -> list[list[bytes]]:
        """Return the messages that `data` completes, for a side without other decisions.

        Raises:
            RemoteProtocolError: the connection is over. Messages before the breach in the same chunk are lost with it.
        """
        found: list[list[bytes]] = []
        position, end = 0, len(data)
        while position < end:
            if self.plain:
                position = split(data, position, found)
                if position == end:
                    break
            event, position = self.advance(data, position, now_s)
            if type(event) is Message:
                found.append(event.frames)
            elif type(event) is Broken:
                raise RemoteProtocolError(event.reason)
        return found

    def advance(self, data: bytes, position: int, now_s: float) -> tuple[Event | None, int]:
        """Process bytes of `data` from `position` on until an event occurs.

        Returns the event, or None, and the next position; call it again until that is the end of `data`. After `Broken`
        the state is CLOSING and bytes are dropped. `now_s` is any monotonic time; it bounds the rate of commands.
        """
        try:
            if self.state not in (State.SIGNATURE, State.VERSION, State.CLOSING):
                event, position = self._take_frames(data, position, now_s)
                self.plain = self.state is State.OPEN and not self.unfinished
                return event, position
            if self.state is State.CLOSING:
                return None, len(data)
            return None, self._take_greeting(data, position)
        except RemoteProtocolError as error:
            self.close()
            return Broken(str(error)), len(data)

    # -- greeting -----------------------------------------------------------------------------------------------------
    def _take_greeting(self, data: bytes, position: int) -> int:
        held = self._held
        known = _VERSION_BYTES if len(held) < _VERSION_BYTES else limits.GREETING_BYTES
        stop = _SIGNATURE_BYTES if self.state is State.SIGNATURE else known  # end of the next part to check
        fresh = data[position : position + stop - len(held)]
        held += fresh
        if self.state is State.SIGNATURE:
            # Checked from the first byte on: a foreign protocol may wait for an answer without limit.
            for index, byte in ((0, 0xFF), (_SIGNATURE_BYTES - 1, 0x7F)):
                if len(held) > index and held[index] != byte:
                    raise RemoteProtocolError(
                        f"signature: expected ZMTP's {byte:02x} at byte {index}, found {held[index]:02x}"
                    )
            if len(held) >= _SIGNATURE_BYTES:
                self._enter(Item.SIGNATURE)
        elif len(held) == _VERSION_BYTES:
            if held[_SIGNATURE_BYTES] < 3:  # it would not understand an ERROR
                raise RemoteProtocolError(
                    f"version: expected ZMTP 3.0 or newer, found major version {held[_SIGNATURE_BYTES]}"
                )
        elif len(held) == limits.GREETING_BYTES:
            self._take_mechanism()
        return position + len(fresh)

    def _take_mechanism(self) -> None:
        held = self._held
        mechanism = bytes(held[12:32])
        self.minor = held[11] if held[10] == 3 else 1
        held.clear()
        self._enter(Item.GREETING)
        if mechanism != GREETING[12:32]:
            name = mechanism.rstrip(b"\0").decode("ascii", "replace")[:20]
            self._refuse(f"mechanism: expected NULL, found {name!r}")
        self.outgoing += encode_ready(b"ROUTER" if self.listening else b"DEALER")

    def _enter(self, item: Item) -> None:
        state = TRANSITIONS[self.state].get(item)
        if state is None:
            self._refuse(f"expected {_words(self.state)}, found {item.name}")
        else:
            self.state = state

    def _refuse(self, reason: str) -> None:
        """End the connection with a reason that the other side can read."""
        self.outgoing += encode_error(reason)
        raise RemoteProtocolError(reason)

    # -- frames -------------------------------------------------------------------------------------------------------
    def _take_frames(self, data: bytes, position: int, now_s: float) -> tuple[Event | None, int]:
        end = len(data)
        while position < end:
            if self._left < 0:
                position = self._take_header(data, position)
                if self._left < 0:
                    return None, end
            take = min(self._left, end - position)
            if take:
                self._keep(data[position : position + take])
                position += take
                self._left -= take
            if self._left == 0:
                event = self._finish_command(now_s) if self._is_command else self._finish_frame()
                if event is not None:
                    return event, position
        return None, end

    def _take_header(self, data: bytes, position: int) -> int:
        """Read the 2 or 9 bytes before a frame, and begin the frame if its announced size is allowed."""
        held = self._held
        if not held:
            held.append(data[position])
            position += 1
            self._check_flags(held[0])
        fresh = data[position : position + (9 if held[0] & LONG else 2) - len(held)]
        held += fresh
        if len(held) == (9 if held[0] & LONG else 2):
            flags, size = held[0], int.from_bytes(held[1:], "big")
            held.clear()
            self._check_size(flags, size)
            self._left = size
            self._is_command = bool(flags & COMMAND)
            if not self._is_command:
                self._more = bool(flags & MORE)
                self.unfinished_bytes += size
        return position + len(fresh)

    def _check_flags(self, flags: int) -> None:
        if flags > 7 or flags & (COMMAND | MORE) == COMMAND | MORE:
            self._refuse(f"frame: expected flags 0 to 4 or 6, found {flags}")
        if not flags & COMMAND:
            self._enter(Item.MESSAGE)

    def _check_size(self, flags: int, size: int) -> None:
        if flags & COMMAND:
            if size > limits.COMMAND_BYTES:
                self._refuse(f"command: expected at most {limits.COMMAND_BYTES} bytes (command_bytes), found {size}")
        elif size > self._frame_bytes_max:
            self._refuse(f"frame: expected at most {self._frame_bytes_max} bytes (frame_bytes), found {size}")
        elif self.unfinished_bytes + size > self._size_max:
            found = self.unfinished_bytes + size
            self._refuse(f"message: expected at most {self._size_max} bytes (message_bytes), found {found}")
        elif len(self._frames) >= self._frames_max:
            self._refuse(f"message: expected at most {self._frames_max} frames (message_frames), found more")

    def _keep(self, piece: bytes) -> None:
        if self._is_command:
            self._held += piece
            return
        self.taken_bytes += len(piece)
        whole = self._left == len(piece) and self._tail is None
        if whole or len(piece) >= _MERGE_BYTES:
            self._seal_tail()
            self._frame.append(piece)
            return
        if self._tail is None:
            self._tail = bytearray()
        self._tail += piece
        if len(self._tail) >= _MERGED_BYTES:
            self._seal_tail()

    def _seal_tail(self) -> None:
        if self._tail is not None:
            self._frame.append(bytes(self._tail))
            self._tail = None

    def _finish_frame(self) -> Message | None:
        self._seal_tail()
        self._frames.append(tuple(self._frame) or (b"",))
        self._frame = []
        self._left = -1
        self.taken_bytes += 1  # an empty frame is progress, too
        if self._more:
            return None
        message = Message(tuple(self._frames))
        self._frames = []
        self.unfinished_bytes = 0
        return message

    # -- commands -----------------------------------------------------------------------------------------------------
    def _finish_command(self, now_s: float) -> Event | None:
        body = bytes(self._held)
        self._held.clear()
        self._left = -1
        self._is_command = False
        self._count_command(now_s)
        size = body[0] if body else 0
        name, data = body[1 : 1 + size], body[1 + size :]
        item = _COMMANDS.get(name)
        if item is None or len(name) != size:
            self._refuse(f"command: expected {_words(self.state)}, found {name[:20]!r}")
            return None
        self._enter(item)
        if item is Item.READY:
            self._ready(data)
        elif item is Item.PING:
            self._ping(data)
        elif item is Item.ERROR:
            reason = data[1 : 1 + data[0]].decode("ascii", "replace") if data else ""
            self.close()
            return Broken(f"the other side says: {reason or 'nothing'}")
        return None

    def _count_command(self, now_s: float) -> None:
        if now_s - self._command_since_s >= 1.0:
            self._command_since_s, self._command_count = now_s, 0
        self._command_count += 1
        if self._command_count > limits.COMMANDS_PER_S:
            self._refuse(f"command: expected at most {limits.COMMANDS_PER_S} in a second, found more")

    def _ready(self, data: bytes) -> None:
        expected = b"DEALER" if self.listening else b"ROUTER"
        properties = self._properties(data)
        kind = properties.get(b"socket-type", b"")
        identity = properties.get(b"identity", b"")
        if kind != expected:
            self._refuse(f"READY: expected Socket-Type {expected.decode()}, found {kind[:20]!r}")
        if len(identity) > limits.IDENTITY_BYTES:
            self._refuse(f"READY: expected an Identity of at most {limits.IDENTITY_BYTES} bytes, found {len(identity)}")
        if not self.listening:
            self.state = State.OPEN

    def _properties(self, data: bytes) -> dict[bytes, bytes]:
        properties: dict[bytes, bytes] = {}
        position = 0
        while position < len(data):
            name_end = position + 1 + data[position]
            begin = name_end + 4
            name = data[position + 1 : name_end].lower()
            position = begin + int.from_bytes(data[name_end:begin], "big")
            if not name or position > len(data):
                self._refuse("READY: expected properties with a name and a value, found one that is cut")
            if name in properties or len(properties) >= limits.METADATA_PROPERTIES:
                self._refuse(f"READY: expected at most {limits.METADATA_PROPERTIES} properties, each once, found more")
            properties[name] = data[begin:position]
        return properties

    def _ping(self, data: bytes) -> None:
        if not 2 <= len(data) <= 2 + _PING_CONTEXT_BYTES:
            self._refuse(f"PING: expected a time and 0 to {_PING_CONTEXT_BYTES} bytes of context, found {len(data)}")
        time_to_live_ds = int.from_bytes(data[:2], "big")
        self.silence_s = time_to_live_ds / 10 if time_to_live_ds else None
        if self.minor >= 1:
            self.outgoing += encode_command(b"PONG", data[2:])


_COMMANDS = {b"READY": Item.READY, b"PING": Item.PING, b"PONG": Item.PONG, b"ERROR": Item.ERROR}


def _words(state: State) -> str:
    return " or ".join(item.name for item in TRANSITIONS[state])
