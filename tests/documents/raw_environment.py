"""An environment without libzmq and without Ganglion: a socket, msgpack, and what kernel/PROTOCOL.md says."""

import os
import socket
from typing import Any

import msgpack

HELLO, WELCOME, CALL, REPLY, ERROR, BEAT, BYE = 1, 2, 3, 4, 5, 8, 10
host, port = os.environ["GANGLION_ENDPOINT"].removeprefix("tcp://").rsplit(":", 1)
stream = socket.create_connection((host, int(port))).makefile("rwb")


def send(to: bytes, head: list[Any], body: dict[str, Any]) -> None:
    """Send one message: every frame but the last has the flag 1, a frame above 255 bytes the flag 2."""
    for more, frame in ((1, to), (1, msgpack.packb(head)), (0, msgpack.packb(body))):
        long = len(frame) > 255
        stream.write(bytes([more | 2 * long]) + len(frame).to_bytes(8 if long else 1, "big") + frame)
    stream.flush()


def receive() -> tuple[bytes, list[Any], dict[str, Any]]:
    """Return who says it, head and body of the next message; commands of ZMTP (flag 4) are passed over."""
    frames, flags = [], 1
    while flags & 1 or flags & 4:
        flags = stream.read(1)[0]
        frame = stream.read(int.from_bytes(stream.read(8 if flags & 2 else 1), "big"))
        frames += [] if flags & 4 else [frame]
    return (
        frames[0],
        msgpack.unpackb(frames[1]),
        msgpack.unpackb(frames[2]) if frames[2:] and frames[2] else {},
    )


stream.write(b"\xff" + bytes(7) + b"\x01\x7f\x03\x00NULL" + bytes(16 + 32))
stream.write(b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06DEALER")
name, token = os.environ["GANGLION_NAME"], os.environ["GANGLION_TOKEN"]
send(
    b"", [HELLO, 1], {"version": 1, "role": "environment", "name": name, "token": token, "language": "socket"}
)
stream.read(64)  # the broker's greeting; its READY is passed over like any command

step, space = 0, {"type": "box", "shape": [], "dtype": "<f8", "low": 0, "high": 1000}
while True:
    sender, (verb, serial, *rest), body = receive()
    if verb == BEAT and not (rest and rest[0]):
        send(b"", [BEAT, serial, "here"], {})
    elif verb == CALL and rest[0] in ("environment.start", "environment.reset"):
        step, ids = (
            0,
            {"sensors": [{"id": "steps", "space": space}], "rewards": [{"id": "one", "space": space}]},
        )
        begun = {"readings": [[0]], "rewards": []}
        declared = {"actuators": [{"id": "push", "space": space, "value": 0}], **ids, "readings": [[0]]}
        send(sender, [REPLY, serial], declared if rest[0] == "environment.start" else begun)
    elif verb == CALL and rest[0] == "environment.update":
        step += 1
        send(sender, [REPLY, serial], {"readings": [[step]], "rewards": [[1]], "ticks": step})
    elif verb == CALL:  # environment.shutdown
        send(sender, [REPLY, serial], {})
    elif verb in (BYE, ERROR):
        send(b"", [BYE, 1], {})
        break
