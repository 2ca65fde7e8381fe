"""Environments: one as the kit sees it, and the cases of what it declares, steps, repeats and refuses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ganglion.errors import PeerLost, RemoteProtocolError
from ganglion.peer.environment.contract import declared_layout
from ganglion.peer.step.layout import Masks, mask_fault
from ganglion.sdk.seed import integer_from_words, words
from ganglion.sdk.spaces import Box, Space
from ganglion.wire.envelope import Head
from ganglion.wire.messages import TERMINATED, TRUNCATED, EnvironmentStart
from ganglion.wire.verb import Verb
from ganglion_conformance.bench import Bench
from ganglion_conformance.case import Miss, Skip, case, expect
from ganglion_conformance.session import Answer, Session
from ganglion_conformance.subject import BODIES, CALLS, ERRORS, REPEAT, SPACES, Subject, case_of, said

_WIRE_BITS = 10  # an integer of a stream has 63 bits, what travels has 53
UPDATE = "environment.update"


@dataclass(frozen=True, slots=True)
class Step:
    """Hold one answer of an environment, as its fields are meant."""

    readings: list[Any]
    rewards: list[Any]
    terminated: bool
    truncated: bool
    ticks: int | None

    @property
    def ended(self) -> bool:
        """Say whether the episode has come to its end."""
        return self.terminated or self.truncated


class World(Subject):
    """Ask one environment in one session."""

    role, call, unit, declares = "environment", UPDATE, "step", "join.declares"

    def __init__(self, bench: Bench, session: Session) -> None:
        super().__init__(bench, session)
        self.declared: dict[str, Any] = {}
        self.actuators: list[tuple[str, Space]] = []
        self.sensors: list[str] = []
        self.masks: Masks | None = None
        self.seen: list[Any] = []  # the newest readings of one body, by which some setpoints are allowed
        self.rewards: list[str] | None = None
        self.ended = False
        self._rng = np.random.Generator(np.random.PCG64(7))

    # -- calls --------------------------------------------------------------------------------------------------------
    def start(self, seed: int = 1, **more: Any) -> Answer:
        """Begin a phase with this seed; Miss if that is refused, or declares what cannot be read."""
        answer = self.try_start(seed, **more).granted("environment.start", "declarations")
        self._declare(answer.fields)
        return answer

    begin = start

    def try_start(self, seed: int = 1, **more: Any) -> Answer:
        """Ask for the beginning of a phase, and return the answer whatever it is."""
        self.session.started = True
        self.episode = self.step = 0
        self.ended = False
        return self.session.ask("environment.start", {**self._start(seed), **more})

    def _start(self, seed: int) -> dict[str, Any]:
        own, first = words(seed, ["kit"]), words(seed, ["kit", "episode", 0])
        plugin = None if self.order.plugin is None else {"name": self.order.plugin, "params": {}}
        message = EnvironmentStart(
            "kit",
            0,
            "kit",
            "train",
            0,
            self.order.uid,
            self.order.params,
            seed if plugin is None else integer_from_words(own) >> _WIRE_BITS,
            seed if plugin is None else integer_from_words(first) >> _WIRE_BITS,
            own,
            first,
            plugin,
        )
        return {key: value for key, value in asdict(message).items() if value is not None}

    def _declare(self, fields: Mapping[str, Any], bodies: int = 1) -> None:
        try:
            for what in ("sensors", "actuators"):
                self.checks.declare(what, fields[what])
            self.sensors = [row["id"] for row in fields["sensors"]]
            layout = declared_layout(fields["actuators"], "actuators")
            self.actuators = layout.pairs()
            if fields.get("rewards") is not None:
                self._declare_rewards(fields["rewards"])
            seen = self.checks.layouts["sensors"]
            fault = mask_fault(seen, layout)
            if fault is not None:
                raise RemoteProtocolError(fault)
            self.masks = Masks(seen, layout)
            self.seen = self.checks.field("sensors", fields["readings"], "readings", bodies)
        except (RemoteProtocolError, KeyError, TypeError, IndexError) as error:
            raise Miss(f"environment.start: {said(error)}") from error
        self.declared = dict(fields)

    def _declare_rewards(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.checks.declare("rewards", rows)
        self.rewards = [row["id"] for row in rows]

    def reset(self, seed: int) -> Answer:
        """Begin the next episode with this seed; Miss if that is refused."""
        return self.open(self.reset_body(seed))

    def open(self, body: Mapping[str, Any], opened: Answer | None = None) -> Answer:
        """Begin the episode of a reset with this body; Miss if that is refused.

        `opened` is the answer that this reset had before: the state that was told in it is put back.
        """
        self.step = 0
        self.ended = False
        state = None if opened is None else opened.fields.get("state")
        if opened is not None and state is None and self.order.plugin is not None:
            state = {}  # our own host leaves out what has not been drawn from since the start
        answer = self.session.ask("environment.reset", {**body, **({} if state is None else {"state": state})})
        return answer.granted("environment.reset", "readings")

    def reset_body(self, seed: int) -> dict[str, Any]:
        """Return the body of the reset that begins the next episode, and count the episode."""
        self.episode += 1
        stream = words(seed, ["kit", "reset"])
        wire = seed if self.order.plugin is None else integer_from_words(stream) >> _WIRE_BITS
        return {"episode": self.episode, "seed": wire, "stream": stream}

    def ask(self, body: Mapping[str, Any] | bytes, **more: Any) -> Answer:
        """Ask for a step, and return the answer whatever it is."""
        answer = super().ask(body, **more)
        if not answer.failed:
            self.ended = True in (answer.fields.get("terminated"), answer.fields.get("truncated"))
        if self.rewards is None and isinstance(answer.fields.get("reward_ids"), list):
            self._declare_rewards(answer.fields["reward_ids"])
        return answer

    def steps(self, count: int) -> list[Answer]:
        """Return the answers to the next steps: so many, or fewer where the episode ends."""
        answers = [self.update()]
        while len(answers) < count and not self.ended:
            answers.append(self.update())
        return answers

    def update(self, values: Sequence[Any] | None = None) -> Answer:
        """Advance by one step; Miss if that is refused."""
        answer = self.ask(self.plain() if values is None else {"setpoints": [list(values)]})
        return answer.granted(self.where, "readings")

    def goes_on(self, what: str) -> None:
        """Miss unless the next call is answered as if nothing had been."""
        if self.ended:
            self.reset(99)
        super().goes_on(what)

    def plain(self) -> dict[str, Any]:
        """Return the body of a step that does nothing."""
        return {"setpoints": [self.no_ops()]}

    # -- several bodies -----------------------------------------------------------------------------------------------
    def start_bodies(self, each: Mapping[str, Any] | None = None, group: str | None = None) -> Answer:
        """Begin a phase with two bodies, perhaps of a group; Skip where it knows of one, Miss if that is wrong."""
        if self.bench.notes.get("bodies") is False:
            raise Skip("it cannot be started with two bodies: see bodies.declares")
        table = [["kit", 0, b, None, None, group] for b in range(_BODIES)]
        answer = self.try_start(3, bodies=table, index=0, **({} if each is None else {"each": dict(each)}))
        found = answer.fields.get("bodies")
        if answer.failed or found is None:
            raise Skip("it has one body")
        expect(found == _BODIES, f"environment.start: bodies: expected {_BODIES}, found {found!r:.60}")
        self._declare(answer.fields, _BODIES)
        return answer

    def update_bodies(self, rows: Sequence[int] | None = None) -> tuple[Answer, bytes]:
        """Advance these bodies by one step, all if None; return the answer and their flags, Miss if it does not fit."""
        count = _BODIES if rows is None else len(rows)
        named = {} if rows is None else {"rows": np.array(rows, "<u2").tobytes()}
        setpoints = [self.no_ops()] * count
        if self.declared.get("blocks"):  # as the kernel speaks to its own kind
            layout = declared_layout(self.declared["actuators"], "actuators")
            setpoints = layout.field([layout.from_row(row, "setpoints") for row in setpoints])
        answer = self.ask({"setpoints": setpoints, **named}).granted(self.where, "readings")
        self.readings_of(answer.fields, "readings", count)
        self.readings_of(answer.fields, "rewards", count)
        flags = answer.fields.get("flags")
        right = flags is None or (isinstance(flags, bytes) and len(flags) == count and max(flags) <= TRUNCATED)
        expect(right, f"{self.where}: flags: expected {count} bytes of at most {TRUNCATED}, found {flags!r:.60}")
        whole = TERMINATED * bool(answer.fields.get("terminated")) | TRUNCATED * bool(answer.fields.get("truncated"))
        return answer, bytes([whole] * count) if flags is None else flags

    def readings_of(self, fields: Mapping[str, Any], key: str, count: int) -> None:
        """Miss unless a field has a row as declared of each of so many bodies."""
        what = "rewards" if key == "rewards" else "sensors"
        try:
            self.checks.field(what, fields[key], key, count)
        except (RemoteProtocolError, TypeError, KeyError) as error:
            raise Miss(f"{self.where}: {said(error)}") from error

    # -- what is said and heard ---------------------------------------------------------------------------------------
    def no_ops(self) -> list[Any]:
        """Return a row of setpoints that does nothing, or of the spaces' defaults."""
        rows = self.declared["actuators"]
        return [
            row["value"] if row.get("value") is not None else _wire(space, space.default())
            for row, (_, space) in zip(rows, self.actuators, strict=True)
        ]

    def some(self) -> list[Any]:
        """Return a row of random setpoints that masks allow, the same ones in each kit."""
        row = [_wire(space, space.sample(self._rng)) for _, space in self.actuators]
        if not self.masks:
            return row
        layout = self.checks.layouts["actuators"]
        given = layout.matrices(layout.checked([row], "setpoints"), 1)
        return layout.rows(self.masks.allowed(self.checks.layouts["sensors"].matrices(self.seen, 1), given))[0]  # type: ignore[no-any-return]

    def read(self, answer: Answer) -> Step:
        """Return what an answer means; Miss says what does not fit the declarations."""
        fields = answer.fields
        readings = self.row("sensors", fields, "readings")
        if self.masks:
            self.seen = self.checks.field("sensors", fields["readings"], "readings")
        rewards = self.row("rewards", fields, "rewards") if fields.get("rewards") else []
        return Step(
            readings, rewards, fields.get("terminated") is True, fields.get("truncated") is True, fields.get("ticks")
        )

    judge = read

    def difference(self, one: Answer, other: Answer) -> str:
        """Return in which value two answers differ, empty if in none."""
        if one.verb is not other.verb:
            return f"{one.text}, then {other.text}"
        for key, ids in (("readings", self.sensors), ("rewards", self.rewards or [])):
            first, second = ((answer.fields.get(key) or [[]])[0] for answer in (one, other))
            if isinstance(first, dict) or isinstance(second, dict):
                continue  # declarations of rewards, compared below: the order of a map's keys means nothing
            for uid, a, b in zip(ids, first, second, strict=False):
                if a != b:
                    return f"`{uid}` went from {_shown(a)} to {_shown(b)}"
        for key in sorted({*one.fields, *other.fields} - {"state", "reward_ids"}):
            a, b = one.fields.get(key), other.fields.get(key)
            if a != b:
                return f"`{key}` went from {a!r:.60} to {b!r:.60}"
        return ""

    def alike(self, ones: Sequence[Answer], others: Sequence[Answer], what: str) -> None:
        """Miss if answers differ in a value; an end that comes earlier is a difference of flags."""
        for one, other in zip(ones, others, strict=False):
            changed = self.difference(one, other)
            expect(not changed, f"{what}: {changed}")

    def bounded(self) -> tuple[int, Box]:
        """Return place and space of an actuator that has an upper bound; Skip if there is none."""
        for i, (_, space) in enumerate(self.actuators):
            if isinstance(space, Box) and space.scalar and np.isfinite(space.high).all():
                return i, space
        raise Skip("no actuator is a number with an upper bound")

    def floats(self) -> list[int]:
        """Return the places of actuators that are floats; Skip if there are none."""
        found = [
            i
            for i, (_, space) in enumerate(self.actuators)
            if isinstance(space, Box) and space.scalar and space.dtype.kind == "f"
        ]
        if not found:
            raise Skip("no actuator is a float")
        return found


