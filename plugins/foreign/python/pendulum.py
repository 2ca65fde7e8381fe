"""Play the reference pendulum with nothing but pyzmq and msgpack: join, declare, reset, update, leave."""

from __future__ import annotations

import os
import sys
from typing import Any

import msgpack
import zmq

HELLO, WELCOME, CALL, REPLY, ERROR, BEAT, BYE = 1, 2, 3, 4, 5, 8, 10


class Pendulum:
    """Use + - * / only, and evaluate each line as written: every language gets the same bits."""

    running = False

    def begin(self, seed: int) -> None:
        """Begin an episode."""
        self.x = 1 + seed % 2147483646
        self.draw()
        t = self.draw()
        q = 1.0 + t * t
        self.c, self.s, self.w = (t * t - 1.0) / q, 2.0 * t / q, self.draw()
        self.steps, self.running = 0, True

    def draw(self) -> float:
        """Return the next random number from [-1, 1)."""
        self.x = 16807 * self.x % 2147483647
        return 2.0 * self.x / 2147483647 - 1.0

    def advance(self, u: float) -> float:
        """Turn by one step and return the reward."""
        u = min(max(u, -2.0), 2.0)
        w = self.w + (15.0 * self.s + 3.0 * u) * 0.05
        w = self.w = min(max(w, -8.0), 8.0)
        k = w * 0.025
        q, p = 1.0 + k * k, 1.0 - k * k
        self.c, self.s = (p * self.c - 2.0 * k * self.s) / q, (p * self.s + 2.0 * k * self.c) / q
        self.steps += 1
        self.running = self.steps < 200
        return -(2.0 * (1.0 - self.c) + 0.1 * w * w + 0.001 * u * u)


def box(uid: str, low: float, high: float, **more: float) -> dict[str, Any]:
    """Declare one number."""
    return {"id": uid, "space": {"type": "box", "shape": [], "dtype": "<f8", "low": low, "high": high}, **more}


def answer(p: Pendulum, call: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of the answer; what is raised becomes an ERROR."""
    rewards = []
    if call in ("environment.start", "environment.reset"):
        p.begin(body["seed"])
    elif call == "environment.update":
        if not p.running:
            raise ValueError("expected environment.start or .reset before it")
        (row,) = body["setpoints"]
        (u,) = [0.0] if body.get("actuators") == [] and not row else row  # a step may give none
        if not isinstance(u, int | float) or u != u:
            raise ValueError(f"torque: expected a number, found {u!r}")
        rewards = [[p.advance(u)]]
    elif call == "environment.shutdown":
        p.running = False
        return {}
    else:
        raise NotImplementedError(f"{call}: expected start, reset, update or shutdown of environment")
    state = {"readings": [[p.c, p.s, p.w]], "rewards": rewards, "ticks": p.steps, "truncated": not p.running}
    if call != "environment.start":
        return state
    balance = [box("balance", -11.0, 1.0)]
    sensors = [box("cos", -1.01, 1.01), box("sin", -1.01, 1.01), box("speed", -8.0, 8.0)]
    actuators = [box("torque", -2.0, 2.0, value=0.0)]
    return {"sensors": sensors, "actuators": actuators, "rewards": balance, "readings": state["readings"]}


def serve(dealer: zmq.Socket[bytes]) -> None:
    """Join, and answer until we are told to leave."""

    def send(to: bytes, head: list[Any], body: dict[str, Any]) -> None:
        dealer.send_multipart([to, msgpack.packb(head), msgpack.packb(body)])

    name, token = os.environ["GANGLION_NAME"], os.environ["GANGLION_TOKEN"]
    hello = {"version": 1, "role": "environment", "name": name, "token": token, "language": "python"}
    send(b"", [HELLO, 1], hello)
    pendulum, asked, kept = Pendulum(), [b""], ([ERROR, 0], dict[str, Any]())
    while True:
        frames = dealer.recv_multipart()
        verb, serial, call = [*msgpack.unpackb(frames[1]), 0, ""][:3]
        if verb == CALL:
            if frames != asked:  # else it comes again: it gets the same answer, without another step
                asked = frames
                try:
                    kept = [REPLY, serial], answer(pendulum, call, msgpack.unpackb(frames[2] or b"\x80"))
                except (ArithmeticError, LookupError, TypeError, ValueError, NotImplementedError) as error:
                    kind = "unknown_call" if isinstance(error, NotImplementedError) else "protocol"
                    kept = [ERROR, serial], {"kind": kind, "message": f"{call}: {error!r}"}
            send(frames[0], *kept)
        elif verb == BEAT and not call:
            send(b"", [BEAT, serial, "here"], {})
        elif verb == BYE:
            return send(b"", [BYE, serial], {})
        elif verb == ERROR:
            sys.exit(f"pendulum: the kernel ends the connection: {msgpack.unpackb(frames[2])['message']}")


if __name__ == "__main__":
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 500  # ms for the last answer to leave
        silence_ms = socket.rcvtimeo = int(os.environ.get("GANGLION_SILENCE_MS", "10000"))
        if "GANGLION_SERVER_KEY" in os.environ:  # of a kernel on another machine
            socket.curve_serverkey = os.environ["GANGLION_SERVER_KEY"].encode()
            socket.curve_publickey = os.environ["GANGLION_PUBLIC_KEY"].encode()
            socket.curve_secretkey = os.environ["GANGLION_SECRET_KEY"].encode()
        socket.connect(os.environ["GANGLION_ENDPOINT"])
        try:
            serve(socket)
        except zmq.Again:  # it says something every half second
            sys.exit(f"pendulum: the kernel has been silent for {silence_ms} ms")
