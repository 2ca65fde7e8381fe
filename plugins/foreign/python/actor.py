"""Act for any number of bodies with nothing but pyzmq and msgpack, and without a brain: against the sum of readings."""

import os
import struct
import sys
from typing import Any

import msgpack
import zmq

HELLO, CALL, REPLY, ERROR, BEAT, BYE = 1, 3, 4, 5, 8, 10
DECIDE, FIRST = 4, 8


def numbers(value: Any) -> list[float]:
    """Return a value as numbers: one, a list of them, or the bytes of doubles."""
    if isinstance(value, bytes):
        return list(struct.unpack(f"<{len(value) // 8}d", value))
    return value if isinstance(value, list) else [value]


class Actor:
    """Push each actuator by `gain` times the sum of all readings, within its bounds."""

    def setup(self, body: dict[str, Any]) -> dict[str, Any]:
        """Begin a phase; who says `bodies` acts for several."""
        self.spaces = [it["space"] for it in body["actuators"]]
        self.gain = body["plugin"]["params"].get("gain", -0.5)
        return {"bodies": len(body["bodies"])} if body.get("bodies") else {}

    def act(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer who asks by setpoints, and each decision that is completed by the sum of its rewards."""
        readings, rewards = body["readings"], body.get("rewards")
        flags = body.get("flags") or [DECIDE * body.get("decide", True) | FIRST * (rewards is None)]
        setpoints = [self.decide(row) for row, flag in zip(readings, flags, strict=True) if flag & DECIDE]
        done = [sum(row) for row, flag in zip(rewards or [[]], flags, strict=True) if not flag & FIRST]
        return {"setpoints": setpoints or None, "objective": done or None}

    def decide(self, row: list[Any]) -> list[float]:
        """Return the setpoints of one body."""
        push = self.gain * sum(sum(numbers(value)) for value in row)
        bounds = [(0, it["n"] - 1) if "n" in it else (float(it["low"]), float(it["high"])) for it in self.spaces]
        return [min(max(round(push) if type(high) is int else push, low), high) for low, high in bounds]


actor = Actor()
calls = {"muscle.setup": actor.setup, "muscle.act": actor.act}
calls |= dict.fromkeys(("muscle.reset", "muscle.shutdown"), lambda body: {})
hello = {"version": 1, "role": "muscle", "language": "python"}
hello |= {"name": os.environ["GANGLION_NAME"], "token": os.environ["GANGLION_TOKEN"]}
verb, asked, kept = HELLO, [b""], [b""]
with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
    dealer.linger = 500  # ms for the last answer to leave
    for key in ("SERVER", "PUBLIC", "SECRET") if "GANGLION_SERVER_KEY" in os.environ else ():  # of another machine
        setattr(dealer, f"curve_{key.lower()}key", os.environ[f"GANGLION_{key}_KEY"].encode())
    dealer.connect(os.environ["GANGLION_ENDPOINT"])
    dealer.send_multipart([b"", msgpack.packb([HELLO, 1]), msgpack.packb(hello)])
    while verb != BYE:
        if not dealer.poll(int(os.environ.get("GANGLION_SILENCE_MS", "10000"))):  # it says something twice a second
            sys.exit("actor: the kernel has been silent for too long")
        frames = dealer.recv_multipart()
        verb, serial, call = [*msgpack.unpackb(frames[1]), 0, ""][:3]
        if verb == ERROR:
            sys.exit(f"actor: the kernel ends the connection: {msgpack.unpackb(frames[2])['message']}")
        if verb == CALL and frames != asked:  # else it comes again: it gets the same answer
            try:
                head, body = REPLY, calls[call](msgpack.unpackb(frames[2] or b"\x80"))
            except Exception as error:  # noqa: BLE001 - whatever it is, the kernel is told
                head, body = ERROR, {"kind": "protocol", "message": f"{call}: {error!r}"}
            asked, kept = frames, [frames[0], msgpack.packb([head, serial]), msgpack.packb(body)]
        if verb in (CALL, BEAT, BYE):
            dealer.send_multipart(kept if verb == CALL else frames)
