"""A peer that keeps every clause, with one switch per case that breaks exactly that one; it answers at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import pytest

from ganglion.errors import PeerLost
from ganglion.wire.verb import Verb
from ganglion_conformance.bench import Order
from ganglion_conformance.drivers import End, Place

HELLO, WELCOME, CALL, REPLY, ERROR, BEAT, BYE = 1, 2, 3, 4, 5, 8, 10
BOX = {"type": "box", "shape": [], "dtype": "<f8"}
KNOWN = {
    "environment.start": {"run", "phase", "phase_name", "mode", "worker", "uid", "params", "seed", "episode_seed",
                          "stream", "episode_stream", "plugin", "bodies", "each", "index"},
    "environment.update": {"setpoints", "actuators", "rows"},
    "environment.reset": {"episode", "seed", "stream", "state", "each"},
}  # fmt: skip


class Refusal(Exception):
    """Answer by ERROR."""


class Hill:
    """A world that drifts by a seed and is pushed; `switch` names the one clause that it breaks."""

    def __init__(self, switch: str, starts: int) -> None:
        self.switch = switch
        self.starts = starts
        self.running = False
        self.place, self.ticks = 0.0, 0
        self.drawn = 0
        self.resets = 0
        self.bodies = 1
        self.each: dict[str, Any] | None = None

    def breaks(self, *names: str) -> bool:
        return self.switch in names

    def call(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.breaks("join.unknown-keys") and set(body) - KNOWN.get(name, set(body)):
            raise Refusal("what is that")
        if name == "environment.start":
            return self.start(body)
        if name == "environment.update":
            return self.update(body)
        if name == "environment.reset":
            self.begin(body["seed"] + (body.get("state") or {}).get("drawn", 0))
            return self.reset(body)
        if name == "environment.shutdown":
            if self.breaks("leave.shutdown"):
                raise Refusal("never")
            self.running = False
            return {}
        if self.breaks("errors.unknown-call"):
            return {}
        raise LookupError(name)

    def start(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.breaks("large.utf8") and not str(body["uid"]).isascii():
            raise Refusal("ASCII")
        self.bodies, self.each, self.over = len(body.get("bodies") or [0]), body.get("each"), 0
        self.begin(body["seed"])
        if self.breaks("reset.new-process"):
            self.place += self.starts / 100
        low = 0.0 if self.breaks("join.declares") else -10.0
        if self.breaks("bodies.same-seed") and self.bodies > 1:
            self.resets += 1
            self.place += self.resets / 100
        sensors = [{"id": "place", "space": {**BOX, "low": low, "high": 10.0}}] * (1 + self.breaks("join.declares"))
        return {
            "sensors": sensors,
            "actuators": [{"id": "push", "value": 0.0, "space": {**BOX, "low": -2.0, "high": 2.0}}],
            "rewards": [{"id": "gain", "space": {**BOX, "low": -99.0, "high": 99.0}}],
            "readings": [[self.place]] * self.bodies,
            "ticks": 0,
            **({"bodies": self.bodies + self.breaks("bodies.declares")} if self.bodies > 1 else {}),
        }

    def begin(self, seed: int) -> None:
        other = 0.0
        if self.breaks("reset.same-seed") and self.bodies == 1:
            self.resets += 1
            other = self.resets / 100
        self.place, self.ticks, self.running = (seed % 7) / 7 + other, 0, True

    def reset(self, body: dict[str, Any]) -> dict[str, Any]:
        rewards = [[1.0]] if self.breaks("reset.declared") else []
        self.drawn += 1
        state = {"drawn": 0}
        if self.breaks("state.goes-on") and body.get("state") is not None and self.drawn == 1:  # a fresh process
            self.place += 0.5
        count = 1 if self.breaks("bodies.reset") and "each" not in body else self.bodies
        return {"readings": [[self.place]] * count, "rewards": rewards, "ticks": 0, "state": state}

    def update(self, body: dict[str, Any]) -> dict[str, Any]:
        if not self.running and not self.breaks("reset.before-start"):
            raise Refusal("not begun")
        if self.bodies > 1:
            return self.update_bodies(len(body["setpoints"]))
        ((push,),) = body["setpoints"]
        if self.breaks("step.integers") and type(push) is int:
            raise Refusal("an integer")
        if type(push) not in (int, float):
            raise Refusal("no number")
        if push > 2.0 and self.breaks("step.outside"):
            self.running = False
        else:
            self.place += max(-2.0, min(2.0, push)) / 100 + 0.001
        self.ticks += 1
        ended = self.ticks >= 40
        self.running = self.running and not ended
        fields: dict[str, Any] = {
            "readings": [[self.place + (20.0 if self.breaks("step.values") and self.ticks == 30 else 0.0)]],
            "rewards": [[0.5]],
            "truncated": ended,
            "terminated": 0 if self.breaks("step.flags") else False,
            "ticks": 40 - self.ticks if self.breaks("step.simtime") else self.ticks,
        }
        return fields

    def update_bodies(self, count: int) -> dict[str, Any]:
        self.ticks += 1
        cut = self.each is not None and self.ticks % self.each["max_steps"] == 0
        self.over += cut
        fields = {"readings": [[self.place]] * count, "rewards": [[0.5]] * count, "flags": bytes([2 * cut] * count)}
        if self.breaks("bodies.groups"):
            fields["group_rewards"] = {"herd": 0.5}  # also where there is none
        if self.breaks("bodies.steps") and count < self.bodies:
            fields["flags"] = bytes(self.bodies)
        if self.each is not None and cut and (self.over < self.each["budget_episodes"] or self.breaks("bodies.each")):
            fields |= {"first_rows": b"\0\0\1\0", "first_readings": [[0.0]] * count}
        return fields


class Puppet:
    """One life of the peer; everything happens within `send`."""

    def __init__(self, place: Place, switch: str, starts: int) -> None:
        self.place, self.switch = place, switch
        self.world: Any = Hill(switch, starts) if place.role == "environment" else Limb(switch, starts)
        self.world.ask = self.ask
        self.serial = 0
        self.out: deque[list[bytes]] = deque()
        self.end: End | None = None
        self.asked: list[bytes] = []
        self.kept: list[Any] = []
        self.calls = 0
        self.left = False
        if place.curve == "wrong":
            if switch == "secure.wrong-key":
                self.hello()
            else:
                self.end = End(1, "silence")
        elif not (switch == "secure.right-key" and place.curve):
            self.hello()
        else:
            self.end = End(1, "silence")

    def breaks(self, *names: str) -> bool:
        return self.switch in names

    def hello(self) -> None:
        fields = {
            "version": 1,
            "role": self.place.role,
            "name": self.place.name.encode() if self.breaks("join.hello") else self.place.name,
            "token": self.place.token,
            "language": "" if self.breaks("join.language") else "puppet",
        }
        self.say(b"kernel" if self.breaks("join.speaks") else b"", [HELLO, 1], fields)

    def say(self, to: bytes, head: list[Any], body: dict[str, Any]) -> None:
        self.out.append([to, msgpack.packb(head), msgpack.packb(body)])

    def ask(self, peer: str, call: str, body: dict[str, Any]) -> None:
        self.serial += 1
        self.say(peer.encode(), [CALL, self.serial, call], body)

    # -- what a peer is to the kit ------------------------------------------------------------------------------------
    def receive(self, span_s: float) -> list[bytes] | None:
        if self.out:
            return self.out.popleft()
        if self.end is not None:
            raise PeerLost("the peer", "it closed the connection")
        return None

    def send(self, frames: Sequence[bytes]) -> None:
        if self.end is not None:
            raise PeerLost("the peer", "it closed the connection")
        verb, serial, call, *_ = [*msgpack.unpackb(frames[1]), 0, ""]
        if verb == ERROR:
            self.refused(msgpack.unpackb(frames[2]))
        elif verb == BEAT:
            self.say(b"", [BEAT, 1, "" if self.breaks("beat.here") else "here"], {})
            if self.breaks("repeat.beat-between"):
                self.asked = []
        elif verb == BYE and not self.left:
            self.bye(serial)
        elif verb == CALL:
            self.answer(list(frames), serial, call)

    def refused(self, failure: dict[str, Any]) -> None:
        second = "name is taken" in failure["message"]
        switch = {"version": "join.refused", "token": "secure.token"}.get(failure["kind"], "join.second")
        status = 0 if self.breaks(switch) else 1
        self.end = End(status, failure["message"] if not second else "")

    def bye(self, serial: int) -> None:
        self.left = True
        if not self.breaks("leave.bye"):
            self.say(b"", [BYE, serial], {})
        if self.breaks("leave.silent"):
            self.say(b"", [BEAT, 1], {})
        self.end = End(3 if self.breaks("leave.status") else 0)

    def answer(self, frames: list[bytes], serial: int, call: str) -> None:
        repeated = frames == self.asked or (
            self.breaks("repeat.new-serial") and frames[2] == self.asked[2:3] and call == "environment.update"
        )
        if self.breaks("repeat.new-serial") and self.asked and self.world.bodies == 1 and call == "environment.update":
            repeated = frames[2] == self.asked[2] and frames[0] == self.asked[0] and self.kept[0][0] == REPLY
        if self.breaks("repeat.same-answer") and call == "environment.update" and self.world.ticks == 3:
            repeated = False
        if self.breaks("repeat.act") and call == "muscle.act":
            repeated = False
        if not repeated:
            self.asked, self.kept = frames, self.carry_out(frames, serial, call)
        head, body = self.kept
        if self.breaks("repeat.reset") and call == "environment.reset" and repeated:
            body = {**body, "readings": [[self.world.place + 0.25]]}
        self.say(frames[0], [head[0], serial], body)

    def carry_out(self, frames: list[bytes], serial: int, call: str) -> list[Any]:
        try:
            if len(frames[2]) > 500_000 and self.breaks("large.body"):
                raise Refusal("too large")
            if len(frames) > 3 and self.breaks("errors.extra-frames"):
                raise Refusal("too many frames")
            try:
                body = msgpack.unpackb(frames[2] or b"\x80")
            except ValueError as error:
                if self.breaks("errors.broken-body", "errors.broken-act"):
                    body = {"setpoints": [[0.0]], "readings": [[0.0] * 3]}
                else:
                    raise Refusal("no msgpack") from error
            self.calls = 0 if call == "environment.start" else self.calls + 1
            if self.breaks("large.steps") and self.calls > 90:
                raise Refusal("tired")
            return [[REPLY, serial], self.world.call(call, body)]
        except LookupError as error:
            kind = "protocol" if self.breaks("errors.kind") else "unknown_call"
            return [[ERROR, serial], {"kind": kind, "message": self.words(repr(error))}]
        except (Refusal, ValueError, TypeError) as error:
            return [[ERROR, serial], {"kind": "protocol", "message": self.words(repr(error))}]

    def words(self, text: str) -> str:
        return "" if self.breaks("errors.message") else text

    def cut(self) -> None:
        self.end = End(0 if self.breaks("leave.gone") else 1)

    def terminate(self) -> None:
        if not self.breaks("leave.sigterm"):
            self.end = End(-15)

    def ended(self, span_s: float) -> End | None:
        return self.end

    def stop(self) -> None:
        self.end = self.end or End(-9)


class PuppetDriver:
    """Start puppets."""

    what, program, again = "puppet", True, True

    def __init__(self, switch: str = "") -> None:
        self.switch = switch
        self.starts = 0

    def start(self, place: Place) -> Puppet:
        self.starts += 1
        return Puppet(place, self.switch, self.starts)


@pytest.fixture
def order() -> Order:
    """Return what is asked of a puppet: a short run, and no patience, since it answers at once."""
    return Order(steps=100, deadline_s=0.05)


@pytest.fixture
def puppet() -> Callable[[str], PuppetDriver]:
    """Return what makes a driver of puppets that break one clause."""
    return PuppetDriver


assert Verb.BYE.value == BYE


class Limb:
    """A muscle that proposes a constant; `switch` names the one clause that it breaks."""

    ticks = 0
    bodies = 1

    def __init__(self, switch: str, starts: int) -> None:
        self.switch = switch
        self.starts = starts
        self.ready = False
        self.sensors = 0
        self.decided = 0
        self.brain: str | None = None
        self.ask: Callable[[str, str, dict[str, Any]], None] = lambda peer, call, body: None

    def breaks(self, *names: str) -> bool:
        return self.switch in names

    def call(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if name == "muscle.setup":
            return self.setup(body)
        if name == "muscle.act":
            return self.act(body)
        if name == "muscle.reset":
            if self.breaks("act.episodes") and body["episode"] == 3:
                raise Refusal("no more")
            self.decided = 0
            return {}
        if name == "muscle.shutdown":
            if self.brain is not None and not self.breaks("leave.shut-down"):
                self.ask(self.brain, "brain.leave", {"worker": 0})
            self.ready = False
            return {}
        if self.breaks("errors.unknown-call"):
            return {}
        raise LookupError(name)

    def setup(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.breaks("join.sets-up"):
            raise Refusal("never")
        self.ready, self.sensors, self.brain, self.decided = True, len(body["sensors"]), body.get("brain"), 0
        self.large = body["sensors"][0]["id"] == "world.image"
        self.first = body["actuators"][0]["space"].get("start")  # of a Discrete actuator, with a Mask
        if self.brain is not None and not self.breaks("brain.joins"):
            self.ask(self.brain, "brain.join", {"worker": 0})
        self.bodies = len(body.get("bodies") or [0])
        return {"bodies": self.bodies + self.breaks("bodies.sets-up")} if self.bodies > 1 else {}

    def act(self, body: dict[str, Any]) -> dict[str, Any]:
        if not self.ready and not self.breaks("act.before-setup"):
            raise Refusal("not set up")
        if "rows" in body and self.bodies > 1:
            flags = body["flags"]
            deciding, completed = sum(bool(f & 4) for f in flags), sum(not f & 8 for f in flags)
            deciding -= self.breaks("bodies.decides") and flags == b"\x0c"
            completed -= self.breaks("bodies.completes") and completed == 2
            return {"setpoints": [[0.25]] * deciding, "objective": [0.5] * completed}
        (row,) = body["readings"]
        if self.ready and self.large and self.breaks("large.reading"):
            raise Refusal("too large")
        if self.breaks("act.integers") and all(type(value) is int for value in row):
            raise Refusal("integers")
        self.think(body, row)
        if body.get("decide", True) is False and not self.breaks("act.settles"):
            return {"objective": [0.5]}
        self.decided += 1
        if self.breaks("large.decisions") and self.decided > 50:
            raise Refusal("tired")
        if getattr(self, "first", None) is not None:  # not before a set-up
            return {"setpoints": [[self.first + (0 if self.breaks("act.masks") else row[0].index(1))]]}
        value = 3.0 if self.breaks("act.setpoints") and self.decided == 20 else 0.25
        return {"setpoints": [[value + (self.starts / 100 if self.breaks("act.new-process") else 0.0)]]}

    def think(self, body: dict[str, Any], row: list[Any]) -> None:
        if self.brain is None:
            return
        if not self.decided or self.breaks("brain.thinks") or "rewards" not in body:
            self.ask(self.brain, "brain.update", {"worker": 0})
            return
        fields = {"worker": 0, "episode": 0, "decision": self.decided, "readings": [row], "applied": [[0.25]],
                  "rewards": body["rewards"], "objective": [0.5], "next_readings": [row],
                  "reward_ids": None if self.breaks("brain.rewards") else [{"id": "r"}]}  # fmt: skip
        self.ask(self.brain, "brain.think", fields)
