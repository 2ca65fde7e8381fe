"""Environments: one as the kit sees it, and the cases of what it declares, steps, repeats and refuses."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ganglion.errors import PeerLost, RemoteProtocolError
from ganglion.peer.contract import Declared, declared_layout
from ganglion.sdk.seed import integer_from_words, words
from ganglion.sdk.spaces import Box, Space
from ganglion.wire.envelope import Head, Position
from ganglion.wire.messages import EnvironmentStart
from ganglion.wire.verb import Verb
from ganglion_conformance.bench import Bench
from ganglion_conformance.case import Miss, Run, Skip, case, expect
from ganglion_conformance.session import Answer, Session

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


class World:
    """Ask one environment in one session; `strict` is what a case has to say to answers, the rest is passed over."""

    def __init__(self, bench: Bench, session: Session) -> None:
        self.bench = bench
        self.session = session
        self._order = bench.order
        self.declared: dict[str, Any] = {}
        self.actuators: list[tuple[str, Space]] = []
        self.sensors: list[str] = []
        self.rewards: list[str] | None = None
        self.checks = Declared()
        self.episode = 0
        self.step = 0
        self.ended = False
        self._rng = np.random.Generator(np.random.PCG64(7))

    @classmethod
    def begun(cls, bench: Bench, seed: int = 1) -> World:
        """Return the environment of the shared session, at the beginning of an episode."""
        world = cls(bench, bench.session())
        if bench.notes.get("undeclared"):
            raise Skip("it cannot be started: see join.declares")
        world.start(seed)
        return world

    # -- calls --------------------------------------------------------------------------------------------------------
    def start(self, seed: int = 1, **more: Any) -> Answer:
        """Begin a phase with this seed; Miss if that is refused, or declares what cannot be read."""
        answer = self.try_start(seed, **more)
        if answer.failed:
            raise Miss(f"environment.start: expected declarations, found {answer.text}")
        self._declare(answer.fields)
        return answer

    def try_start(self, seed: int = 1, **more: Any) -> Answer:
        """Ask for the beginning of a phase, and return the answer whatever it is."""
        self.session.started = True
        self.episode = self.step = 0
        self.ended = False
        return self.session.ask("environment.start", {**self._start(seed), **more})

    def _start(self, seed: int) -> dict[str, Any]:
        own, first = words(seed, ["kit"]), words(seed, ["kit", "episode", 0])
        plugin = None if self._order.plugin is None else {"name": self._order.plugin, "params": {}}
        message = EnvironmentStart(
            "kit",
            0,
            "kit",
            "train",
            0,
            self._order.uid,
            self._order.params,
            seed if plugin is None else integer_from_words(own) >> _WIRE_BITS,
            seed if plugin is None else integer_from_words(first) >> _WIRE_BITS,
            own,
            first,
            plugin,
        )
        return {key: value for key, value in asdict(message).items() if value is not None}

    def _declare(self, fields: Mapping[str, Any]) -> None:
        try:
            for what in ("sensors", "actuators"):
                self.checks.declare(what, fields[what])
            self.sensors = [row["id"] for row in fields["sensors"]]
            layout = declared_layout(fields["actuators"], "actuators")
            self.actuators = layout.pairs()
            if fields.get("rewards") is not None:
                self._declare_rewards(fields["rewards"])
            self.checks.row("sensors", fields["readings"], "readings")
        except (RemoteProtocolError, KeyError, TypeError, IndexError) as error:
            raise Miss(f"environment.start: {_said(error)}") from error
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
        if opened is not None and state is None and self._order.plugin is not None:
            state = {}  # our own host leaves out what has not been drawn from since the start
        answer = self.session.ask("environment.reset", {**body, **({} if state is None else {"state": state})})
        if answer.failed:
            raise Miss(f"environment.reset: expected readings, found {answer.text}")
        return answer

    def reset_body(self, seed: int) -> dict[str, Any]:
        """Return the body of the reset that begins the next episode, and count the episode."""
        self.episode += 1
        stream = words(seed, ["kit", "reset"])
        wire = seed if self._order.plugin is None else integer_from_words(stream) >> _WIRE_BITS
        return {"episode": self.episode, "seed": wire, "stream": stream}

    def ask(self, body: Mapping[str, Any] | bytes, **more: Any) -> Answer:
        """Ask for a step, and return the answer whatever it is."""
        self.step += 1
        answer = self.session.ask(UPDATE, body, position=self.position, **more)
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
        answer = self.ask({"setpoints": [self.no_ops() if values is None else list(values)]})
        if answer.failed:
            raise Miss(f"{self.where}: expected readings, found {answer.text}")
        return answer

    @property
    def position(self) -> Position:
        """Return what the step is about."""
        return (0, 0, self.episode, 0, self.step, 0)

    @property
    def where(self) -> str:
        """Return the step in words."""
        return f"update (episode {self.episode}, step {self.step})"

    # -- what is said and heard ---------------------------------------------------------------------------------------
    def no_ops(self) -> list[Any]:
        """Return a row of setpoints that does nothing, or of the spaces' defaults."""
        rows = self.declared["actuators"]
        return [
            row["value"] if row.get("value") is not None else _wire(space, space.default())
            for row, (_, space) in zip(rows, self.actuators, strict=True)
        ]

    def some(self) -> list[Any]:
        """Return a row of random setpoints, the same ones in each kit."""
        return [_wire(space, space.sample(self._rng)) for _, space in self.actuators]

    def read(self, answer: Answer) -> Step:
        """Return what an answer means; Miss says what does not fit the declarations."""
        fields = answer.fields
        try:
            readings = self.checks.row("sensors", fields["readings"], "readings")
            rewards: list[Any] = []
            if fields.get("rewards"):
                rewards = self.checks.row("rewards", fields["rewards"], "rewards")
        except (RemoteProtocolError, TypeError, KeyError) as error:
            raise Miss(f"{self.where}: {_said(error)}") from error
        return Step(
            readings, rewards, fields.get("terminated") is True, fields.get("truncated") is True, fields.get("ticks")
        )

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

    def refuses(self, request: Mapping[str, Any] | bytes, what: str) -> None:
        """Miss unless a request is answered by ERROR, and the next call as if nothing had been."""
        answer = self.ask(request)
        expect(answer.failed, f"{what}: expected ERROR, found {answer.text}")
        self.goes_on(what)

    def goes_on(self, what: str) -> None:
        """Miss unless the next call is answered as if nothing had been."""
        if self.ended:
            self.reset(99)
        answer = self.ask({"setpoints": [self.no_ops()]})
        expect(not answer.failed, f"after {what}: expected the next update to be answered, found {answer.text}")
        self.read(answer)


