"""Bodies: the bodies of one environment in its process, their setpoints, readings and rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.peer.author import Hooks, Loader, ToleratedErrors, naming
from ganglion.peer.environment.contract import Judgement, layout_of, values_of
from ganglion.peer.step.arrays import batch_field, flags_of, wants_of
from ganglion.peer.step.layout import ROW_NUMBER, Array, Field, Layout, blocks_of
from ganglion.sdk.environment import (
    ENDS,
    Body,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    StepBatch,
    flags_of_end,
)
from ganglion.sdk.flow import SimTime
from ganglion.sdk.information import Information, RewardInformation, SensorInformation, Template
from ganglion.sdk.seed import derive, integer_from_words
from ganglion.wire.messages import (
    BY_CLOCK,
    TERMINATED,
    TRUNCATED,
    EnvironmentReset,
    EnvironmentStart,
    EnvironmentUpdate,
)

_MOST = 2**62


class Stepped(NamedTuple):
    """A step of some bodies: readings, rewards, flags; time and own flags, wants, group rewards, applied setpoints."""

    readings: Field
    earned: Field
    flags: Array
    simtime: SimTime | None
    own: tuple[bool, bool]
    world_state: Any = None
    wants: bytes | None = None
    shared: dict[str, float] | None = None
    applied: Field | None = None
    policies: list[list[Any]] | None = None


class JudgedBodies:
    """Rewards and transformers of the document: one object for each body, or one that is batched for all.

    Attributes:
        shown: The layout of one body's transformed readings, once there are any.
        generators: The generators of all objects, by name.
    """

    def __init__(
        self, loader: Loader, start: EnvironmentStart, tolerated_errors: ToleratedErrors, owner: Mapping[str, Any]
    ) -> None:
        bodies = [[*row, None][:7] for row in start.bodies or ()]
        bodies += [[*row[:2], -1 - i, *row[2:], None][:7] for i, row in enumerate(start.dynamic or ())]
        self._names = [f"{row[0]}/{row[2]}" for row in bodies]
        self._bodies = [(str(row[0]), int(row[2])) for row in bodies]
        given = {"reward": start.reward, "transformer": start.transformer}
        batched = {kind: plugin is not None and _is_batched(loader, kind, plugin) for kind, plugin in given.items()}
        alone = {kind: None if batched[kind] else plugin for kind, plugin in given.items()}
        self.each: list[Judgement] = []
        for i, row in enumerate(bodies):
            stream = start.stream if i == 0 else derive(start.stream, "body", row[0], row[2])
            own = replace(start, stream=stream, reward=row[6] or alone["reward"], transformer=alone["transformer"])
            self.each.append(Judgement(loader, own, tolerated_errors, owner))
        both = [plugin if batched[kind] else None for kind, plugin in given.items()]
        self.whole = Judgement(loader, replace(start, reward=both[0], transformer=both[1]), tolerated_errors, owner)
        # The bodies that the common reward serves: those without a reward of their own.
        self._together = np.array([batched["reward"] and row[6] is None for row in bodies], bool)
        self._objects = np.array([not one.silent for one in self.each], bool)
        self._begun = False
        self.parts = {"reward": self.whole.reward, "transformer": self.whole.transformer}
        self.generators = dict(self.whole.generators)
        for name, one in zip(self._names, self.each, strict=True):
            self.parts |= {f"reward {name}": one.reward, f"transformer {name}": one.transformer}
            self.generators |= {f"{kind} {name}": generator for kind, generator in one.generators.items()}

    def declare(self, sensors: Layout, rewards: Layout) -> Layout:
        """Take the declarations of one body; return the rewards of all bodies.

        Raises:
            AuthorError: The rewards of two bodies differ, or errors of the document's reward are tolerated although the
                environment's own rewards, which would replace it, differ.
        """
        self._sensors, self._rewards, self.shown = sensors, rewards, sensors
        self._templates: list[Template[Any]] = [
            Template([SensorInformation(None, space, uid) for uid, space in sensors.pairs()]),
            Template([RewardInformation(None, space, uid) for uid, space in rewards.pairs()]),
        ]
        found: list[Layout] = []
        for i, one in enumerate(self.each):
            judge = self.whole if self._together[i] else one
            layout = rewards if judge.reward is None else judge.declared(self._templates[1].empty())
            if layout.pairs() != rewards.pairs() and judge.lenient:
                text = f"expected the rewards {', '.join(rewards.ids)}, found {', '.join(layout.ids)}"
                raise AuthorError(f"reward of body {self._names[i]}, on_error: continue: {text}")
            if found and layout.pairs() != found[0].pairs():
                raise AuthorError(f"bodies {self._names[0]} and {self._names[i]} have other rewards")
            found.append(layout)
        self.paid = found[0]
        self._templates.append(Template([RewardInformation(None, space, uid) for uid, space in self.paid.pairs()]))
        return self.paid

    def rename(self, row: int, body: tuple[str, int]) -> None:
        """Set the name of the body that now has a row."""
        self._bodies[row], self._names[row] = body, f"{body[0]}/{body[1]}"

    def begin(self, rows: Array, field: Field) -> Field:
        """Begin episodes of these bodies; return their transformed first readings."""
        whole, count = self.whole, len(rows)
        for judge in {id(one): one for one in (whole, *(self.each[row] for row in rows.tolist()))}.values():
            for part in (judge.reward, judge.transformer):
                if part is not None:
                    part.rows = rows
            if self._begun:  # not the first episode
                judge.reset()
        first, self._begun = not self._begun, True
        baselines = [self.each[row].transformer for row in rows.tolist()]
        if any(one is not None and one.baseline for one in baselines):
            values, found = self._sensors.bodies(field, "readings", count), []
            for row, numbers in zip(rows.tolist(), values, strict=True):
                judge = self.each[row]
                with naming(self._names[row]):
                    seen = judge.baseline(EnvironmentBaseline(self._fill(0, numbers, row), [])).sensors_available
                    if first:
                        self.shown, first = judge.showing("transformer", layout_of, "sensor", seen), False
                    found.append(judge.showing("transformer", values_of, "sensor", self.shown, seen))
            return self.shown.field(found)
        if whole.transformer is not None and whole.transformer.baseline:
            zeros = np.zeros(count, bool)
            return self._transformed(rows, StepBatch(self._sensors.arrays(field, count), {}, zeros, zeros), field, [])[
                0
            ]
        return field

    def _fill(self, which: int, values: Sequence[Any], row: int) -> list[Any]:
        """Return readings (0) or rewards (1) of a body as informations that name it."""
        found = self._templates[which].fill(values)
        for it in found:
            it.body = self._bodies[row]
        return found

    def finish(self, rows: Array, made: Stepped) -> Stepped:
        """Return the step with the document's rewards and transformed readings."""
        count, together = len(rows), self._together[rows]
        flags = [made.flags & bit != 0 for bit in (TERMINATED, TRUNCATED)]
        readings, left, paid = made.readings, made.world_state, self.paid.zeros(count)
        if self.paid.pairs() == self._rewards.pairs():
            paid = [run.copy() for run in self._rewards.matrices(made.earned, count)]
        if together.any():
            field = self._paid_together(rows, made, flags)
            for kept, run in zip(paid, self.paid.matrices(field, count), strict=True):
                kept[together] = run[together]
        if self._objects[rows].any():
            readings, left = self._finish_each(rows, made, flags, paid)
        earned = blocks_of(paid)
        if self.whole.transformer is not None:
            arrays = self.shown.arrays(readings, count), self.paid.arrays(earned, count)
            batch = StepBatch(*arrays, flags[0], flags[1], made.simtime)
            readings, earned = self._transformed(rows, batch, readings, earned)
        return made._replace(readings=readings, earned=earned, world_state=left)

    def _paid_together(self, rows: Array, made: Stepped, flags: Sequence[Array]) -> Field:
        """Return the rewards of the common reward object, or the environment's own after a tolerated error."""
        count, names, reward = len(rows), _Names(self._names, rows), self.whole.reward
        assert reward is not None
        arrays = self._sensors.arrays(made.readings, count), self._rewards.arrays(made.earned, count)
        batch = StepBatch(*arrays, flags[0], flags[1], made.simtime)
        reward.rows = rows

        def pay() -> Field:
            return batch_field("reward", self.paid, reward.rewards_batch(batch), names)

        return self.whole.paying.excused(made.earned, "rewards_batch", pay)  # type: ignore[no-any-return]

    def _transformed(self, rows: Array, batch: StepBatch, readings: Field, earned: Field) -> tuple[Field, Field]:
        """Return readings and rewards, transformed by the common transformer if there is one."""
        names, transformer = _Names(self._names, rows), self.whole.transformer
        assert transformer is not None
        transformer.rows = rows

        def show() -> tuple[Field, Field]:
            found = transformer.transform_batch(batch)
            if not isinstance(found, StepBatch):
                raise AuthorError(f"expected a StepBatch, found {type(found).__name__}")
            for name in ("terminated", "truncated"):
                if not np.array_equal(getattr(found, name), getattr(batch, name)):
                    raise AuthorError("the transformer changed terminated or truncated, which it may not")
            seen = batch_field("sensor", self.shown, found.readings, names)
            return seen, batch_field("reward", self.paid, found.rewards, names) if batch.rewards else []

        return self.whole.showing.excused((readings, earned), "transform_batch", show)  # type: ignore[no-any-return]

    def _finish_each(self, rows: Array, made: Stepped, flags: Sequence[Array], paid: list[Array]) -> tuple[Field, Any]:
        """Call the reward and transformer of each body; return readings and the world's state for the store."""
        count, left = len(rows), {}
        values = self._sensors.bodies(made.readings, "readings", count)
        own = self._rewards.bodies(made.earned, "rewards", count)
        earned = self.paid.bodies(blocks_of(paid), "rewards", count)
        for i, row in enumerate(rows.tolist()):
            judge = self.each[row]
            if judge.silent:
                continue
            rewards = own[i] if judge.reward is not None else earned[i]
            template = 1 if judge.reward is not None else 2
            state = EnvironmentState(
                self._fill(0, values[i], row),
                self._fill(template, rewards, row),
                None,
                made.world_state,
                made.simtime,
                terminated=bool(flags[0][i]),
                truncated=bool(flags[1][i]),
            )
            hooks, hook = (judge.paying, "reward") if judge.transformer is None else (judge.showing, "transformer")
            with naming(self._names[row]):
                state = judge.finish(state, lambda found: values_of("reward", self.paid, found))
                values[i] = hooks(hook, values_of, "sensor", self.shown, state.sensor_information)
                earned[i] = hooks(hook, self._finite, state.rewards)
            if judge.transformer is not None and state.world_state is not None:
                left[self._names[row]] = state.world_state
        for kept, run in zip(paid, self.paid.matrices(self.paid.field(earned), count), strict=True):
            kept[:] = run
        return self.shown.field(values), left or None

    def _finite(self, rewards: Any) -> list[Any]:
        values = values_of("reward", self.paid, rewards)
        infinite = self.paid.infinite(values)
        if infinite is not None:
            raise AuthorError(f"reward {infinite!r}: expected a finite number")
        return values

    def show_step(self, step: int | None) -> None:
        """Begin a step."""
        for one in (self.whole, *self.each):
            one.show_step(step)

    def close(self) -> None:
        """End the loops of async hooks."""
        for one in (self.whole, *self.each):
            one.close()


