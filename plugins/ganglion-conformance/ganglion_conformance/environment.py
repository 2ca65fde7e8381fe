"""Cases of environments: what they declare, how they begin, step and repeat, and what they refuse."""

from __future__ import annotations

from typing import Any

from ganglion.errors import PeerLost
from ganglion.wire.envelope import Head
from ganglion.wire.verb import Verb
from ganglion_conformance.bench import Bench
from ganglion_conformance.case import Miss, Skip, case, expect
from ganglion_conformance.session import Answer
from ganglion_conformance.world import UPDATE, World

_ROLE = "environment"
_STEPS = 60  # of a case that looks at each step
_ABOVE = 3.0
_MIB = 1024 * 1024
_CALLS, _SPACES, _REPEAT = "Calls", "Spaces and arrays", "Identity and repetition"
_ERRORS = "Errors"


# == before anything was begun ========================================================================================
@case("reset.before-start", _CALLS, _ROLE)
def before_start(bench: Bench) -> None:
    """An update before `environment.start` is answered by ERROR."""
    session = bench.session(newborn=True)
    answer = session.ask(UPDATE, {"setpoints": [[0.0]]}, position=(0, 0, 0, 0, 1, 0))
    expect(answer.failed, f"update before start: expected ERROR, found {answer.text}")
    if not session.lost:
        session.started = False


# == joining ==========================================================================================================
@case("join.declares", _CALLS, _ROLE)
def declares(bench: Bench) -> str:
    """`environment.start` is answered by sensors, actuators and rewards with ids, spaces and first readings."""
    bench.notes["undeclared"] = True  # until it is shown: what needs a start is not asked otherwise
    world = World(bench, bench.session())
    world.start()
    bench.notes["undeclared"] = False
    counts = (len(world.sensors), len(world.actuators), len(world.rewards or []))
    bench.notes["counts"] = counts
    ticks = world.declared.get("ticks", 0)
    expect(ticks is None or type(ticks) is int, f"ticks: expected an integer or nil, found {ticks!r:.60}")
    return ""


@case("join.unknown-keys", "Versions", _ROLE)
def unknown_keys(bench: Bench) -> None:
    """Fields that the peer does not know are skipped, whatever they hold."""
    strange: dict[str, Any] = {
        "x_map": {"a": {"b": [1, 2.5, None]}},
        "x_text": "ü" * 40,
        "x_bytes": bytes(300),
        "x_list": [[True, False], []],
        "x_large": 2**53 - 1,
        "x_negative": -(2**53 - 1),
    }
    world = World.begun(bench)
    plain = world.declared
    answer = world.try_start(**strange)
    expect(not answer.failed, f"start with unknown fields: expected declarations, found {answer.text}")
    expect(answer.fields.get("sensors") == plain.get("sensors"), "start with unknown fields: declares otherwise")
    answer = world.ask({"setpoints": [world.no_ops()], **strange})
    expect(not answer.failed, f"update with unknown fields: expected readings, found {answer.text}")


# == reset ============================================================================================================
@case("reset.declared", _CALLS, _ROLE)
def reset_declared(bench: Bench) -> None:
    """After a reset there are readings as declared, in number, order and type, and no rewards."""
    world = World.begun(bench)
    world.update()
    answer = world.reset(5)
    step = world.read(answer)
    expect(not answer.fields.get("rewards"), f"reset: rewards: expected none, found {step.rewards}")
    expect(not step.ended, "reset: expected no flags, found an episode that has ended")


@case("reset.same-seed", _CALLS, _ROLE)
def same_seed(bench: Bench) -> None:
    """The same reset again, with the `state` of its answer where there is one, gives the same values, bit by bit."""
    world = World.begun(bench)
    body = world.reset_body(11)
    first = [world.open(body), *world.steps(3)]
    again = [world.open(body, first[0]), *world.steps(3)]
    for one, other in zip(first, again, strict=False):  # an end that comes earlier is a difference of flags
        changed = world.difference(one, other)
        expect(not changed, f"the same seed again: {changed}")