def _only(fields: Mapping[str, Any], key: str) -> list[Any]:
    rows = fields.get(key)
    if not isinstance(rows, list) or len(rows) != 1 or not isinstance(rows[0], list):
        raise RemoteProtocolError(f"{key}: expected a list of one row, found {rows!r:.60}")
    return rows[0]


def _wire(space: Space, value: Any) -> Any:
    if space.scalar:
        return float(value) if space.dtype.kind == "f" else int(value)
    vector = space.to_vector(value)
    return np.ascontiguousarray(vector, vector.dtype.newbyteorder("<")).tobytes()


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else f"{value!r:.40}"


def _said(error: Exception) -> str:
    return f"expected the field {error}, found none" if isinstance(error, KeyError) else str(error)


_ROLE = "environment"
_STEPS = 60  # of a case that looks at each step
_ABOVE = 3.0
_MIB = 1024 * 1024
_CALLS, _SPACES, _REPEAT = "Calls", "Spaces and arrays", "Identity and repetition"
_ERRORS = "Errors"


def _case(name: str, heading: str, **more: Any) -> Callable[[Callable[[World], str | None]], Run]:
    """Enter a case whose function gets the environment of the shared session, at the beginning of an episode."""

    def enter(run: Callable[[World], str | None]) -> Run:
        @functools.wraps(run)
        def begun(bench: Bench) -> str | None:
            return run(World.begun(bench))

        return case(name, heading, _ROLE, **more)(begun)

    return enter


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
@_case("reset.declared", _CALLS)
def reset_declared(world: World) -> None:
    """After a reset there are readings as declared, in number, order and type, and no rewards."""
    world.update()
    answer = world.reset(5)
    step = world.read(answer)
    expect(not answer.fields.get("rewards"), f"reset: rewards: expected none, found {step.rewards}")
    expect(not step.ended, "reset: expected no flags, found an episode that has ended")


@_case("reset.same-seed", _CALLS)
def same_seed(world: World) -> None:
    """The same reset again, with the `state` of its answer where there is one, gives the same values, bit by bit."""
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
@_case("step.values", _SPACES)
def values(world: World) -> None:
    """Readings and rewards lie in the spaces that were declared for them, in each step."""
    for _ in range(_STEPS):
        if world.read(world.update(world.some())).ended:
            world.read(world.reset(world.episode + 20))


@_case("step.flags", _CALLS)
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


@_case("step.simtime", _CALLS)
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


@_case("step.integers", _SPACES)
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


@_case("step.outside", _SPACES)
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


@_case("step.nan", _SPACES)
def nan(world: World) -> None:
    """NaN for a setpoint is answered by ERROR, or leaves readings within their spaces; the next call is answered."""
    row = world.no_ops()
    row[world.floats()[0]] = float("nan")
    answer = world.ask({"setpoints": [row]})
    if not answer.failed:
        world.read(answer)
    world.goes_on("NaN")