def _wire(space: Space, value: Any) -> Any:
    if space.scalar:
        return float(value) if space.dtype.kind == "f" else int(value)
    vector = space.to_vector(value)
    return np.ascontiguousarray(vector, vector.dtype.newbyteorder("<")).tobytes()


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else f"{value!r:.40}"


_ROLE = "environment"
_STEPS = 60  # of a case that looks at each step
_BODIES = 2  # where there are several
_ABOVE = 3.0
_MIB = 1024 * 1024


# == before anything was begun ========================================================================================
@case("reset.before-start", CALLS, _ROLE)
def before_start(bench: Bench) -> None:
    """An update before `environment.start` is answered by ERROR."""
    session = bench.session(newborn=True)
    answer = session.ask(UPDATE, {"setpoints": [[0.0]]}, position=(0, 0, 0, 0, 1, 0))
    expect(answer.failed, f"update before start: expected ERROR, found {answer.text}")
    if not session.lost:
        session.started = False


# == joining ==========================================================================================================
@case("join.declares", CALLS, _ROLE)
def declares(bench: Bench) -> str:
    """`environment.start` is answered by sensors, actuators and rewards with ids, spaces and first readings."""
    world = World.first(bench)
    bench.notes["counts"] = (len(world.sensors), len(world.actuators), len(world.rewards or []))
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
    plain = world.began
    answer = world.start(**strange)
    expect(answer.fields["sensors"] == plain.fields["sensors"], "start with unknown fields: declares otherwise")
    world.ask({"setpoints": [world.no_ops()], **strange}).granted("update with unknown fields", "readings")