@case("reset.new-process", _CALLS, _ROLE, must=False, alone=True)
def new_process(bench: Bench) -> None:
    """A new process gives the same values for the same seed, bit by bit."""
    if bench.notes.get("undeclared"):
        raise Skip("it cannot be started: see join.declares")
    runs = []
    for _ in range(2):
        world = World(bench, bench.fresh())
        runs.append([world.start(3), world.update(), world.reset(11), world.update()])
    for one, other in zip(*runs, strict=True):
        changed = world.difference(one, other)
        expect(not changed, f"the same seed in a new process: {changed}")


# == step =============================================================================================================
@case("step.values", _SPACES, _ROLE)
def values(bench: Bench) -> None:
    """Readings and rewards lie in the spaces that were declared for them, in each step."""
    world = World.begun(bench)
    for _ in range(_STEPS):
        if world.read(world.update(world.some())).ended:
            world.read(world.reset(world.episode + 20))


@case("step.flags", _CALLS, _ROLE)
def flags(bench: Bench) -> None:
    """`terminated` and `truncated` are booleans, and never both true."""
    world = World.begun(bench)
    for _ in range(_STEPS):
        fields = world.update(world.some()).fields
        for key in ("terminated", "truncated"):
            found = fields.get(key, False)
            expect(type(found) is bool, f"{world.where}: {key}: expected a boolean, found {found!r:.60}")
        both = fields.get("terminated") and fields.get("truncated")
        expect(not both, f"{world.where}: expected one of terminated and truncated, found both")
        if fields.get("terminated") or fields.get("truncated"):
            world.reset(world.episode + 20)


@case("step.simtime", _CALLS, _ROLE)
def simtime(bench: Bench) -> None:
    """Simulated time never falls within an episode: `ticks` are integers, or nil."""
    world = World.begun(bench)
    before = -1
    for _ in range(_STEPS):
        answer = world.update(world.some())
        ticks = answer.fields.get("ticks")
        if ticks is not None:
            right = type(ticks) is int or (isinstance(ticks, float) and ticks.is_integer())
            expect(right, f"{world.where}: ticks: expected an integer, found {ticks!r:.60}")
            expect(ticks >= before, f"{world.where}: ticks fell from {before} to {ticks}")
            before = int(ticks)
        if answer.fields.get("terminated") is True or answer.fields.get("truncated") is True:
            world.reset(world.episode + 20)
            before = -1


@case("step.integers", _SPACES, _ROLE)
def integers(bench: Bench) -> None:
    """An integer is taken where a float is declared, and does the same as the float."""
    world = World.begun(bench)
    places, row = world.floats(), world.no_ops()
    for i in places:
        low, high = (float(world.actuators[i][1].low), float(world.actuators[i][1].high))  # type: ignore[attr-defined]
        row[i] = float(min(max(1.0, low), high))
        if not row[i].is_integer():
            raise Skip("no integer lies in the space of the actuator")
    answers = []
    for kind in (float, int):
        world.start(4)
        answers.append(world.ask({"setpoints": [[kind(v) if i in places else v for i, v in enumerate(row)]]}))
    expect(not answers[1].failed, f"integers for floats: expected readings, found {answers[1].text}")
    first, second = (world.read(answer).readings for answer in answers)
    expect(len(first) == len(second), "integers for floats: other readings")


@case("step.outside", _SPACES, _ROLE)
def outside(bench: Bench) -> str:
    """A setpoint outside its space is answered by ERROR or clipped, and the next call is answered."""
    world = World.begun(bench)
    i, space = world.bounded()
    row = world.no_ops()
    row[i] = float(space.high) * _ABOVE + _ABOVE
    answer = world.ask({"setpoints": [row]})
    if not answer.failed:
        world.read(answer)
    world.goes_on("a setpoint outside its space")
    return "refused" if answer.failed else "clipped"