@_case("step.few", _CALLS)
def few(world: World) -> None:
    """Too few setpoints are answered by ERROR, and the next call is answered."""
    if not world.actuators:
        raise Skip("it has no actuators")
    world.refuses({"setpoints": [world.no_ops()[:-1]]}, "too few setpoints")


@_case("step.many", _CALLS)
def many(world: World) -> None:
    """Too many setpoints are answered by ERROR, and the next call is answered."""
    world.refuses({"setpoints": [[*world.no_ops(), 0.0]]}, "too many setpoints")


@_case("step.none", _CALLS)
def none(world: World) -> None:
    """A step that gives none of the setpoints (`actuators` is an empty list) is a step."""
    answer = world.ask({"setpoints": [[]], "actuators": []})
    expect(not answer.failed, f"a step without setpoints: expected readings, found {answer.text}")
    world.read(answer)


@_case("step.bodies", _CALLS)
def bodies(world: World) -> None:
    """Two rows of setpoints, where one body was declared, are answered by ERROR."""
    world.refuses({"setpoints": [world.no_ops(), world.no_ops()]}, "two rows for one body")


# == repeat ===========================================================================================================
@_case("repeat.same-answer", _REPEAT)
def same_answer(world: World) -> None:
    """The same request again gets the same answer, and is not executed again."""
    *_, first = world.steps(3)
    world.step -= 1
    again = world.ask({"setpoints": [world.no_ops()]}, serial=world.session.serial)
    changed = world.difference(first, again)
    expect(not changed, f"{world.where} was executed twice: {changed}")


@_case("repeat.beat-between", _REPEAT)
def beat_between(world: World) -> None:
    """A BEAT between a request and its repetition changes nothing."""
    first = world.update()
    session = world.session
    session.say("", Head(Verb.BEAT, 3))
    session.hear("BEAT", 1.0)
    world.step -= 1
    again = world.ask({"setpoints": [world.no_ops()]}, serial=session.serial)
    changed = world.difference(first, again)
    expect(not changed, f"{world.where} was executed twice after a BEAT: {changed}")


@_case("repeat.reset", _REPEAT)
def repeat_reset(world: World) -> None:
    """A reset that comes again gets the same answer."""
    body = world.reset_body(9)
    answers: list[Answer] = []
    for serial in (None, world.session.serial + 1):
        answers.append(world.session.ask("environment.reset", body, serial=serial))
    changed = world.difference(*answers)
    expect(not changed, f"reset (episode {world.episode}) was executed twice: {changed}")


@_case("repeat.new-serial", _REPEAT)
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
@_case("errors.broken-body", _ERRORS)
def broken_body(world: World) -> None:
    """A body that is no msgpack is answered by ERROR, and the next call is answered."""
    for broken in (b"\xc1", b"\x82\xa1a\x01", b"\x81\xa9setpoints\x91\x91\xcb\x00"):
        world.refuses(broken, f"the body {broken.hex()}")


@_case("errors.missing-field", _ERRORS)
def missing_field(world: World) -> None:
    """A request that lacks a field, or has another type there, is answered by ERROR; the next call is answered."""
    wrong: list[dict[str, Any]] = [{}, {"setpoints": 7}]
    if world.actuators:  # a text that looks like a number is none, and nil is no zero
        wrong += [{"setpoints": [[value] * len(world.actuators)]} for value in ("text", "1", None)]
    for body in wrong:
        world.refuses(body, f"update with {body}")


@_case("errors.extra-frames", _ERRORS)
def extra_frames(world: World) -> None:
    """Frames behind the body that nothing refers to are skipped, also a large one."""
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


@_case("large.utf8", "Calls")
def utf8(world: World) -> None:
    """Text that is not ASCII, in uid and names, is taken."""
    answer = world.try_start(uid="Umwelt-ü-雪-🌊", phase_name="Läufe", mode="train", run="kit")
    expect(not answer.failed, f"start with text in UTF-8: expected declarations, found {answer.text}")


@_case("large.steps", "Calls")
def steps(world: World) -> str:
    """Ten thousand steps pass, or as many as twenty seconds hold, with a reset behind each episode."""

    def step() -> None:
        answer = world.update(world.some() if world.step % 7 == 0 else None)
        if answer.fields.get("terminated") is True or answer.fields.get("truncated") is True:
            world.read(answer)
            world.reset(world.episode + 20)

    return f"{world.bench.endure(step, world.session.spans)} steps"


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
@_case("leave.shutdown", _CALLS)
def shutdown(world: World) -> None:
    """`environment.shutdown` is answered, and the process can be started again."""
    answer = world.session.ask("environment.shutdown", {})
    expect(not answer.failed, f"environment.shutdown: expected REPLY, found {answer.text}")
    try:
        world.start(2)
    except PeerLost as error:
        raise Miss(f"start after shutdown: {error.reason}") from error