# == reset ============================================================================================================
@case_of(World, "reset.declared", CALLS)
def reset_declared(world: World) -> None:
    """After a reset there are readings as declared, in number, order and type, and no rewards."""
    world.update()
    answer = world.reset(5)
    step = world.read(answer)
    expect(not answer.fields.get("rewards"), f"reset: rewards: expected none, found {step.rewards}")
    expect(not step.ended, "reset: expected no flags, found an episode that has ended")


@case_of(World, "reset.same-seed", CALLS)
def same_seed(world: World) -> None:
    """The same reset again, with the `state` of its answer where there is one, gives the same values, bit for bit."""
    body = world.reset_body(11)
    first = [world.open(body), *world.steps(3)]
    again = [world.open(body, first[0]), *world.steps(3)]
    world.alike(first, again, "the same seed again")


@case("reset.new-process", CALLS, _ROLE, must=False, alone=True)
def new_process(bench: Bench) -> None:
    """A new process gives the same values for the same seed, bit for bit."""
    runs = []
    for _ in range(2):
        world = World.begun(bench, fresh=True)
        runs.append([world.began, world.update(), world.reset(11), world.update()])
    world.alike(runs[0], runs[1], "the same seed in a new process")


# == step =============================================================================================================
@case_of(World, "step.values", SPACES)
def values(world: World) -> None:
    """Readings and rewards lie in the spaces that were declared for them, in each step."""
    for _ in range(_STEPS):
        if world.read(world.update(world.some())).ended:
            world.read(world.reset(world.episode + 20))


