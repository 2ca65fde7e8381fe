"""A muscle as the kit sees it: set up, asked for decisions, and a brain for it that the kit plays."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ganglion.errors import RemoteProtocolError
from ganglion.peer.contract import Declared
from ganglion.peer.values import Layout
from ganglion.sdk.seed import words
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Position
from ganglion.wire.messages import CALL_BY_NAME, MuscleSetup
from ganglion_conformance.bench import Bench
from ganglion_conformance.case import Miss, Skip, expect
from ganglion_conformance.session import Answer, Session

__all__ = ["BRAIN", "DEAL", "Body"]

BRAIN = "kit/brain/agent"
ACT = "muscle.act"


def _box(uid: str, low: float, high: float, **more: Any) -> dict[str, Any]:
    return {"id": uid, "space": {"type": "box", "shape": [], "dtype": "<f8", "low": low, "high": high}, **more}


DEAL: dict[str, list[dict[str, Any]]] = {
    "sensors": [_box("world.cos", -1.01, 1.01), _box("world.sin", -1.01, 1.01), _box("world.speed", -8.0, 8.0)],
    "actuators": [_box("world.torque", -2.0, 2.0, value=0.0)],
    "rewards": [_box("world.balance", -11.0, 1.0)],
}
"""What a muscle is given unless the order says otherwise: the reference pendulum."""


class Body:
    """Ask one muscle in one session; `thoughts` is what it asked of its brain, by call."""

    def __init__(self, bench: Bench, session: Session, stream: int = 1) -> None:
        self.session = session
        self._order = bench.order
        self._stream = stream
        self.deal: dict[str, Any] = {**DEAL, **bench.order.more}
        self.trains = bench.order.plugin is None and bool(self.deal.get("brain", True))
        self.thoughts: list[tuple[str, dict[str, Any]]] = []
        self.wrong: list[str] = []
        self.checks = Declared()
        self.checks.declare("sensors", self.deal["sensors"])
        self.checks.declare("actuators", self.deal["actuators"])
        self.decision = 0
        self.episode = 0
        session.calls = self._think

    @classmethod
    def set_up(cls, bench: Bench) -> Body:
        """Return the muscle of the shared session, at the beginning of an episode."""
        if bench.notes.get("undeclared"):
            raise Skip("it cannot be set up: see join.sets-up")
        body = cls(bench, bench.session())
        body.setup()
        return body

    # -- calls --------------------------------------------------------------------------------------------------------
    def setup(self, **more: Any) -> Answer:
        """Begin a phase; Miss if that is refused."""
        answer = self.try_setup(**more)
        if answer.failed:
            raise Miss(f"muscle.setup: expected REPLY, found {answer.text}")
        return answer

    def try_setup(self, **more: Any) -> Answer:
        """Ask for the beginning of a phase, and return the answer whatever it is."""
        self.session.started = True
        self.decision = self.episode = 0
        self.thoughts.clear()
        name = self._order.plugin or "kit"
        message = MuscleSetup(
            "kit",
            0,
            "kit",
            "train" if self.trains else "test",
            0,
            "agent",
            {"name": name, "params": self._order.params},
            self.deal.get("objective", {"name": "aggregate_rewards", "params": {}}),
            self.deal["sensors"],
            self.deal["actuators"],
            self.deal["rewards"],
            words(self._stream, ["kit", "muscle"]),
            words(self._stream, ["kit", "objective"]),
            BRAIN if self.trains else None,
        )
        fields = {key: value for key, value in asdict(message).items() if value is not None}
        return self.session.ask("muscle.setup", {**fields, **more})

    def ask(self, fields: Mapping[str, Any] | bytes, **more: Any) -> Answer:
        """Ask for a decision, and return the answer whatever it is."""
        self.decision += 1
        return self.session.ask(ACT, fields, position=self.position, **more)

    def act(self, **more: Any) -> Answer:
        """Give readings and the outcome of the decision before, ask for the next; Miss if that is refused."""
        answer = self.ask(self.outcome(**more))
        if answer.failed:
            raise Miss(f"{self.where}: expected setpoints, found {answer.text}")
        return answer

    def outcome(self, **more: Any) -> dict[str, Any]:
        """Return the body of the next `muscle.act`."""
        first = self.decision == 0
        rewards = None if first else [[self.middle("rewards", i) for i in range(len(self.deal["rewards"]))]]
        fields: dict[str, Any] = {"readings": [self.readings()], "round": self.decision, "workers": [0]}
        return {**fields, **({} if first else {"rewards": rewards}), **more}

    def readings(self) -> list[Any]:
        """Return a row of readings that lies in its spaces and changes with the decision."""
        return [self.middle("sensors", i) for i in range(len(self.deal["sensors"]))]

    def middle(self, what: str, i: int) -> Any:
        """Return a value of a declared space: its default, moved a little by the decision where it is a number."""
        layout = Layout.of(self.deal[what])
        space = layout.spaces[i]
        if space.scalar and space.dtype.kind == "f":
            value = 0.5 - 0.25 * ((self.decision + i) % 4)
            return value if space.contains(value) else float(space.default())
        return layout.to_row([s.default() for s in layout.spaces])[i]

    def reset(self) -> Answer:
        """End the episode and begin the next; Miss if one of both is refused."""
        answer = self.ask(self.outcome(decide=False, closing=True, truncated=True))
        if answer.failed:
            raise Miss(f"{self.where}, closing: expected REPLY, found {answer.text}")
        self.episode += 1
        self.decision = 0
        answer = self.session.ask("muscle.reset", {"episode": self.episode})
        if answer.failed:
            raise Miss(f"muscle.reset: expected REPLY, found {answer.text}")
        return answer

    @property
    def position(self) -> Position:
        """Return what the decision is about."""
        return (0, 0, self.episode, 0, self.decision, 0)

    @property
    def where(self) -> str:
        """Return the decision in words."""
        return f"act (episode {self.episode}, decision {self.decision})"

    def setpoints(self, answer: Answer) -> list[Any]:
        """Return the row of setpoints; Miss says what does not fit its actuator."""
        rows = answer.fields.get("setpoints")
        if not isinstance(rows, list) or len(rows) != 1 or not isinstance(rows[0], list):
            raise Miss(f"{self.where}: setpoints: expected a list of one row, found {rows!r:.60}")
        try:
            return self.checks.row("actuators", rows[0], "setpoints")
        except (RemoteProtocolError, TypeError) as error:
            raise Miss(f"{self.where}: {error}") from error

    def refuses(self, request: Mapping[str, Any] | bytes, what: str) -> None:
        """Miss unless a request is answered by ERROR, and the next call as if nothing had been."""
        answer = self.ask(request)
        expect(answer.failed, f"{what}: expected ERROR, found {answer.text}")
        self.goes_on(what)

    def goes_on(self, what: str) -> None:
        """Miss unless the next call is answered as if nothing had been."""
        answer = self.ask({"readings": [self.readings()]})
        expect(not answer.failed, f"after {what}: expected the next act to be answered, found {answer.text}")
        self.setpoints(answer)

    # -- the brain ----------------------------------------------------------------------------------------------------
    def _think(self, call: str, fields: dict[str, Any]) -> tuple[dict[str, Any], Sequence[bytes]]:
        """Answer what the muscle asks of its brain; a linear policy of zeros is its update."""
        self.thoughts.append((call, fields))
        known = CALL_BY_NAME.get(call)
        if known is None or known.callee != "brain":
            self.wrong.append(f"{call}: expected a call of a brain")
            return {}, ()
        try:
            codec_of(known.request).from_map(fields)
        except RemoteProtocolError as error:
            self.wrong.append(f"{call}: {error}")
        if call == "brain.leave":
            return {}, ()
        return {"update": self.deal.get("update", self._zeros()), "fresh": True}, ()

    def _zeros(self) -> dict[str, Any]:
        """Return `weights` (m, n) and `bias` (m) as named arrays: m actuators, n sensors."""
        m, n = len(self.deal["actuators"]), len(self.deal["sensors"])
        return {
            "weights": {"dtype": "<f8", "shape": [m, n], "data": struct.pack(f"<{m * n}d", *[0.0] * m * n)},
            "bias": {"dtype": "<f8", "shape": [m], "data": struct.pack(f"<{m}d", *[0.0] * m)},
        }
