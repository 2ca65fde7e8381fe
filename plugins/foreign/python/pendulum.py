"""Play the reference pendulum with nothing but pyzmq and msgpack: join, declare, reset, update, leave.

Start it as a document's `command: [python, pendulum.py]`, or by hand with GANGLION_ENDPOINT, GANGLION_NAME and
GANGLION_TOKEN.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import msgpack
import zmq

HELLO, WELCOME, CALL, REPLY, ERROR, BEAT, BYE = 1, 2, 3, 4, 5, 8, 10
SILENCE_MS = 10_000  # the kernel asks after half a second; whoever hears nothing for so long has lost it

Map = dict[str, Any]


class Pendulum:
    """Use + - * / only, and evaluate each line as written: every language gets the same bits."""

    running = False

    def begin(self, seed: int) -> None:
        """Begin an episode."""
        self.x = 1 + seed % 2147483646
        self._draw()
        t = self._draw()
        q = 1.0 + t * t
        self.c, self.s, self.w = (t * t - 1.0) / q, 2.0 * t / q, self._draw()
        self.steps, self.running = 0, True

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

    def state(self, rewards: list[list[float]]) -> Map:
        """Return the answer to reset and update."""
        readings = [[self.c, self.s, self.w]]
        return {"readings": readings, "rewards": rewards, "ticks": self.steps, "truncated": not self.running}

    def _draw(self) -> float:
        self.x = 16807 * self.x % 2147483647
        return 2.0 * self.x / 2147483647 - 1.0


def answer(pendulum: Pendulum, call: str, request: Map) -> Map:
    """Return the body of the answer; whatever is raised here becomes an ERROR."""
    if call == "environment.start":
        pendulum.begin(request["seed"])
        return {
            "sensors": [
                _declare("cos", -1.01, 1.01),
                _declare("sin", -1.01, 1.01),
                _declare("speed", -8.0, 8.0),
            ],
            "actuators": [_declare("torque", -2.0, 2.0, value=0.0)],
            "rewards": [_declare("balance", -11.0, 1.0)],
            "readings": [[pendulum.c, pendulum.s, pendulum.w]],
            "ticks": 0,
        }
    if call == "environment.reset":
        pendulum.begin(request["seed"])
        return pendulum.state([])
    if call == "environment.update":
        if not pendulum.running:
            raise ValueError("environment.update: expected environment.start or .reset before it")
        return pendulum.state([[pendulum.advance(_torque(request))]])
    if call == "environment.shutdown":
        pendulum.running = False
        return {}
    raise NotImplementedError(f"expected start, update, reset or shutdown of environment, found {call!r}")


def _declare(uid: str, low: float, high: float, **more: float) -> Map:
    return {
        "id": uid,
        "space": {"type": "box", "shape": [], "dtype": "<f8", "low": low, "high": high},
        **more,
    }


def _torque(request: Map) -> float:
    """Return the setpoint; a step that gives none applies none."""
    (row,) = request["setpoints"]
    if not row and request.get("actuators") == []:
        return 0.0
    (u,) = row
    if type(u) not in (int, float) or u != u:
        raise ValueError(f"environment.update: torque: expected a number, found {u!r}")
    return float(u)


def send(socket: zmq.Socket[bytes], to: bytes, head: list[Any], body: Map | None = None) -> None:
    """Send one message."""
    socket.send_multipart([to, msgpack.packb(head), b"" if body is None else msgpack.packb(body)])


def receive(socket: zmq.Socket[bytes]) -> list[bytes]:
    """Return the next message."""
    if not socket.poll(SILENCE_MS):
        sys.exit(f"pendulum: the kernel has been silent for {SILENCE_MS // 1000} s")
    return socket.recv_multipart()


def decode(frames: list[bytes]) -> tuple[int, int, str, Map]:
    """Return verb, serial, call and body of a message."""
    verb, serial, call = [*msgpack.unpackb(frames[1]), 0, ""][:3]
    return verb, serial, call, msgpack.unpackb(frames[2]) if len(frames) > 2 and frames[2] else {}


def join(socket: zmq.Socket[bytes]) -> None:
    """Say who we are, and wait until we are welcome."""
    endpoint, name, token = (os.environ.get("GANGLION_" + word, "") for word in ("ENDPOINT", "NAME", "TOKEN"))
    if not (endpoint and name and token):
        sys.exit("pendulum: expected the variables GANGLION_ENDPOINT, GANGLION_NAME and GANGLION_TOKEN")
    if "GANGLION_SERVER_KEY" in os.environ:  # of a kernel on another machine
        socket.curve_serverkey = os.environ["GANGLION_SERVER_KEY"].encode()
        socket.curve_publickey = os.environ["GANGLION_PUBLIC_KEY"].encode()
        socket.curve_secretkey = os.environ["GANGLION_SECRET_KEY"].encode()
    socket.connect(endpoint)
    hello = {"version": 1, "role": "environment", "name": name, "token": token, "language": "python"}
    send(socket, b"", [HELLO, 1], hello)
    verb, _, _, body = decode(receive(socket))
    if verb != WELCOME:
        sys.exit(f"pendulum: the kernel refuses {name}: {body.get('message', 'no reason given')}")


def serve(socket: zmq.Socket[bytes]) -> None:
    """Answer until we are told to leave."""
    pendulum, asked, kept = Pendulum(), [b""], ([ERROR, 0], Map())
    while True:
        frames = receive(socket)
        verb, serial, call, body = decode(frames)
        if verb == CALL:
            if frames != asked:  # else a repeat: it gets the same answer, without another step
                asked = frames
                try:
                    kept = [REPLY, serial], answer(pendulum, call, body)
                except NotImplementedError as error:
                    kept = [ERROR, serial], {"kind": "unknown_call", "message": str(error)}
                except (KeyError, TypeError, ValueError) as error:
                    kept = [ERROR, serial], {"kind": "protocol", "message": f"{call}: {error!r}"}
            send(socket, frames[0], *kept)
        elif verb == BEAT and not call:
            send(socket, b"", [BEAT, serial, "here"])
        elif verb == BYE:
            return send(socket, b"", [BYE, serial])
        elif verb == ERROR and not serial:
            sys.exit(f"pendulum: the kernel ended the connection: {body.get('message', 'no reason given')}")


if __name__ == "__main__":
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 500  # ms for the last answer to leave
        join(dealer)
        serve(dealer)