@case_of(World, "step.flags", CALLS)
def flags(world: World) -> None:
    """`terminated` and `truncated` are booleans, and never both true."""
    for _ in range(_STEPS):
        fields = world.update(world.some()).fields
        for key in ("terminated", "truncated"):
            found = fields.get(key, False)
            expect(type(found) is bool, f"{world.where}: {key}: expected a boolean, found {found!r:.60}")
        both = fields.get("terminated") and fields.get("truncated")
        expect(not both, f"{world.where}: expected one of terminated and truncated, found both")
        if fields.get("terminated") or fields.get("truncated"):
            world.reset(world.episode + 20)


@case_of(World, "step.simtime", CALLS)
def simtime(world: World) -> None:
    """Simulated time never falls within an episode: `ticks` are integers, or nil."""
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


@case_of(World, "step.integers", SPACES)
def integers(world: World) -> None:
    """An integer is taken where a float is declared, and does the same as the float."""
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


@case_of(World, "step.outside", SPACES)
def outside(world: World) -> str:
    """A setpoint outside its space is answered by ERROR or clipped, and the next call is answered."""
    i, space = world.bounded()
    row = world.no_ops()
    row[i] = float(space.high) * _ABOVE + _ABOVE
    answer = world.ask({"setpoints": [row]})
    if not answer.failed:
        world.read(answer)
    world.goes_on("a setpoint outside its space")
    return "refused" if answer.failed else "clipped"