def _is_batched(loader: Loader, kind: str, plugin: Mapping[str, Any]) -> bool:
    return bool(getattr(loader.load(kind, str(plugin["name"])), "batched", False))


class Bodies:
    """Keep the bodies of an environment, and call its author's object for all of them at once.

    A `batched` object returns arrays, any other one informations that name their body. With `each` a body begins its
    next episode within the step in which it ended. Rows for bodies that the object may spawn follow those of the
    document's bodies, and are free until then.
    """

    def __init__(
        self, environment: Environment, start: EnvironmentStart, hooks: Hooks, judged: JudgedBodies | None = None
    ) -> None:
        self._environment, self._start, self._hooks, self._judged = environment, start, hooks, judged
        self._rows = [(str(row[0]), int(row[2])) for row in start.bodies or ()]
        self.count = len(self._rows)  # of the document's bodies
        self._document = tuple(Body(*row[:6]) for row in start.bodies or ())
        self._spare = [Body(row[0], row[1], -1, *row[2:5]) for row in start.dynamic or ()]
        self._rows += [(body.agent, -1) for body in self._spare]
        self.names = [f"{agent}/{b}" for agent, b in self._rows]
        self._all, self._static = np.arange(len(self._rows)), np.arange(self.count)
        self._all.flags.writeable = self._static.flags.writeable = False
        self._used = {agent: b for agent, b in self._rows if b >= 0} | (start.used or {})
        self._groups = {body.group for body in (*self._document, *self._spare)} - {None}
        self._lives = np.zeros(len(self._rows), bool)  # of rows of spawned bodies
        self._retired, self._stream = self._all[:0], b""
        self._coming: Any = ()
        environment.bodies, environment.used = self._document, MappingProxyType(self._used)
        environment.index, environment.each = start.index or 0, start.each is not None
        self._each = start.each
        if start.each is not None and not environment.batched:
            raise AuthorError("episode_end: each needs an environment that is batched: update_batch and begin_batch")
        self.steps, self.made, self.episodes = (np.zeros(len(self._rows), np.int64) for _ in range(3))
        self._limit(start.each or {})

    def _limit(self, each: Mapping[str, Any]) -> None:
        """Set the budgets of bodies with `each`, and their progress."""
        self._cap, self._budget_steps = (each.get(key) or _MOST for key in ("max_steps", "budget_steps"))
        self._budget_episodes = np.broadcast_to(np.array(each.get("budget_episodes") or _MOST), len(self._rows))
        for name in ("made", "episodes"):
            if each.get(name) is not None:
                getattr(self, name)[:] = each[name]

    def declare(self, sensors: Layout, actuators: Layout, rewards: Layout | None) -> None:
        """Take the declarations of one body."""
        if rewards is None:
            raise AuthorError("with bodies an environment declares its rewards at the start: rewards_available")
        self._sensors, self._actuators, self._rewards = sensors, actuators, rewards
        self.shown, self.paid = sensors, rewards
        if self._judged is not None:
            self.paid = self._judged.declare(sensors, rewards)

    def one_of(self, what: str, informations: Any) -> Any:
        """Return the declarations of one body; those of all bodies must be equal."""
        if not isinstance(informations, list | tuple) or all(getattr(it, "body", None) is None for it in informations):
            return informations
        groups = self._by_body(what, informations)
        each = [groups.get(body, []) for body in self._rows[: self.count]]
        pairs = [[(it.uid, it.space) for it in group] for group in each]
        for name, found in zip(self.names, pairs, strict=False):
            if found != pairs[0]:
                raise AuthorError(f"bodies {self.names[0]} and {name} declare different {what}s")
        return each[0]

    # -- episodes ----------------------------------------------------------------------------------------------------
    def begin(self, stream: bytes, baseline: EnvironmentBaseline) -> Field:
        """Return the first readings of all bodies, in one episode of the environment or one of each body."""
        self.steps[:] = 0
        self._clear(stream)
        if not self._environment.batched:
            return self._first(self._static, self._readings_of(baseline.sensors_available, self._static))
        if self._each is not None:
            return self._begin_unspent()
        return self._begin_batch(self._static, self._seeds(self._static))

    def _clear(self, stream: bytes) -> None:
        """Begin an episode of the environment by this stream; remove spawned bodies."""
        self._stream = stream
        if self._spare:
            self._lives[:] = False
            for row, body in enumerate(self._spare, self.count):
                self._name(row, body)
            self._environment.bodies = self._document

    def begin_again(self, reset: EnvironmentReset, baseline: EnvironmentBaseline) -> Field:
        """Return the first readings of all bodies after a reset; with `each`, zeros for a body with a spent budget."""
        if self._each is None:
            return self.begin(reset.stream, baseline)
        self._clear(reset.stream)
        if reset.each is not None:
            self._limit(reset.each)
        return self._begin_unspent()

    def _begin_unspent(self) -> Field:
        fresh = self._unspent(self._static)
        self.steps[fresh] = 0
        fresh.flags.writeable = False
        blocks = self._begin_batch(fresh, self._seeds(fresh)) if len(fresh) else []
        found = self.shown.zeros(self.count)
        for whole, run, block in zip(found, self.shown.runs, blocks, strict=False):
            whole[fresh] = run.matrix(block, len(fresh))
        return [whole.tobytes() for whole in found]

    def _unspent(self, rows: Array) -> Array:
        return rows[(self.episodes[rows] < self._budget_episodes[rows]) & (self.made[rows] < self._budget_steps)]

    def _seeds(self, rows: Array) -> list[int]:
        """Return a seed for each beginning body: of its own episode, or of its part in the environment's episode."""
        paths: list[tuple[str | int, ...]] = [("body", *self._rows[row]) for row in rows.tolist()]
        if self._each is not None:
            paths = [(*path, "episode", n) for path, n in zip(paths, self.episodes[rows].tolist(), strict=True)]
        stream = self._stream if self._each is None else self._start.stream
        return [integer_from_words(derive(stream, *path)) for path in paths]

    def _begin_batch(self, rows: Array, seeds: list[int]) -> Field:
        given = self._hooks("begin_batch", self._environment.begin_batch, rows, seeds)
        field = self._hooks("begin_batch", batch_field, "sensor", self._sensors, given, self._named(rows))
        return self._first(rows, field)

    def _first(self, rows: Array, field: Field) -> Field:
        """Return first readings, transformed if the transformer takes them."""
        if self._judged is None:
            return field
        found = self._judged.begin(rows, field)
        self.shown = self._judged.shown
        return found

    # -- a step ------------------------------------------------------------------------------------------------------
    def rows_of(self, update: EnvironmentUpdate) -> Array:
        """Return the rows that take part; RemoteProtocolError for unknown rows."""
        if update.rows is None:
            return self._all
        rows = np.frombuffer(update.rows, ROW_NUMBER).astype(np.int64)
        if len(rows) and (int(rows[-1]) >= len(self._rows) or not (rows[1:] > rows[:-1]).all()):
            raise RemoteProtocolError(
                f"update.rows: expected ascending numbers below {len(self._rows)}, found {rows.tolist()}"
            )
        rows.flags.writeable = False
        return rows

    def step(self, rows: Array, setpoints: Field) -> Stepped:
        """Step the author's object; return readings, rewards, flags, time and the environment's flags."""
        if not self._actuators.fits(setpoints, len(rows)):
            text = f"update.setpoints: expected blocks of {len(rows)} bodies"
            raise RemoteProtocolError(f"{text}, found {[len(one) for one in setpoints]} bytes")
        self.steps[rows] += 1
        self.made[rows] += 1
        made = self._step_batch(rows, setpoints) if self._environment.batched else self._step_objects(rows, setpoints)
        return made if self._judged is None else self._judged.finish(rows, made)

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
        own = [np.asarray(flag).ndim == 0 and bool(flag) for flag in (batch.terminated, batch.truncated)]
        wants = None if batch.wants is None else hooks("update_batch", wants_of, batch.wants, len(rows))
        shared = hooks("update_batch", self._shared, batch.group_rewards) if batch.group_rewards else None
        flags, own = self._ended(batch, rows, flags, own)
        capped, ends = self._capped(rows, flags), (own[0], own[1])
        made = Stepped(readings, earned, capped, batch.simtime, ends, wants=wants, shared=shared)
        if batch.applied is None:
            return made
        applied = hooks("update_batch", batch_field, "setpoint", self._actuators, batch.applied, names)
        return made._replace(applied=applied, policies=[list(one) for one in batch.policies or ()] or None)

    def _shared(self, given: Any) -> dict[str, float]:
        """Return the rewards of groups in wire form."""
        if not isinstance(given, Mapping):
            raise AuthorError(f"group_rewards: expected a map from groups to numbers, found {given!r:.80}")
        found: dict[str, float] = {}
        for group, value in given.items():
            if group not in self._groups:
                known = ", ".join(sorted(map(str, self._groups))) or "none"
                raise AuthorError(f"group_rewards: expected groups of bodies ({known}), found {group!r:.60}")
            number = np.asarray(value)
            if number.shape or number.dtype.kind not in "iuf" or not np.isfinite(number):
                raise AuthorError(f"group_rewards: {group}: expected a finite number, found {value!r:.60}")
            found[str(group)] = float(number)
        return found

    def _ended(self, given: StepBatch | EnvironmentState, rows: Array, flags: Array, own: list[bool]) -> Any:
        """Return the flags of bodies, retired ones included, and of the environment; record spawned bodies."""
        self._retired, self._coming = rows[:0], given.spawned or ()
        if given.retired:
            hook = "update_batch" if self._environment.batched else "update"
            flags = flags.copy()
            self._retired = self._hooks(hook, self._retire, given.retired, rows, flags)
        if given.over is not None:
            self._hooks("update_batch", flags_of_end, given.over, *own)
            own = [own[0] or given.over == "terminated", own[1] or given.over == "truncated"]
            if all(own):
                text = "over: terminated and truncated exclude each other, found both of the episode"
                raise self._hooks.blame("update_batch", AuthorError(text))
            flags = np.where(flags == 0, np.uint8(TERMINATED * own[0] | TRUNCATED * own[1]), flags)
        return flags, own

    def _retire(self, retired: Any, rows: Array, flags: Array) -> Array:
        """Set the flags of retired bodies; return their rows."""
        if not isinstance(retired, Mapping):
            text = f"expected a map from (agent, b) to terminated or truncated, found {retired!r:.80}"
            raise AuthorError(f"retired: {text}")
        places = {self._rows[row]: place for place, row in enumerate(rows.tolist())}
        for body, end in retired.items():
            if end not in ENDS:
                text = f"expected terminated or truncated, found {end!r:.60}"
                raise AuthorError(f"retired: body {self._where(body)}: {text}")
            if body not in places:
                raise AuthorError(f"retired: body {self._where(body)} takes no part in this step")
            flags[places[body]] |= TERMINATED if end == ENDS[0] else TRUNCATED
            if flags[places[body]] == TERMINATED | TRUNCATED:
                text = "terminated and truncated exclude each other: found both of body"
                raise AuthorError(f"retired: {text} {self._where(body)}")
        return rows[[places[body] for body in retired]]

    def _capped(self, rows: Array, flags: Array) -> Array:
        if self._each is None:
            return flags
        over = (flags == 0) & ((self.steps[rows] >= self._cap) | (self.made[rows] >= self._budget_steps))
        return np.where(over, np.uint8(TRUNCATED), flags) if 1 in over.tobytes() else flags

    def renew(self, rows: Array, flags: Array) -> tuple[bytes | None, Field | None]:
        """Begin the next episodes of ended bodies with `each`, except bodies whose budget is spent."""
        if flags.tobytes().count(0) == len(flags):
            return None, None
        ended = rows[flags != 0]
        if self._spare:
            self._lives[ended] = False
        if self._each is None:
            return None, None
        if len(self._retired):
            ended = ended[~np.isin(ended, self._retired)]
        self.episodes[ended] += 1
        fresh = self._unspent(ended)
        if not len(fresh):
            return None, None
        self.steps[fresh] = 0
        if self._spare:
            self._lives[fresh[fresh >= self.count]] = True
        fresh.flags.writeable = False
        readings = self._begin_batch(fresh, self._seeds(fresh))
        return fresh.astype(ROW_NUMBER).tobytes(), readings

    def _named(self, rows: Array) -> _Names:
        return _Names(self.names, rows)

    # -- spawned bodies ----------------------------------------------------------------------------------------------
    def spawn(self) -> tuple[list[list[int]] | None, Field | None]:
        """Assign rows to the bodies spawned in this step; return rows, numbers and first readings."""
        coming, self._coming = self._coming, ()
        if not len(coming):
            return None, None
        batched, hooks = self._environment.batched, self._hooks
        hook = "update_batch" if batched else "update"
        bodies: list[tuple[str, int]] = list(coming)
        rows = np.array([hooks(hook, self._settle, body) for body in bodies])
        self.steps[rows] = self.made[rows] = self.episodes[rows] = 0
        if batched:
            rows.flags.writeable = False
            readings = self._begin_batch(rows, self._seeds(rows))
        else:
            readings = self._first(rows, hooks(hook, self._firsts, coming))
        return [[row, body[1]] for row, body in zip(rows.tolist(), bodies, strict=True)], readings

    def _settle(self, body: Any) -> int:
        """Return the row for a spawned body: the one of its agent's free rows that was freed first."""
        where = self._where(body)
        mine = [row for row, spare in enumerate(self._spare, self.count) if spare.agent == body[0]]
        if not mine:
            text = f"the document has no bodies.dynamic of agent `{body[0]}` in `{self._start.uid}`"
            raise AuthorError(f"spawned: body {where}: {text}")
        if type(body[1]) is not int or body[1] <= self._used.get(body[0], -1):
            text = f"expected a number above {self._used.get(body[0], -1)}, which none has had before in this run"
            raise AuthorError(f"spawned: body {where}: {text}")
        free = [row for row in mine if not self._lives[row]]
        if not free:
            raise AuthorError(f"spawned: body {where}: expected at most {len(mine)} at a time (max), and all are there")
        row = min(free, key=lambda row: self._rows[row][1])
        self._used[body[0]] = body[1]
        self._lives[row] = True
        self._name(row, replace(self._spare[row - self.count], b=body[1]))
        shown = list(self._environment.bodies)
        shown += self._spare[len(shown) - self.count : row + 1 - self.count]
        shown[row] = replace(self._spare[row - self.count], b=body[1])
        self._environment.bodies = tuple(shown)
        return row

    def _firsts(self, coming: Mapping[Any, Any]) -> Field:
        if not isinstance(coming, Mapping):
            raise AuthorError(f"spawned: expected a map from (agent, b) to sensors, found {type(coming).__name__}")
        for body, informations in coming.items():
            strange = {it.body for it in informations} - {None, body}
            if strange:
                raise AuthorError(f"spawned: body {self._where(body)}: found sensors of {min(strange)!r}")
        return self._sensors.field([values_of("sensor", self._sensors, its) for its in coming.values()])

    def _name(self, row: int, body: Body) -> None:
        self._rows[row], self.names[row] = (body.agent, body.b), f"{body.agent}/{body.b}"
        if self._judged is not None:
            self._judged.rename(row, self._rows[row])

    def _where(self, body: Any) -> str:
        """Return the name of a body for errors; AuthorError: there is no such body."""
        if not (isinstance(body, tuple) and len(body) == 2 and isinstance(body[0], str)):
            raise AuthorError(f"expected a body as (agent, b), found {body!r:.60}")
        return f"{body[0]}/{self._start.uid}/{body[1]}"

    # -- objects -----------------------------------------------------------------------------------------------------
    def hold(self, template: Template[Any], setpoints: Field, rows: Array) -> list[Any]:
        """Return the setpoints of bodies as informations that name their body."""
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
        own = [flag is True for flag in (state.terminated, state.truncated)]
        flags, own = self._ended(state, rows, flags, own)
        wants = None if state.wants is None else hooks("update", self._wants, state.wants, rows)
        shared = hooks("update", self._shared, state.group_rewards) if state.group_rewards else None
        return Stepped(readings, earned, flags, state.simtime, (own[0], own[1]), state.world_state, wants, shared)

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
            raise AuthorError("{}s: body {}/{} takes no part in this step".format(what, *min(strange)))
        return layout.field(found)

    def _by_body(self, what: str, informations: Any) -> dict[tuple[str, int], list[Information]]:
        if not isinstance(informations, list | tuple):
            raise AuthorError(f"{what}s: expected a list of informations, found {type(informations).__name__}")
        found: dict[tuple[str, int], list[Information]] = {}
        for it in informations:
            body = getattr(it, "body", None)
            if body is None and len(self._rows) == 1:
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

    def _wants(self, wants: Any, rows: Array) -> bytes:
        """Return in wire form which bodies decide before the next step."""
        if not isinstance(wants, Mapping) or not {*map(type, wants.values())} <= {bool, np.bool_}:
            raise AuthorError(f"wants: expected a map from (agent, b) to booleans, found {wants!r:.80}")
        self._check_known("wants", wants)
        return bytes(wants.get(self._rows[row], BY_CLOCK) for row in rows.tolist())

    def _check_known(self, name: str, given: Mapping[Any, Any]) -> None:
        strange = [body for body in given if body not in self._rows]
        if strange:
            raise AuthorError(f"{name}: there is no body {strange[0]!r}; expected some of {', '.join(self.names)}")

    def _per_body(self, name: str, given: Any, rows: Array) -> Any:
        if not isinstance(given, Mapping):
            return bool(given)
        self._check_known(name, given)
        return np.array([bool(given.get(self._rows[row], False)) for row in rows.tolist()], bool)

    # -- the journal -------------------------------------------------------------------------------------------------
    def state(self) -> list[Any]:
        """Return the state that a successor needs."""
        counts = [self.steps.copy(), self.made.copy(), self.episodes.copy()]
        if not self._spare:
            return counts
        numbers = [b for _, b in self._rows[self.count :]]
        return [*counts, self._lives.copy(), numbers, dict(self._used), self._stream, len(self._environment.bodies)]

    def restore(self, state: Sequence[Any]) -> None:
        """Restore what `state` returned."""
        self.steps, self.made, self.episodes = (np.array(one) for one in state[:3])
        if not self._spare:
            return
        lives, numbers, used, self._stream, shown = state[3:]
        self._lives = np.array(lives)
        self._used.clear()
        self._used.update(used)
        bodies = [replace(body, b=b) for body, b in zip(self._spare, numbers, strict=True)]
        for row, body in enumerate(bodies, self.count):
            self._name(row, body)
        self._environment.bodies = (*self._document, *bodies)[:shown]


class _Names(Sequence[str]):
    """Map rows to names of bodies, made when read."""

    __slots__ = ("_names", "_rows")

    def __init__(self, names: list[str], rows: Array) -> None:
        self._names, self._rows = names, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, i: Any) -> Any:
        return self._names[int(self._rows[i])]
