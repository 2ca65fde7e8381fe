"""Muscles: one as the kit sees it, with a brain that the kit plays, and the cases of what it proposes and asks."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ganglion.errors import RemoteProtocolError
from ganglion.peer.contract import Declared
from ganglion.peer.step.layout import Layout
from ganglion.sdk.seed import words
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Position
from ganglion.wire.messages import CALL_BY_NAME, MuscleSetup
from ganglion_conformance.bench import Bench
from ganglion_conformance.case import Miss, Run, Skip, case, expect
from ganglion_conformance.session import Answer, Session

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
        self.bench = bench
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
        field = answer.fields.get("setpoints")
        if not isinstance(field, list):
            raise Miss(f"{self.where}: setpoints: expected a list of one row, found {field!r:.60}")
        try:
            return self.checks.row("actuators", field, "setpoints")
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


_ROLE = "muscle"
_DECISIONS = 30  # of a case that looks at each
_COLUMNS = 2**17 - 128  # of float64: with the other fields it just fits a body
_CALLS, _SPACES, _REPEAT, _ERRORS = "Calls", "Spaces and arrays", "Identity and repetition", "Errors"


def _case(name: str, heading: str, **more: Any) -> Callable[[Callable[[Body], str | None]], Run]:
    """Enter a case whose function gets the muscle of the shared session, at the beginning of an episode."""

    def enter(run: Callable[[Body], str | None]) -> Run:
        @functools.wraps(run)
        def begun(bench: Bench) -> str | None:
            return run(Body.set_up(bench))

        return case(name, heading, _ROLE, **more)(begun)

    return enter


@case("act.before-setup", _CALLS, _ROLE)
def before_setup(bench: Bench) -> None:
    """An act before `muscle.setup` is answered by ERROR."""
    session = bench.session(newborn=True)
    answer = session.ask(ACT, {"readings": [[0.0]]}, position=(0, 0, 0, 0, 1, 0))
    expect(answer.failed, f"act before setup: expected ERROR, found {answer.text}")


@case("join.sets-up", _CALLS, _ROLE)
def sets_up(bench: Bench) -> None:
    """`muscle.setup` is answered by REPLY, also a second time after `muscle.shutdown`."""
    bench.notes["undeclared"] = True  # until it is shown: what needs a set-up is not asked otherwise
    Body(bench, bench.session()).setup()
    bench.notes["undeclared"] = False


@_case("act.setpoints", _SPACES)
def setpoints(body: Body) -> None:
    """Setpoints are one row in the order of the actuators, each in its space."""
    for _ in range(_DECISIONS):
        body.setpoints(body.act())


@_case("act.settles", _CALLS)
def settles(body: Body) -> None:
    """An act with `decide` false settles the decision before and proposes nothing."""
    body.act()
    answer = body.act(decide=False)
    expect(not answer.fields.get("setpoints"), f"{body.where}: expected no setpoints, found {answer.text}")
    body.setpoints(body.act())


@_case("act.episodes", _CALLS)
def episodes(body: Body) -> None:
    """A closing act, a reset and the first act of the next episode are answered."""
    for _ in range(3):
        body.act()
        body.act()
        body.reset()
    body.setpoints(body.act())


@_case("act.integers", _SPACES)
def integers(body: Body) -> None:
    """Integers are taken where floats are declared."""
    row = [0 if isinstance(value, float) else value for value in body.readings()]
    answer = body.ask({"readings": [row]})
    expect(not answer.failed, f"integers for floats: expected setpoints, found {answer.text}")
    body.setpoints(answer)


@_case("act.few", _CALLS)
def few(body: Body) -> None:
    """Too few readings are answered by ERROR, and the next call is answered."""
    body.refuses({"readings": [body.readings()[:-1]]}, "too few readings")


@_case("act.bodies", _CALLS)
def bodies(body: Body) -> None:
    """Two rows of readings are answered by ERROR, and the next call is answered."""
    body.refuses({"readings": [body.readings(), body.readings()]}, "two rows for one body")


@case("act.new-process", _CALLS, _ROLE, must=False, alone=True)
def new_process(bench: Bench) -> None:
    """A new process with the same stream proposes the same, bit by bit."""
    if bench.notes.get("undeclared"):
        raise Skip("it cannot be set up: see join.sets-up")
    runs = []
    for _ in range(2):
        body = Body(bench, bench.fresh())
        body.setup()
        runs.append([body.setpoints(body.act()) for _ in range(5)])
    expect(runs[0] == runs[1], f"in a new process: expected {runs[0]}, found {runs[1]}")


@case("brain.joins", _CALLS, _ROLE)
def joins(bench: Bench) -> None:
    """A muscle that is given a brain says `brain.join` while it is set up."""
    body = _trained(bench)
    called = [call for call, _ in body.thoughts]
    expect(called == ["brain.join"], f"muscle.setup: expected it to call brain.join, found {called}")


@case("brain.thinks", _CALLS, _ROLE)
def thinks(bench: Bench) -> None:
    """It says `brain.update` before an episode, `brain.think` for each completed decision, first with `reward_ids`."""
    body = _trained(bench)
    body.thoughts.clear()
    for _ in range(3):
        body.act()
    called = [call for call, _ in body.thoughts]
    wanted = ["brain.update", "brain.think", "brain.think"]
    expect(called == wanted, f"three acts: expected the calls {wanted}, found {called}")
    told = body.thoughts[1][1].get("reward_ids")
    expect(bool(told), f"the first brain.think: expected reward_ids, found {told!r}")
    expect(not body.wrong, "; ".join(body.wrong))


def _trained(bench: Bench) -> Body:
    body = Body.set_up(bench)
    if not body.trains:
        raise Skip("it is given no brain")
    return body


@_case("repeat.act", _REPEAT)
def repeat_act(body: Body) -> None:
    """The same act again gets the same answer, and its brain is not asked again."""
    body.act()
    fields = body.outcome()
    first = body.ask(fields)
    asked = len(body.thoughts)
    body.decision -= 1
    again = body.ask(fields, serial=body.session.serial)
    expect(first.frames[1:] == again.frames[1:], f"{body.where} was executed twice: {first.text}, then {again.text}")
    expect(asked == len(body.thoughts), f"{body.where} was executed twice: its brain was asked again")


@_case("errors.broken-act", _ERRORS)
def broken_act(body: Body) -> None:
    """A body that is no msgpack is answered by ERROR, and the next call is answered."""
    for broken in (b"\xc1", b"\x81\xa8readings\x91\x91\xcb\x00"):
        body.refuses(broken, f"the body {broken.hex()}")


@_case("errors.missing-readings", _ERRORS)
def missing_readings(body: Body) -> None:
    """An act without readings is answered by ERROR, and the next call is answered."""
    body.refuses({"round": 0}, "an act without readings")


@case("large.reading", _SPACES, _ROLE)
def large_reading(bench: Bench) -> None:
    """A reading of nearly a mebibyte is taken, as bytes."""
    if bench.order.plugin is not None or bench.order.more.get("sensors"):
        raise Skip("it has sensors of its own")
    body = Body.set_up(bench)
    space = {"type": "box", "shape": [_COLUMNS], "dtype": "<f8", "low": -1.0, "high": 1.0}
    body.deal["sensors"] = [{"id": "world.image", "space": space}]
    body.deal["update"] = {
        "weights": {"dtype": "<f8", "shape": [1, _COLUMNS], "data": bytes(8 * _COLUMNS)},
        "bias": {"dtype": "<f8", "shape": [1], "data": struct.pack("<d", 0.5)},
    }
    body.setup()
    answer = body.ask({"readings": [[bytes(8 * _COLUMNS)]]})
    expect(not answer.failed, f"a reading of {8 * _COLUMNS} bytes: expected setpoints, found {answer.text}")


@_case("large.decisions", _CALLS)
def decisions(body: Body) -> str:
    """Ten thousand decisions pass, or as many as twenty seconds hold, with a reset behind each episode."""

    def step() -> None:
        answer = body.act()
        if body.decision == 100:
            body.setpoints(answer)
            body.reset()

    return f"{body.bench.endure(step, body.session.spans)} decisions"


@_case("leave.shut-down", _CALLS)
def shut_down(body: Body) -> None:
    """`muscle.shutdown` is answered, its brain is left, and the process can be set up again."""
    answer = body.session.ask("muscle.shutdown", {})
    expect(not answer.failed, f"muscle.shutdown: expected REPLY, found {answer.text}")
    left = [call for call, _ in body.thoughts if call == "brain.leave"]
    expect(left or not body.trains, "muscle.shutdown: expected it to call brain.leave")
    body.setup()