@case("step.nan", _SPACES, _ROLE)
def nan(bench: Bench) -> None:
    """NaN for a setpoint is answered by ERROR, or leaves readings within their spaces; the next call is answered."""
    world = World.begun(bench)
    row = world.no_ops()
    row[world.floats()[0]] = float("nan")
    answer = world.ask({"setpoints": [row]})
    if not answer.failed:
        world.read(answer)
    world.goes_on("NaN")


@case("step.few", _CALLS, _ROLE)
def few(bench: Bench) -> None:
    """Too few setpoints are answered by ERROR, and the next call is answered."""
    world = World.begun(bench)
    if not world.actuators:
        raise Skip("it has no actuators")
    world.refuses({"setpoints": [world.no_ops()[:-1]]}, "too few setpoints")


@case("step.many", _CALLS, _ROLE)
def many(bench: Bench) -> None:
    """Too many setpoints are answered by ERROR, and the next call is answered."""
    world = World.begun(bench)
    world.refuses({"setpoints": [[*world.no_ops(), 0.0]]}, "too many setpoints")


@case("step.none", _CALLS, _ROLE)
def none(bench: Bench) -> None:
    """A step that gives none of the setpoints (`actuators` is an empty list) is a step."""
    world = World.begun(bench)
    answer = world.ask({"setpoints": [[]], "actuators": []})
    expect(not answer.failed, f"a step without setpoints: expected readings, found {answer.text}")
    world.read(answer)


@case("step.bodies", _CALLS, _ROLE)
def bodies(bench: Bench) -> None:
    """Two rows of setpoints, where one body was declared, are answered by ERROR."""
    world = World.begun(bench)
    world.refuses({"setpoints": [world.no_ops(), world.no_ops()]}, "two rows for one body")


# == repeat ===========================================================================================================
@case("repeat.same-answer", _REPEAT, _ROLE)
def same_answer(bench: Bench) -> None:
    """The same request again gets the same answer, and is not executed again."""
    world = World.begun(bench)
    *_, first = world.steps(3)
    world.step -= 1
    again = world.ask({"setpoints": [world.no_ops()]}, serial=world.session.serial)
    changed = world.difference(first, again)
    expect(not changed, f"{world.where} was executed twice: {changed}")


@case("repeat.beat-between", _REPEAT, _ROLE)
def beat_between(bench: Bench) -> None:
    """A BEAT between a request and its repetition changes nothing."""
    world = World.begun(bench)
    first = world.update()
    session = world.session
    session.say("", Head(Verb.BEAT, 3))
    session.hear("BEAT", 1.0)
    world.step -= 1
    again = world.ask({"setpoints": [world.no_ops()]}, serial=session.serial)
    changed = world.difference(first, again)
    expect(not changed, f"{world.where} was executed twice after a BEAT: {changed}")


@case("repeat.reset", _REPEAT, _ROLE)
def repeat_reset(bench: Bench) -> None:
    """A reset that comes again gets the same answer."""
    world = World.begun(bench)
    body = world.reset_body(9)
    answers: list[Answer] = []
    for serial in (None, world.session.serial + 1):
        answers.append(world.session.ask("environment.reset", body, serial=serial))
    changed = world.difference(*answers)
    expect(not changed, f"reset (episode {world.episode}) was executed twice: {changed}")


@case("repeat.new-serial", _REPEAT, _ROLE)
def new_serial(bench: Bench) -> None:
    """The same body with another serial is another request, and is executed."""
    world = World.begun(bench)
    ticks = [answer.fields.get("ticks") for answer in world.steps(3)]
    if None in ticks or len(ticks) == 1:
        raise Skip("it tells no ticks, or of one step only, by which a step could be recognised")
    expect(
        len(set(ticks)) == len(ticks),
        f"{len(ticks)} updates with serials of their own: ticks {ticks}, one was not executed",
    )


# == errors ===========================================================================================================
@case("errors.broken-body", _ERRORS, _ROLE)
def broken_body(bench: Bench) -> None:
    """A body that is no msgpack is answered by ERROR, and the next call is answered."""
    world = World.begun(bench)
    for broken in (b"\xc1", b"\x82\xa1a\x01", b"\x81\xa9setpoints\x91\x91\xcb\x00"):
        world.refuses(broken, f"the body {broken.hex()}")