# == repeat ===========================================================================================================
@case_of(World, "repeat.same-answer", REPEAT)
def same_answer(world: World) -> None:
    """The same request again gets the same answer, and is not executed again."""
    *_, first = world.steps(3)
    world.step -= 1
    again = world.ask(world.plain(), serial=world.session.serial)
    world.alike([first], [again], f"{world.where} was executed twice")


@case_of(World, "repeat.beat-between", REPEAT)
def beat_between(world: World) -> None:
    """A BEAT between a request and its repetition changes nothing."""
    first = world.update()
    session = world.session
    session.say("", Head(Verb.BEAT))
    session.hear("BEAT", 1.0)
    world.step -= 1
    again = world.ask(world.plain(), serial=session.serial)
    world.alike([first], [again], f"{world.where} was executed twice after a BEAT")


@case_of(World, "repeat.reset", REPEAT)
def repeat_reset(world: World) -> None:
    """A reset that comes again gets the same answer."""
    body = world.reset_body(9)
    first = world.session.ask("environment.reset", body)
    again = world.session.ask("environment.reset", body, serial=world.session.serial)
    world.alike([first], [again], f"reset (episode {world.episode}) was executed twice")


@case_of(World, "repeat.new-serial", REPEAT)
def new_serial(world: World) -> None:
    """The same body with another serial is another request, and is executed."""
    ticks = [answer.fields.get("ticks") for answer in world.steps(3)]
    if None in ticks or len(ticks) == 1:
        raise Skip("it tells no ticks, or of one step only, by which a step could be recognised")
    expect(
        len(set(ticks)) == len(ticks),
        f"{len(ticks)} updates with serials of their own: ticks {ticks}, one was not executed",
    )


# == errors ===========================================================================================================
@case_of(World, "errors.broken-body", ERRORS)
def broken_body(world: World) -> None:
    """A body that is no msgpack is answered by ERROR, and the next call is answered."""
    for broken in (b"\xc1", b"\x82\xa1a\x01", b"\x81\xa9setpoints\x91\x91\xcb\x00"):
        world.refuses(broken, f"the body {broken.hex()}")


@case_of(World, "errors.extra-frames", ERRORS)
def extra_frames(world: World) -> None:
    """Frames behind the body that nothing refers to are skipped, also a large one."""
    world.ask(world.plain(), blobs=(bytes(_MIB), b"", b"x")).granted("update with three blobs", "readings")
    world.goes_on("frames that nothing refers to")


# == several bodies ===================================================================================================
@case_of(World, "bodies.declares", BODIES)
def declares_bodies(world: World) -> None:
    """Two bodies are answered by `bodies: 2` and a row of first readings of each; with one it is left out."""
    world.bench.notes.pop("bodies", None)
    try:
        world.start_bodies()
    except Miss:
        world.bench.notes["bodies"] = False
        raise


@case_of(World, "bodies.steps", BODIES)
def steps_bodies(world: World) -> None:
    """In each step there is a row of readings and of rewards, and a flag, for each body that takes part."""
    world.start_bodies()
    for rows in (None, [1], [0], [0, 1]):
        _, flags = world.update_bodies(rows)
        if any(flags):
            raise Skip("a body ends in its first steps")


@case_of(World, "bodies.same-seed", BODIES)
def same_seed_bodies(world: World) -> None:
    """The same start again gives the same values of each body, bit for bit."""
    runs = [[world.start_bodies(), world.update_bodies()[0]] for _ in range(2)]
    for first, again in zip(*runs, strict=True):
        expect(first.fields["readings"] == again.fields["readings"], "the same seed again: other readings")


@case_of(World, "bodies.reset", BODIES)
def reset_bodies(world: World) -> None:
    """A reset is answered by a row of first readings of each body."""
    world.start_bodies()
    world.update_bodies()
    world.readings_of(world.reset(5).fields, "readings", _BODIES)


