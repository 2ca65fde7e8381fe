"""Cases of muscles: how they are set up, what they propose, and what they ask of their brain."""

from __future__ import annotations

import struct

from ganglion_conformance.bench import Bench
from ganglion_conformance.body import ACT, Body
from ganglion_conformance.case import Skip, case, expect

_ROLE = "muscle"
_DECISIONS = 30  # of a case that looks at each
_COLUMNS = 2**17 - 128  # of float64: with the other fields it just fits a body
_CALLS, _SPACES, _REPEAT, _ERRORS = "Calls", "Spaces and arrays", "Identity and repetition", "Errors"


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


@case("act.setpoints", _SPACES, _ROLE)
def setpoints(bench: Bench) -> None:
    """Setpoints are one row in the order of the actuators, each in its space."""
    body = Body.set_up(bench)
    for _ in range(_DECISIONS):
        body.setpoints(body.act())


@case("act.settles", _CALLS, _ROLE)
def settles(bench: Bench) -> None:
    """An act with `decide` false settles the decision before and proposes nothing."""
    body = Body.set_up(bench)
    body.act()
    answer = body.act(decide=False)
    expect(not answer.fields.get("setpoints"), f"{body.where}: expected no setpoints, found {answer.text}")
    body.setpoints(body.act())


@case("act.episodes", _CALLS, _ROLE)
def episodes(bench: Bench) -> None:
    """A closing act, a reset and the first act of the next episode are answered."""
    body = Body.set_up(bench)
    for _ in range(3):
        body.act()
        body.act()
        body.reset()
    body.setpoints(body.act())


@case("act.integers", _SPACES, _ROLE)
def integers(bench: Bench) -> None:
    """Integers are taken where floats are declared."""
    body = Body.set_up(bench)
    row = [0 if isinstance(value, float) else value for value in body.readings()]
    answer = body.ask({"readings": [row]})
    expect(not answer.failed, f"integers for floats: expected setpoints, found {answer.text}")
    body.setpoints(answer)


@case("act.few", _CALLS, _ROLE)
def few(bench: Bench) -> None:
    """Too few readings are answered by ERROR, and the next call is answered."""
    body = Body.set_up(bench)
    body.refuses({"readings": [body.readings()[:-1]]}, "too few readings")


@case("act.bodies", _CALLS, _ROLE)
def bodies(bench: Bench) -> None:
    """Two rows of readings are answered by ERROR, and the next call is answered."""
    body = Body.set_up(bench)
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


@case("repeat.act", _REPEAT, _ROLE)
def repeat_act(bench: Bench) -> None:
    """The same act again gets the same answer, and its brain is not asked again."""
    body = Body.set_up(bench)
    body.act()
    fields = body.outcome()
    first = body.ask(fields)
    asked = len(body.thoughts)
    body.decision -= 1
    again = body.ask(fields, serial=body.session.serial)
    expect(first.frames[1:] == again.frames[1:], f"{body.where} was executed twice: {first.text}, then {again.text}")
    expect(asked == len(body.thoughts), f"{body.where} was executed twice: its brain was asked again")


@case("errors.broken-act", _ERRORS, _ROLE)
def broken_act(bench: Bench) -> None:
    """A body that is no msgpack is answered by ERROR, and the next call is answered."""
    body = Body.set_up(bench)
    for broken in (b"\xc1", b"\x81\xa8readings\x91\x91\xcb\x00"):
        body.refuses(broken, f"the body {broken.hex()}")


@case("errors.missing-readings", _ERRORS, _ROLE)
def missing_readings(bench: Bench) -> None:
    """An act without readings is answered by ERROR, and the next call is answered."""
    body = Body.set_up(bench)
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


@case("large.decisions", _CALLS, _ROLE)
def decisions(bench: Bench) -> str:
    """Ten thousand decisions pass, or as many as twenty seconds hold, with a reset behind each episode."""
    body = Body.set_up(bench)

    def step() -> None:
        answer = body.act()
        if body.decision == 100:
            body.setpoints(answer)
            body.reset()

    return f"{bench.endure(step, body.session.spans)} decisions"


@case("leave.shut-down", _CALLS, _ROLE)
def shut_down(bench: Bench) -> None:
    """`muscle.shutdown` is answered, its brain is left, and the process can be set up again."""
    body = Body.set_up(bench)
    answer = body.session.ask("muscle.shutdown", {})
    expect(not answer.failed, f"muscle.shutdown: expected REPLY, found {answer.text}")
    left = [call for call, _ in body.thoughts if call == "brain.leave"]
    expect(left or not body.trains, "muscle.shutdown: expected it to call brain.leave")
    body.setup()
