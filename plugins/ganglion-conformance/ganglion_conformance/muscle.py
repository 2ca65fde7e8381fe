"""Muscles: one as the kit sees it, with a brain that the kit plays, and the cases of what it proposes and asks."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ganglion.errors import RemoteProtocolError
from ganglion.peer.step.layout import Layout
from ganglion.sdk.seed import words
from ganglion.sdk.spaces import Discrete, Mask
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import CALL_BY_NAME, DECIDE, FIRST, TERMINATED, MuscleSetup
from ganglion_conformance.bench import Bench
from ganglion_conformance.case import Miss, Skip, case, expect
from ganglion_conformance.session import Answer, Session
from ganglion_conformance.subject import BODIES, CALLS, ERRORS, REPEAT, SPACES, Subject, case_of, said

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


class Body(Subject):
    """Ask one muscle in one session; `thoughts` is what it asked of its brain, by call."""

    role, call, unit, declares = "muscle", ACT, "decision", "join.sets-up"

    def __init__(self, bench: Bench, session: Session) -> None:
        super().__init__(bench, session)
        self.deal: dict[str, Any] = {**DEAL, **bench.order.more}
        self.trains = bench.order.plugin is None and bool(self.deal.get("brain", True))
        self.thoughts: list[tuple[str, dict[str, Any]]] = []
        self.wrong: list[str] = []
        self.checks.declare("sensors", self.deal["sensors"])
        self.checks.declare("actuators", self.deal["actuators"])
        session.calls = self._think

    # -- calls --------------------------------------------------------------------------------------------------------
    def setup(self, **more: Any) -> Answer:
        """Begin a phase; Miss if that is refused."""
        return self.try_setup(**more).granted("muscle.setup", "REPLY")

    begin = setup

    def try_setup(self, **more: Any) -> Answer:
        """Ask for the beginning of a phase, and return the answer whatever it is."""
        self.session.started = True
        self.step = self.episode = 0
        self.thoughts.clear()
        name = self.order.plugin or "kit"
        message = MuscleSetup(
            "kit",
            0,
            "kit",
            "train" if self.trains else "test",
            0,
            "agent",
            {"name": name, "params": self.order.params},
            self.deal.get("objective", {"name": "aggregate_rewards", "params": {}}),
            self.deal["sensors"],
            self.deal["actuators"],
            self.deal["rewards"],
            words(1, ["kit", "muscle"]),
            words(1, ["kit", "objective"]),
            BRAIN if self.trains else None,
        )
        fields = {key: value for key, value in asdict(message).items() if value is not None}
        return self.session.ask("muscle.setup", {**fields, **more})

    def setup_bodies(self) -> Answer:
        """Begin a phase with two bodies and without a brain; Skip where it acts for one only."""
        if self.bench.notes.get("bodies") is False:
            raise Skip("it cannot be set up with two bodies: see bodies.sets-up")
        table = [["world", b, True, words(1, ["kit", "muscle", str(b)])] for b in range(_BODIES)]
        answer = self.try_setup(bodies=table, brain=None, mode="test")
        found = answer.fields.get("bodies")
        if answer.failed or found is None:
            raise Skip("it acts for one body")
        expect(found == _BODIES, f"muscle.setup: bodies: expected {_BODIES}, found {found!r:.60}")
        return answer

    def act_bodies(self, *entries: tuple[int, int]) -> None:
        """Give an entry (row, flags) for each of these; Miss unless each is answered that asks, or is completed."""
        deciding = sum(bool(flags & DECIDE) for _, flags in entries)
        completed = sum(not flags & FIRST for _, flags in entries)
        rows, flags = struct.pack(f"<{len(entries)}H", *(row for row, _ in entries)), bytes(one for _, one in entries)
        rewards = [self.middle("rewards", i) for i in range(len(self.deal["rewards"]))]
        body = {"readings": [self.readings()] * len(entries), "rewards": [rewards] * len(entries)}
        fields = self.ask({**body, "rows": rows, "flags": flags}).granted(self.where, "setpoints").fields
        try:
            self.checks.field("actuators", fields.get("setpoints") or [], "setpoints", deciding)
        except (RemoteProtocolError, TypeError) as error:
            raise Miss(f"{self.where}: {said(error)}") from error
        objective = fields.get("objective") or []
        right = all(one is None or type(one) in (int, float) for one in objective) and len(objective) == completed
        expect(right, f"{self.where}: objective: expected {completed} numbers or nils, found {objective!r:.60}")

    def act(self, **more: Any) -> Answer:
        """Give readings and the outcome of the decision before, ask for the next; Miss if that is refused."""
        answer = self.ask(self.outcome(**more))
        return answer.granted(self.where, "setpoints")

    def outcome(self, **more: Any) -> dict[str, Any]:
        """Return the body of the next `muscle.act`."""
        first = self.step == 0
        rewards = None if first else [[self.middle("rewards", i) for i in range(len(self.deal["rewards"]))]]
        fields: dict[str, Any] = {"readings": [self.readings()], "round": self.step, "workers": [0]}
        return {**fields, **({} if first else {"rewards": rewards}), **more}

    def readings(self) -> list[Any]:
        """Return a row of readings that lies in its spaces and changes with the decision."""
        return [self.middle("sensors", i) for i in range(len(self.deal["sensors"]))]

    def middle(self, what: str, i: int) -> Any:
        """Return a value of a declared space: its default, moved a little by the decision where it is a number."""
        layout = Layout.of(self.deal[what])
        space = layout.spaces[i]
        if space.scalar and space.dtype.kind == "f":
            value = 0.5 - 0.25 * ((self.step + i) % 4)
            return value if space.contains(value) else float(space.default())
        return layout.to_row([s.default() for s in layout.spaces])[i]

    def reset(self) -> Answer:
        """End the episode and begin the next; Miss if one of both is refused."""
        answer = self.ask(self.outcome(decide=False, closing=True, truncated=True))
        answer.granted(f"{self.where}, closing", "REPLY")
        self.episode += 1
        self.step = 0
        return self.session.ask("muscle.reset", {"episode": self.episode}).granted("muscle.reset", "REPLY")

    def setpoints(self, answer: Answer) -> list[Any]:
        """Return the row of setpoints; Miss says what does not fit its actuator."""
        return self.row("actuators", answer.fields, "setpoints")

    judge = setpoints

    def plain(self) -> dict[str, Any]:
        """Return the body of an act with readings alone."""
        return {"readings": [self.readings()]}

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
_BODIES = 2  # where there are several
_DECISIONS = 30  # of a case that looks at each
_COLUMNS = 2**17 - 128  # of float64: with the other fields it just fits a body


@case("act.before-setup", CALLS, _ROLE)
def before_setup(bench: Bench) -> None:
    """An act before `muscle.setup` is answered by ERROR."""
    session = bench.session(newborn=True)
    answer = session.ask(ACT, {"readings": [[0.0]]}, position=(0, 0, 0, 0, 1, 0))
    expect(answer.failed, f"act before setup: expected ERROR, found {answer.text}")


@case("join.sets-up", CALLS, _ROLE)
def sets_up(bench: Bench) -> None:
    """`muscle.setup` is answered by REPLY, also a second time after `muscle.shutdown`."""
    Body.first(bench)


@case_of(Body, "act.setpoints", SPACES)
def setpoints(body: Body) -> None:
    """Setpoints are one row in the order of the actuators, each in its space."""
    for _ in range(_DECISIONS):
        body.setpoints(body.act())


@case_of(Body, "act.settles", CALLS)
def settles(body: Body) -> None:
    """An act with `decide` false settles the decision before and proposes nothing."""
    body.act()
    answer = body.act(decide=False)
    expect(not answer.fields.get("setpoints"), f"{body.where}: expected no setpoints, found {answer.text}")
    body.setpoints(body.act())


@case_of(Body, "act.episodes", CALLS)
def episodes(body: Body) -> None:
    """A closing act, a reset and the first act of the next episode are answered."""
    for _ in range(3):
        body.act()
        body.act()
        body.reset()
    body.setpoints(body.act())


@case_of(Body, "act.integers", SPACES)
def integers(body: Body) -> None:
    """Integers are taken where floats are declared."""
    row = [0 if isinstance(value, float) else value for value in body.readings()]
    answer = body.ask({"readings": [row]})
    expect(not answer.failed, f"integers for floats: expected setpoints, found {answer.text}")
    body.setpoints(answer)


@case("act.masks", SPACES, _ROLE, must=False)
def masks(bench: Bench) -> None:
    """What it sets a Discrete actuator to is allowed by the Mask in the same message."""
    body = Body.begun(bench)
    discrete, mask = Discrete(3, start=4), Mask(3, of="choice")
    body.deal["sensors"] = [{"id": "world.allowed", "space": mask.to_wire()}]
    body.deal["actuators"] = [{"id": "world.choice", "space": discrete.to_wire(), "value": discrete.start}]
    body.checks.declare("actuators", body.deal["actuators"])
    if body.try_setup().failed:
        raise Skip("it acts on no Discrete actuator")
    for step in range(2 * discrete.n):
        row = [0] * discrete.n
        row[step % discrete.n] = 1
        answer = body.act(readings=[[bytes(row)]])
        try:
            [found] = body.setpoints(answer)
        except Miss:
            raise Skip("it acts on no Discrete actuator") from None
        wanted = discrete.start + step % discrete.n
        expect(found == wanted, f"{body.where}: world.choice: expected {wanted}, which alone is allowed, found {found}")


@case("act.new-process", CALLS, _ROLE, must=False, alone=True)
def new_process(bench: Bench) -> None:
    """A new process with the same stream proposes the same, bit for bit."""
    runs = []
    for _ in range(2):
        body = Body.begun(bench, fresh=True)
        runs.append([body.setpoints(body.act()) for _ in range(5)])
    expect(runs[0] == runs[1], f"in a new process: expected {runs[0]}, found {runs[1]}")


@case("brain.joins", CALLS, _ROLE)
def joins(bench: Bench) -> None:
    """A muscle that is given a brain says `brain.join` while it is set up."""
    body = _trained(bench)
    called = [call for call, _ in body.thoughts]
    expect(called == ["brain.join"], f"muscle.setup: expected it to call brain.join, found {called}")


@case("brain.thinks", CALLS, _ROLE)
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
    body = Body.begun(bench)
    if not body.trains:
        raise Skip("it is given no brain")
    return body


@case_of(Body, "repeat.act", REPEAT)
def repeat_act(body: Body) -> None:
    """The same act again gets the same answer, and its brain is not asked again."""
    body.act()
    fields = body.outcome()
    first = body.ask(fields)
    asked = len(body.thoughts)
    body.step -= 1
    again = body.ask(fields, serial=body.session.serial)
    expect(first.frames[1:] == again.frames[1:], f"{body.where} was executed twice: {first.text}, then {again.text}")
    expect(asked == len(body.thoughts), f"{body.where} was executed twice: its brain was asked again")


@case_of(Body, "errors.broken-act", ERRORS)
def broken_act(body: Body) -> None:
    """A body that is no msgpack is answered by ERROR, and the next call is answered."""
    for broken in (b"\xc1", b"\x81\xa8readings\x91\x91\xcb\x00"):
        body.refuses(broken, f"the body {broken.hex()}")


@case_of(Body, "bodies.sets-up", BODIES)
def sets_up_bodies(body: Body) -> None:
    """A set-up with two bodies is answered by `bodies: 2`; a muscle of one leaves it out."""
    body.bench.notes.pop("bodies", None)
    try:
        body.setup_bodies()
    except Miss:
        body.bench.notes["bodies"] = False
        raise


@case_of(Body, "bodies.decides", BODIES)
def decides(body: Body) -> None:
    """There is a row of setpoints for each entry that asks for a decision, in their order."""
    body.setup_bodies()
    body.act_bodies((1, DECIDE | FIRST))
    body.act_bodies((0, DECIDE | FIRST))


@case_of(Body, "bodies.completes", BODIES)
def completes(body: Body) -> None:
    """There is an objective for each entry that completes a decision: of all bodies, of one, where one has ended."""
    body.setup_bodies()
    body.act_bodies((0, DECIDE | FIRST), (1, DECIDE | FIRST))
    body.act_bodies((0, DECIDE), (1, DECIDE))
    body.act_bodies((1, DECIDE))
    body.act_bodies((0, TERMINATED), (0, DECIDE | FIRST), (1, DECIDE))


@case("large.reading", SPACES, _ROLE)
def large_reading(bench: Bench) -> None:
    """A reading of nearly a mebibyte is taken, as bytes."""
    if bench.order.plugin is not None or bench.order.more.get("sensors"):
        raise Skip("it has sensors of its own")
    body = Body.begun(bench)
    space = {"type": "box", "shape": [_COLUMNS], "dtype": "<f8", "low": -1.0, "high": 1.0}
    body.deal["sensors"] = [{"id": "world.image", "space": space}]
    body.deal["update"] = {
        "weights": {"dtype": "<f8", "shape": [1, _COLUMNS], "data": bytes(8 * _COLUMNS)},
        "bias": {"dtype": "<f8", "shape": [1], "data": struct.pack("<d", 0.5)},
    }
    body.setup()
    body.ask({"readings": [[bytes(8 * _COLUMNS)]]}).granted(f"a reading of {8 * _COLUMNS} bytes", "setpoints")


@case_of(Body, "large.decisions", CALLS)
def decisions(body: Body) -> str:
    """Ten thousand decisions pass, or as many as twenty seconds hold, with a reset behind each episode."""

    def step() -> None:
        answer = body.act()
        if body.step == 100:
            body.setpoints(answer)
            body.reset()

    return f"{body.bench.endure(step, body.session.spans)} decisions"


@case_of(Body, "leave.shut-down", CALLS)
def shut_down(body: Body) -> None:
    """`muscle.shutdown` is answered, its brain is left, and the process can be set up again."""
    body.session.ask("muscle.shutdown", {}).granted("muscle.shutdown", "REPLY")
    left = [call for call, _ in body.thoughts if call == "brain.leave"]
    expect(left or not body.trains, "muscle.shutdown: expected it to call brain.leave")
    body.setup()