@case_of(World, "bodies.groups", BODIES)
def groups(world: World) -> None:
    """What a group earns is a finite number, and of a group that bodies are of; without one no bodies earn together."""
    for group in ("herd", None):
        world.start_bodies(group=group)
        for _ in range(2):
            answer, _ = world.update_bodies()
            found = answer.fields.get("group_rewards") or {}
            what = "none" if group is None else f"a finite number of {group}, or none"
            known = isinstance(found, dict) and found.keys() <= ({group} - {None})
            right = known and all(type(it) in (int, float) and math.isfinite(it) for it in found.values())
            expect(right, f"{world.where}: group_rewards: expected {what}, found {found!r:.60}")


@case_of(World, "bodies.each", BODIES)
def each(world: World) -> None:
    """With `each` a body is truncated after `max_steps`, and begins anew in that step until its budget is spent."""
    world.start_bodies({"max_steps": 2, "budget_steps": None, "budget_episodes": 2})
    for step, begins in ((1, 0), (2, _BODIES), (3, 0), (4, 0)):
        answer, flags = world.update_bodies()
        expected = TRUNCATED * (step % 2 == 0)
        expect(set(flags) == {expected}, f"{world.where}: flags: expected {expected} of each, found {flags!r}")
        begun = answer.fields.get("first_rows") or b""
        wanted = np.arange(begins, dtype="<u2").tobytes()
        expect(begun == wanted, f"{world.where}: first_rows: expected {wanted!r}, found {begun!r:.60}")
        if begins:
            world.readings_of(answer.fields, "first_readings", begins)
    more = {"max_steps": 2, "budget_steps": None, "budget_episodes": [3, 3], "episodes": [2, 2], "made": [4, 4]}
    world.readings_of(world.open({**world.reset_body(5), "each": more}).fields, "readings", _BODIES)
    _, flags = world.update_bodies()
    expect(not any(flags), f"{world.where}, after a reset with a larger budget: flags: expected none, found {flags!r}")


# == large, state, speed ==============================================================================================
@case("large.body", "Bounds", _ROLE)
def large_body(bench: Bench) -> None:
    """A body of a mebibyte is answered, and the next call is answered."""
    if bench.order.plugin is not None:
        raise Skip("a plugin is given the parameters that it takes")
    world = World.begun(bench)
    answer = world.try_start(params={**bench.order.params, "large": bytes(_MIB - 4096)})
    answer.granted("start with a body of 1 MiB", "declarations")
    world.goes_on("a body of 1 MiB")


@case_of(World, "large.utf8", CALLS)
def utf8(world: World) -> None:
    """Text that is not ASCII, in uid and names, is taken."""
    answer = world.try_start(uid="Umwelt-ü-雪-🌊", phase_name="Läufe", mode="train", run="kit")
    answer.granted("start with text in UTF-8", "declarations")


@case_of(World, "large.steps", CALLS)
def steps(world: World) -> str:
    """Ten thousand steps pass, or as many as twenty seconds hold, with a reset behind each episode."""

    def step() -> None:
        answer = world.update(world.some() if world.step % 7 == 0 else None)
        if answer.fields.get("terminated") is True or answer.fields.get("truncated") is True:
            world.read(answer)
            world.reset(world.episode + 20)

    return f"{world.bench.endure(step, world.session.spans)} steps"


@case("state.goes-on", CALLS, _ROLE, alone=True)
def state(bench: Bench) -> None:
    """Where a reset answers with `state`, a fresh process that is given it goes on bit for bit."""
    first = World.begun(bench, fresh=True)
    first.update()
    body = first.reset_body(12)
    answer = first.open(body)
    if answer.fields.get("state") is None:
        raise Skip("it declares no state")
    expected = [answer, *first.steps(5)]
    second = World.begun(bench, fresh=True)
    second.episode = first.episode
    found = [second.open(body, answer), *second.steps(5)]
    first.alike(expected, found, "a fresh process with the same state")


# == leaving ==========================================================================================================
@case_of(World, "leave.shutdown", CALLS)
def shutdown(world: World) -> None:
    """`environment.shutdown` is answered, and the process can be started again."""
    world.session.ask("environment.shutdown", {}).granted("environment.shutdown", "REPLY")
    try:
        world.start(2)
    except PeerLost as error:
        raise Miss(f"start after shutdown: {error.reason}") from error