@case("errors.missing-field", _ERRORS, _ROLE)
def missing_field(bench: Bench) -> None:
    """A request that lacks a field, or has another type there, is answered by ERROR; the next call is answered."""
    world = World.begun(bench)
    wrong: list[dict[str, Any]] = [{}, {"setpoints": 7}]
    if world.actuators:  # a text that looks like a number is none, and nil is no zero
        wrong += [{"setpoints": [[value] * len(world.actuators)]} for value in ("text", "1", None)]
    for body in wrong:
        world.refuses(body, f"update with {body}")


@case("errors.extra-frames", _ERRORS, _ROLE)
def extra_frames(bench: Bench) -> None:
    """Frames behind the body that nothing refers to are skipped, also a large one."""
    world = World.begun(bench)
    answer = world.ask({"setpoints": [world.no_ops()]}, blobs=(bytes(_MIB), b"", b"x"))
    expect(not answer.failed, f"update with three blobs: expected readings, found {answer.text}")
    world.goes_on("frames that nothing refers to")


# == large, state, speed ==============================================================================================
@case("large.body", "Bounds", _ROLE)
def large_body(bench: Bench) -> None:
    """A body of a mebibyte is answered, and the next call is answered."""
    if bench.order.plugin is not None:
        raise Skip("a plugin is given the parameters that it takes")
    world = World.begun(bench)
    answer = world.start(params={**bench.order.params, "large": bytes(_MIB - 4096)})
    expect(not answer.failed, f"start with a body of 1 MiB: expected declarations, found {answer.text}")
    world.goes_on("a body of 1 MiB")


@case("large.utf8", "Calls", _ROLE)
def utf8(bench: Bench) -> None:
    """Text that is not ASCII, in uid and names, is taken."""
    world = World.begun(bench)
    answer = world.try_start(uid="Umwelt-ü-雪-🌊", phase_name="Läufe", mode="train", run="kit")
    expect(not answer.failed, f"start with text in UTF-8: expected declarations, found {answer.text}")


@case("large.steps", "Calls", _ROLE)
def steps(bench: Bench) -> str:
    """Ten thousand steps pass, or as many as twenty seconds hold, with a reset behind each episode."""
    world = World.begun(bench)

    def step() -> None:
        answer = world.update(world.some() if world.step % 7 == 0 else None)
        if answer.fields.get("terminated") is True or answer.fields.get("truncated") is True:
            world.read(answer)
            world.reset(world.episode + 20)

    return f"{bench.endure(step, world.session.spans)} steps"


@case("state.goes-on", "Calls", _ROLE, alone=True)
def state(bench: Bench) -> None:
    """Where a reset answers with `state`, a fresh process that is given it goes on bit by bit."""
    if bench.notes.get("undeclared"):
        raise Skip("it cannot be started: see join.declares")
    first = World(bench, bench.fresh())
    first.start(3)
    first.update()
    body = first.reset_body(12)
    answer = first.open(body)
    if answer.fields.get("state") is None:
        raise Skip("it declares no state")
    expected = [answer, *first.steps(5)]
    second = World(bench, bench.fresh())
    second.start(3)
    second.episode = first.episode
    found = [second.open(body, answer), *second.steps(5)]
    for one, other in zip(expected, found, strict=False):
        changed = first.difference(one, other)
        expect(not changed, f"a fresh process with the same state: {changed}")


# == leaving ==========================================================================================================
@case("leave.shutdown", _CALLS, _ROLE)
def shutdown(bench: Bench) -> None:
    """`environment.shutdown` is answered, and the process can be started again."""
    world = World.begun(bench)
    answer = world.session.ask("environment.shutdown", {})
    expect(not answer.failed, f"environment.shutdown: expected REPLY, found {answer.text}")
    try:
        world.start(2)
    except PeerLost as error:
        raise Miss(f"start after shutdown: {error.reason}") from error
