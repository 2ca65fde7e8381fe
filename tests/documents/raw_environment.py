"""An environment without libzmq and without Ganglion: a socket, msgpack, and what kernel/PROTOCOL.md says."""

import os
import socket
from typing import Any

import msgpack

HELLO, WELCOME, CALL, REPLY, ERROR, BEAT, BYE = 1, 2, 3, 4, 5, 8, 10
if "GANGLION_SERVER_KEY" in os.environ:
    raise SystemExit("CURVE is not supported")
host, port = os.environ["GANGLION_ENDPOINT"].removeprefix("tcp://").rsplit(":", 1)
connection = socket.create_connection((host, int(port)))
connection.settimeout(int(os.environ.get("GANGLION_SILENCE_MS", "10000")) / 1000)
stream = connection.makefile("rwb")


def send(to: bytes, head: list[Any], body: dict[str, Any]) -> None:
    """Send one message: every frame but the last has the flag 1, a frame above 255 bytes the flag 2."""
    for more, frame in ((1, to), (1, msgpack.packb(head)), (0, msgpack.packb(body))):
        long = len(frame) > 255
        stream.write(bytes([more | 2 * long]) + len(frame).to_bytes(8 if long else 1, "big") + frame)
    stream.flush()


def receive() -> list[bytes]:
    """Return the frames of the next message; commands of ZMTP (flag 4) are passed over."""
    frames, flags = [], 1
    while flags & 1 or flags & 4:
        flags = (stream.read(1) or b"\0")[0]
        frame = stream.read(int.from_bytes(stream.read(8 if flags & 2 else 1), "big"))
        frames += [] if flags & 4 else [frame]
    return frames


step = -1  # nothing was begun


def answer(call: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of an answer; what is raised becomes ERROR."""
    global step
    if call == "environment.shutdown":
        step = -1
    elif call == "environment.update":
        if step < 0:
            raise ValueError("expected environment.start before it")
        step += 1
        return {"readings": [[step]], "rewards": [[1]], "ticks": step, "truncated": step == 1000}
    elif call in ("environment.start", "environment.reset"):
        step = 0
        ids = {"sensors": ["steps: Box(0, 1000)"], "rewards": ["one: Box(0, 1000)"]}
        declared = {"actuators": ["push: Box(0, 1000)"], **ids, "readings": [[0]]}
        return declared if call == "environment.start" else {"readings": [[0]], "rewards": []}
    else:
        raise LookupError(f"unknown call {call}")
    return {}


stream.write(b"\xff" + bytes(7) + b"\x01\x7f\x03\x00NULL" + bytes(16 + 32))
stream.write(b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06DEALER")
name, token = os.environ["GANGLION_NAME"], os.environ["GANGLION_TOKEN"]
who = {"role": "environment", "name": name, "token": token, "language": "socket"}
send(b"", [HELLO, 1], {"version": 1, **who})
stream.read(64)  # the broker's greeting; its READY is passed over like any command
asked, kept = [b""], ([ERROR, 0], dict[str, Any]())
while True:
    frames = receive()
    if len(frames) < 2:
        raise SystemExit("the kernel has gone")
    verb, serial, *rest = msgpack.unpackb(frames[1])
    if verb == CALL:
        if frames != asked:  # else the same CALL again: it gets the same answer
            asked = frames
            try:
                kept = [REPLY, serial], answer(rest[0], msgpack.unpackb(frames[2]) if frames[2] else {})
            except (ValueError, TypeError, LookupError) as error:
                kind = "unknown_call" if "unknown" in str(error) else "protocol"
                kept = [ERROR, serial], {"kind": kind, "message": repr(error)}
        send(frames[0], *kept)
    elif verb == ERROR:
        raise SystemExit(msgpack.unpackb(frames[2])["message"])
    elif verb in (BEAT, BYE):  # what it gets, sent back
        send(frames[0], [verb, serial], {})
        if verb == BYE:
            break
