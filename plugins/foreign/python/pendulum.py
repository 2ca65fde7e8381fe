"""Play the reference pendulum with nothing but pyzmq and msgpack: join, declare, reset, update, leave."""

import os
import sys
from typing import Any

import msgpack
import zmq

HELLO, CALL, REPLY, ERROR, BEAT, BYE = 1, 3, 4, 5, 8, 10
SENSORS = ["cos: Box(-1.01, 1.01)", "sin: Box(-1.01, 1.01)", "speed: Box(-8, 8)"]
DECLARED = {"sensors": SENSORS, "actuators": ["torque: Box(-2, 2)"], "rewards": ["balance: Box(-11, 1)"]}


class Pendulum:
    """Use + - * / only, and evaluate each line as written: every language gets the same bits."""

    x: int

    def _draw(self) -> float:
        self.x = 16807 * self.x % 2147483647
        return 2.0 * self.x / 2147483647 - 1.0

    def begin(self, seed: int) -> list[list[float]]:
        """Begin an episode, without rewards."""
        self.x = 1 + seed % 2147483646
        self._draw()
        t = self._draw()
        q = 1.0 + t * t
        self.c, self.s, self.w, self.steps = (t * t - 1.0) / q, 2.0 * t / q, self._draw(), 0
        return []

    def advance(self, torque: float) -> list[list[float]]:
        """Turn by one step and return the rewards."""
        u = min(max(torque, -2.0), 2.0)
        w = self.w = min(max(self.w + (15.0 * self.s + 3.0 * u) * 0.05, -8.0), 8.0)
        k = w * 0.025
        q, p = 1.0 + k * k, 1.0 - k * k
        self.c, self.s = (p * self.c - 2.0 * k * self.s) / q, (p * self.s + 2.0 * k * self.c) / q
        self.steps += 1
        return [[-(2.0 * (1.0 - self.c) + 0.1 * w * w + 0.001 * u * u)]]


def answer(p: Pendulum, call: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of the answer; what is raised becomes an ERROR, as where no episode was begun."""
    if call == "environment.shutdown":
        return {}
    if call not in ("environment.start", "environment.reset", "environment.update"):
        raise NotImplementedError("it knows no such call")
    rewards = p.advance(body["setpoints"][0][0]) if call == "environment.update" else p.begin(body["seed"])
    state = {"readings": [[p.c, p.s, p.w]], "rewards": rewards, "ticks": p.steps, "truncated": p.steps == 200}
    return {**state, **DECLARED} if call == "environment.start" else state


hello = {"version": 1, "role": "environment", "language": "python"}
hello |= {"name": os.environ["GANGLION_NAME"], "token": os.environ["GANGLION_TOKEN"]}
pendulum, verb, asked, kept = Pendulum(), HELLO, [b""], [b""]
with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
    dealer.linger = 500  # ms for the last answer to leave
    for key in ("SERVER", "PUBLIC", "SECRET") if "GANGLION_SERVER_KEY" in os.environ else ():  # of another machine
        setattr(dealer, f"curve_{key.lower()}key", os.environ[f"GANGLION_{key}_KEY"].encode())
    dealer.connect(os.environ["GANGLION_ENDPOINT"])
    dealer.send_multipart([b"", msgpack.packb([HELLO, 1]), msgpack.packb(hello)])
    while verb != BYE:
        if not dealer.poll(int(os.environ.get("GANGLION_SILENCE_MS", "10000"))):  # it says something twice a second
            sys.exit("pendulum: the kernel has been silent for too long")
        frames = dealer.recv_multipart()
        verb, serial, call = [*msgpack.unpackb(frames[1]), 0, ""][:3]
        if verb == ERROR:
            sys.exit(f"pendulum: the kernel ends the connection: {msgpack.unpackb(frames[2])['message']}")
        if verb == CALL and frames != asked:  # else it comes again: it gets the same answer, without another step
            try:
                head, body = REPLY, answer(pendulum, call, msgpack.unpackb(frames[2] or b"\x80"))
            except Exception as error:  # noqa: BLE001 - whatever it is, the kernel is told
                head, body = ERROR, {"kind": "protocol", "message": f"{call}: {error!r}"}
            asked, kept = frames, [frames[0], msgpack.packb([head, serial]), msgpack.packb(body)]
        if verb in (CALL, BEAT, BYE):
            dealer.send_multipart(kept if verb == CALL else frames)
