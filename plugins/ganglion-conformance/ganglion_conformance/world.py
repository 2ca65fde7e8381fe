"""An environment as the kit sees it: started, reset and stepped, its answers read by its own declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ganglion.errors import RemoteProtocolError
from ganglion.peer.contract import Declared, declared_layout
from ganglion.sdk.seed import integer_from_words, words
from ganglion.sdk.spaces import Box, Space
from ganglion.wire.envelope import Position
from ganglion.wire.messages import EnvironmentStart
from ganglion_conformance.bench import Bench
from ganglion_conformance.case import Miss, Skip, expect
from ganglion_conformance.session import Answer, Session

__all__ = ["Step", "World"]

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
            self.checks.row("sensors", fields["readings"][0], "readings")
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
            readings = self.checks.row("sensors", _only(fields, "readings"), "readings")
            rewards: list[Any] = []
            if fields.get("rewards"):
                rewards = self.checks.row("rewards", _only(fields, "rewards"), "rewards")
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
