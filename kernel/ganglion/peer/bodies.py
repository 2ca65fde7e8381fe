"""Bodies: the bodies of one environment in its process: whose turn it is, what they are given, read and earn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.peer.author import Hooks
from ganglion.peer.contract import values_of
from ganglion.peer.step.arrays import batch_field, flags_of
from ganglion.peer.step.layout import ROW_NUMBER, Array, Field, Layout
from ganglion.sdk.environment import Body, Environment, EnvironmentBaseline, EnvironmentState, StepBatch
from ganglion.sdk.flow import SimTime
from ganglion.sdk.information import Information, Template
from ganglion.sdk.seed import derive, integer_from_words
from ganglion.wire.messages import TRUNCATED, EnvironmentReset, EnvironmentStart, EnvironmentUpdate

_MOST = 2**62
Stepped = tuple[Field, Field, Array, SimTime | None, tuple[bool, bool]]


class Bodies:
    """Keep the bodies of an environment, and ask its author's object for all of them at once.

    An object that is `batched` answers by arrays; any other by informations that name their body. With `each` bodies
    begin episodes of their own within the step in which they ended.
    """

    def __init__(self, environment: Environment, start: EnvironmentStart, hooks: Hooks) -> None:
        self._environment, self._start, self._hooks = environment, start, hooks
        self._rows = [(str(row[0]), int(row[2])) for row in start.bodies or ()]
        self.count = len(self._rows)
        self.names = [f"{agent}/{b}" for agent, b in self._rows]
        self._all = np.arange(self.count)
        self._all.flags.writeable = False
        environment.bodies = tuple(Body(*row) for row in start.bodies or ())
        environment.index = start.index or 0
        self._each = start.each
        if start.each is not None and not environment.batched:
            raise AuthorError("episode_end: each needs an environment that is batched: update_batch and begin_batch")
        if start.reward is not None or start.transformer is not None:
            raise AuthorError("a reward or state_transformer of the document beside bodies is not built yet")
        self.steps, self.made, self.episodes = (np.zeros(self.count, np.int64) for _ in range(3))
        self._limit(start.each or {})

    def _limit(self, each: Mapping[str, Any]) -> None:
        """Take the budgets of bodies with `each`, and how far they are."""
        self._cap, self._budget_steps = (each.get(key) or _MOST for key in ("max_steps", "budget_steps"))
        self._budget_episodes = np.broadcast_to(np.array(each.get("budget_episodes") or _MOST), self.count)
        for name in ("made", "episodes"):
            if each.get(name) is not None:
                getattr(self, name)[:] = each[name]

    def declare(self, sensors: Layout, actuators: Layout, rewards: Layout | None) -> None:
        """Take what the environment declared for one body."""
        if rewards is None:
            raise AuthorError("with bodies an environment declares its rewards at the start: rewards_available")
        self._sensors, self._actuators, self._rewards = sensors, actuators, rewards

    def one_of(self, what: str, informations: Any) -> Any:
        """Return the declarations of one body out of those of all; those of all bodies must be alike."""
        if not isinstance(informations, list | tuple) or all(getattr(it, "body", None) is None for it in informations):
            return informations
        groups = self._by_body(what, informations)
        each = [groups.get(body, []) for body in self._rows]
        pairs = [[(it.uid, it.space) for it in group] for group in each]
        for name, found in zip(self.names, pairs, strict=True):
            if found != pairs[0]:
                raise AuthorError(f"{what}s: bodies {self.names[0]} and {name} declare otherwise")
        return each[0]

    # -- episodes -----------------------------------------------------------------------------------------------------
    def begin(self, stream: bytes, baseline: EnvironmentBaseline) -> Field:
        """Return the first readings of all bodies, in an episode of the environment or one of each."""
        self.steps[:] = 0
        if not self._environment.batched:
            return self._readings_of(baseline.sensors_available, self._all)
        if self._each is not None:
            return self._begin_unspent()
        return self._begin_batch(self._all, [integer_from_words(derive(stream, "body", *body)) for body in self._rows])

    def begin_again(self, reset: EnvironmentReset, baseline: EnvironmentBaseline) -> Field:
        """Return the first readings of all bodies after a reset; with `each` zeros stand for those that are over."""
        if self._each is None:
            return self.begin(reset.stream, baseline)
        if reset.each is not None:
            self._limit(reset.each)
        return self._begin_unspent()

    def _begin_unspent(self) -> Field:
        fresh = self._unspent()
        self.steps[fresh] = 0
        fresh.flags.writeable = False
        found = self._sensors.zeros(self.count)
        blocks = self._begin_batch(fresh, self._own_seeds(fresh)) if len(fresh) else []
        for whole, run, block in zip(found, self._sensors.runs, blocks, strict=False):
            whole[fresh] = run.matrix(block, len(fresh))
        return [whole.tobytes() for whole in found]

    def _unspent(self, rows: Array | None = None) -> Array:
        rows = self._all if rows is None else rows
        return rows[(self.episodes[rows] < self._budget_episodes[rows]) & (self.made[rows] < self._budget_steps)]

    def _own_seeds(self, rows: Array) -> list[int]:
        stream, episodes = self._start.stream, self.episodes
        paths = [("body", *self._rows[row], "episode", int(episodes[row])) for row in rows.tolist()]
        return [integer_from_words(derive(stream, *path)) for path in paths]

    def _begin_batch(self, rows: Array, seeds: list[int]) -> Field:
        given = self._hooks("begin_batch", self._environment.begin_batch, rows, seeds)
        return self._hooks("begin_batch", batch_field, "sensor", self._sensors, given, self._named(rows))  # type: ignore[no-any-return]

    # -- a step -------------------------------------------------------------------------------------------------------
    def rows_of(self, update: EnvironmentUpdate) -> Array:
        """Return the rows that take part; RemoteProtocolError if they are none of these."""
        if update.rows is None:
            return self._all
        rows = np.frombuffer(update.rows, ROW_NUMBER).astype(np.int64)
        if len(rows) and (int(rows[-1]) >= self.count or not (rows[1:] > rows[:-1]).all()):
            raise RemoteProtocolError(
                f"update.rows: expected ascending numbers below {self.count}, found {rows.tolist()}"
            )
        rows.flags.writeable = False
        return rows

    def step(self, rows: Array, setpoints: Field) -> Stepped:
        """Have the author's object make a step; return readings, rewards, flags, time and its own flags."""
        if not self._actuators.fits(setpoints, len(rows)):
            text = f"update.setpoints: expected blocks of {len(rows)} bodies"
            raise RemoteProtocolError(f"{text}, found {[len(one) for one in setpoints]} bytes")
        self.steps[rows] += 1
        self.made[rows] += 1
        return self._step_batch(rows, setpoints) if self._environment.batched else self._step_objects(rows, setpoints)

    def _step_batch(self, rows: Array, setpoints: Field) -> Stepped:
        environment, hooks = self._environment, self._hooks
        environment.rows = rows
        batch = hooks("update_batch", environment.update_batch, self._actuators.arrays(setpoints, len(rows)))
        if not isinstance(batch, StepBatch):
            raise hooks.blame("update_batch", AuthorError(f"expected a StepBatch, found {type(batch).__name__}"))
        names = self._named(rows)
        readings = hooks("update_batch", batch_field, "sensor", self._sensors, batch.readings, names)
        earned = hooks("update_batch", batch_field, "reward", self._rewards, batch.rewards, names)
        flags = hooks("update_batch", flags_of, batch.terminated, batch.truncated, names)
        own = tuple(np.ndim(flag) == 0 and bool(flag) for flag in (batch.terminated, batch.truncated))
        return readings, earned, self._capped(rows, flags), batch.simtime, (own[0], own[1])

    def _capped(self, rows: Array, flags: Array) -> Array:
        if self._each is None:
            return flags
        over = (flags == 0) & ((self.steps[rows] >= self._cap) | (self.made[rows] >= self._budget_steps))
        return np.where(over, np.uint8(TRUNCATED), flags) if over.any() else flags

    def renew(self, rows: Array, flags: Array) -> tuple[bytes | None, Field | None]:
        """Begin the episodes of bodies anew that have ended, with `each`; those whose budget is spent stay."""
        if self._each is None or not flags.any():
            return None, None
        ended = rows[flags != 0]
        self.episodes[ended] += 1
        fresh = self._unspent(ended)
        if not len(fresh):
            return None, None
        self.steps[fresh] = 0
        fresh.flags.writeable = False
        readings = self._begin_batch(fresh, self._own_seeds(fresh))
        return fresh.astype(ROW_NUMBER).tobytes(), readings

    def _named(self, rows: Array) -> _Names:
        return _Names(self.names, rows)

    # -- objects ------------------------------------------------------------------------------------------------------
    def hold(self, template: Template[Any], setpoints: Field, rows: Array) -> list[Any]:
        """Return what bodies are given as informations that name their body."""
        found: list[Any] = []
        for row, values in zip(
            rows.tolist(), self._actuators.bodies(setpoints, "update.setpoints", len(rows)), strict=True
        ):
            given = template.hold(values)
            for it in given:
                it.body = self._rows[row]
            found += given
        return found

    def _step_objects(self, rows: Array, setpoints: Field) -> Stepped:
        hooks, environment = self._hooks, self._environment
        environment.rows = rows
        template = Template(environment.actuators)
        state = hooks("update", environment.update, self.hold(template, setpoints, rows))
        if isinstance(state, tuple) and len(state) == 3:
            state = EnvironmentState(*state)
        if not isinstance(state, EnvironmentState):
            raise hooks.blame("update", AuthorError(f"expected an EnvironmentState, found {type(state).__name__}"))
        readings = hooks("update", self._readings_of, state.sensor_information, rows)
        earned = hooks("update", self._values_of, "reward", self._rewards, state.rewards, rows)
        flags = hooks("update", self._flags, state, rows)
        own = tuple(flag is True for flag in (state.terminated, state.truncated))
        return readings, earned, flags, state.simtime, (own[0], own[1])

    def _readings_of(self, informations: Any, rows: Array) -> Field:
        return self._values_of("sensor", self._sensors, informations, rows)

    def _values_of(self, what: str, layout: Layout, informations: Any, rows: Array) -> Field:
        groups = self._by_body(what, informations)
        found = []
        for row in rows.tolist():
            body = self._rows[row]
            if body not in groups:
                raise AuthorError(f"{what}s: expected those of body {self.names[row]}, found none")
            values = values_of(what, layout, groups[body])
            infinite = layout.infinite(values) if what == "reward" else None
            if infinite is not None:
                raise AuthorError(f"reward {infinite!r} of body {self.names[row]}: expected a finite number")
            found.append(values)
        strange = groups.keys() - {self._rows[row] for row in rows.tolist()}
        if strange:
            raise AuthorError(f"{what}s: body {_name(min(strange))} takes no part in this step")
        return layout.field(found)

    def _by_body(self, what: str, informations: Any) -> dict[tuple[str, int], list[Information]]:
        if not isinstance(informations, list | tuple):
            raise AuthorError(f"{what}s: expected a list of informations, found {type(informations).__name__}")
        found: dict[tuple[str, int], list[Information]] = {}
        for it in informations:
            body = getattr(it, "body", None)
            if body is None and self.count == 1:
                body = self._rows[0]
            if body not in self._rows:
                raise AuthorError(
                    f"{what} {getattr(it, 'uid', it)!r}: expected one of the bodies as body, found {body!r}"
                )
            found.setdefault(body, []).append(it)
        return found

    def _flags(self, state: EnvironmentState, rows: Array) -> Array:
        names = self._named(rows)
        each = [self._per_body(name, getattr(state, name), rows) for name in ("terminated", "truncated")]
        return flags_of(each[0], each[1], names)

    def _per_body(self, name: str, given: Any, rows: Array) -> Any:
        if not isinstance(given, Mapping):
            return bool(given)
        strange = [body for body in given if body not in self._rows]
        if strange:
            raise AuthorError(f"{name}: there is no body {strange[0]!r}; expected some of {', '.join(self.names)}")
        return np.array([bool(given.get(self._rows[row], False)) for row in rows.tolist()], bool)

    # -- the journal --------------------------------------------------------------------------------------------------
    def state(self) -> list[Any]:
        """Return what a successor needs."""
        return [self.steps.copy(), self.made.copy(), self.episodes.copy()]

    def restore(self, state: Sequence[Any]) -> None:
        """Go on where `state` was taken."""
        self.steps, self.made, self.episodes = (np.array(one) for one in state)


class _Names(Sequence[str]):
    """Name the bodies of rows when a name is asked for."""

    __slots__ = ("_names", "_rows")

    def __init__(self, names: list[str], rows: Array) -> None:
        self._names, self._rows = names, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, i: Any) -> Any:
        return self._names[int(self._rows[i])]


def _name(body: tuple[str, int]) -> str:
    return f"{body[0]}/{body[1]}"
