"""Contract: checks of what environments declare and reply; rewards and transformers of the document."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from inspect import isawaitable
from typing import Any

from ganglion.errors import AuthorError, RemoteProtocolError, SpaceError
from ganglion.limits import IDS_PER_ENVIRONMENT, UID_BYTES
from ganglion.peer.author import Hooks, Loader, Tolerated, ToleratedErrors, identity
from ganglion.peer.step.layout import Array, Field, Layout
from ganglion.peer.values import serialize
from ganglion.sdk.environment import EnvironmentBaseline, EnvironmentState, Reward, StateTransformer
from ganglion.sdk.flow import SimTime
from ganglion.sdk.information import ActuatorInformation, Information, RewardInformation, SensorInformation
from ganglion.sdk.seed import derive
from ganglion.sdk.spaces import Space, parse_space, space_from_wire
from ganglion.wire.messages import EnvironmentStart

_KINDS: dict[str, type[Information]] = {
    "sensor": SensorInformation,
    "actuator": ActuatorInformation,
    "reward": RewardInformation,
}


def listed(what: str, given: Any) -> Sequence[Any]:
    """Return informations (`what` is sensor, actuator or reward); AuthorError names any other value."""
    kind = _KINDS[what]
    if not isinstance(given, list | tuple):
        raise AuthorError(f"{what}s: expected a list of {kind.__name__}, found {given!r:.80}")
    for i, it in enumerate(given):
        if not isinstance(it, kind):
            raise AuthorError(f"{what}s[{i}]: expected a {kind.__name__}, found {it!r:.80}")
        if not isinstance(it.space, Space):
            raise AuthorError(f"{what} {it.uid!r}: expected a space, found {it.space!r:.80}")
    return given


def layout_of(what: str, given: Any) -> Layout:
    """Return the layout of a declaration; AuthorError names an id declared twice, or an actuator without a no-op."""
    informations = listed(what, given)
    if len(informations) > IDS_PER_ENVIRONMENT:
        raise AuthorError(f"expected at most {IDS_PER_ENVIRONMENT} {what}s, found {len(informations)}")
    layout = Layout([i.uid for i in informations], [i.space for i in informations], what == "reward")
    check_once(what, layout.ids)
    if what == "actuator":
        empty = [it.uid for it in informations if it.value is None]
        if empty:
            raise AuthorError(f"actuator {empty[0]!r} has no value: expected its no-op")
        _check_noops(layout, informations)
    return layout


def _check_noops(layout: Layout, informations: Sequence[Information]) -> None:
    for it in informations:
        if not it.space.contains(it.value):  # the author changed an array after it was set
            type(it)(it.value, it.space, it.uid)  # refuses it by its id
    infinite = layout.infinite([it.value for it in informations])
    if infinite is not None:
        raise AuthorError(f"actuator {infinite!r}: expected a finite number as its no-op")


def difference(before: Sequence[tuple[str, Any]], now: Sequence[tuple[str, Any]]) -> str | None:
    """Return in words how declarations (id -> space) differ from earlier ones; None if they are equal."""
    if list(before) == list(now):
        return None
    old, new = dict(before), dict(now)
    for uid in old:
        if uid not in new:
            return f"{uid} is missing"
    for uid in new:
        if uid not in old:
            return f"{uid} is new"
    for uid, space in new.items():
        if space != old[uid]:
            return f"the space of {uid} was {old[uid]!s:.200} and is {space!s:.200}"
    order, other = (", ".join(uid for uid, _ in pairs) for pairs in (before, now))
    return f"the order was {order:.200} and is {other:.200}"


def field_set(what: str, layout: Layout, informations: Any) -> Field:
    """Return the values of one body's informations, in any order, in wire form.

    Raises:
        AuthorError: An id is unknown, missing, doubled or without a value, or a reward is infinite; it names the id.
        SpaceError: The declared space does not contain the value, whatever the information's own space is.
    """
    numbers = layout.values_set(informations)
    if numbers is not None:
        return layout.field([numbers])
    values = values_of(what, layout, informations)
    infinite = layout.infinite(values) if what == "reward" else None
    if infinite is not None:
        raise AuthorError(f"reward {infinite!r}: expected a finite number, found {values!r:.80}")
    try:
        return layout.field([values])
    except SpaceError:  # the author changed an array after it was set
        for information, space in zip(_in_order(what, layout, informations), layout.spaces, strict=True):
            _contained(information, space)
        raise


def values_of(what: str, layout: Layout, informations: Any) -> list[Any]:
    """Return the values of informations in the order of a layout; raises like `field_set`."""
    try:
        same = tuple([i.uid for i in informations]) == layout.ids
    except (AttributeError, TypeError):
        listed(what, informations)  # raises with the reason
        raise
    ordered = informations if same else _in_order(what, layout, informations)
    for information, space in zip(ordered, layout.spaces, strict=True):
        if information.value is None:
            raise AuthorError(f"{what} {information.uid!r} has no value")
        if information.space is not space:  # equal spaces: the value was checked when it was set
            _contained(information, space)
    return [i.value for i in ordered]


def _in_order(what: str, layout: Layout, informations: Sequence[Information]) -> list[Information]:
    given = {i.uid: i for i in informations}
    strange = [uid for uid in given if uid not in layout.index]
    missing = [uid for uid in layout.ids if uid not in given]
    if strange:
        raise AuthorError(f"{what} {strange[0]!r} was not declared")
    if missing:
        raise AuthorError(f"{what} {missing[0]!r} is missing")
    if len(given) < len(informations):
        check_once(what, [it.uid for it in informations], "given")
    return [given[uid] for uid in layout.ids]


def check_once(what: str, uids: Sequence[str], how: str = "declared") -> None:
    """Raise AuthorError for an id that occurs twice."""
    if len(set(uids)) < len(uids):
        twice = min(uid for uid in uids if uids.count(uid) > 1)
        raise AuthorError(f"{what} {twice!r} is {how} twice")


def _contained(information: Information, space: Space) -> None:
    if not space.contains(information.value):
        type(information)(information.value, space, information.uid)  # refuses it by its id


def static_model(given: Any) -> dict[str, Any] | None:
    """Return an environment's own properties in wire form; AuthorError names the path to an invalid value."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise AuthorError(f"static_world_model: expected a map with text keys, found {given!r:.80}")
    frozen: dict[str, Any] = serialize(given, None, "static_world_model")
    return frozen


class Declared:
    """Keep the declarations of an environment and return its values as blocks, or as rows if a value is missing.

    Blocks of Ganglion's hosts were checked by their senders; all other values are checked here.
    """

    def __init__(self, program: bool = True) -> None:
        self._program = program
        self.layouts: dict[str, Layout] = {}
        self._time = SimTime(None, None)

    def declare(self, what: str, declarations: Sequence[Mapping[str, Any]]) -> None:
        """Set the declarations of `sensors`, `actuators` (with their no-ops) or `rewards`."""
        missing = what == "rewards" and not self._program  # a reward raised a tolerated error
        layout = self.layouts[what] = declared_layout(declarations, what, missing)
        for i, row in enumerate(declarations) if self._program else ():
            if "value" in row:
                layout.part([i]).checked([[row["value"]]], f"{what}: value")

    def field(self, what: str, field: Field, name: str, count: int = 1) -> Field:
        """Return values as blocks or rows; RemoteProtocolError names the id whose value does not fit."""
        layout = self.layouts[what]
        if not self._program and layout.fits(field, count):
            return field
        return layout.checked(field, name, finite=what == "rewards", count=count)

    def matrices(self, what: str, field: Field, count: int) -> list[Array]:
        """Return values of `count` bodies as matrices; RemoteProtocolError names the id whose value does not fit."""
        layout = self.layouts[what]
        if self._program or not layout.fits(field, count):
            name = "readings" if what == "sensors" else what
            field = layout.checked(field, name, finite=what == "rewards", count=count)
            if not layout.fits(field, count):
                raise RemoteProtocolError(f"{what}: expected a value of each id, found none of one")
        return layout.matrices(field, count)

    def fields(self, readings: Field, rewards: Field) -> tuple[Field, Field]:
        """Return readings and rewards of a step as blocks or rows."""
        own, layouts = not self._program, self.layouts
        seen, earned = layouts["sensors"], layouts["rewards"]
        if not (own and seen.fits(readings)):
            readings = seen.checked(readings, "readings")
        if not (own and earned.fits(rewards)):
            rewards = earned.checked(rewards, "rewards", finite=True)
        return readings, rewards

    def row(self, what: str, field: Field, name: str) -> list[Any]:
        """Return the values of the one body as a row; RemoteProtocolError names the id whose value does not fit."""
        row: list[Any] = self.layouts[what].rows(self.field(what, field, name))[0]
        return row

    def begin(self) -> None:
        """Restart the time, at the begin of an episode."""
        self._time = SimTime(None, None)

    def pass_time(self, ticks: int | None, timestamp: str | None) -> None:
        """Record the time of a step; RemoteProtocolError: the time decreases or is invalid."""
        try:
            now = SimTime(ticks, None if timestamp is None else dt.datetime.fromisoformat(timestamp))
            fell = now.falls_behind(self._time)
        except (ValueError, TypeError) as error:  # TypeError: a time with a zone after one without
            raise RemoteProtocolError(f"timestamp: expected ISO 8601, found {timestamp!r:.60}: {error}") from error
        if fell:
            raise RemoteProtocolError(f"simtime fell from {self._time} to {now}")
        self._time = now


def declared_layout(declarations: Sequence[Mapping[str, Any]], what: str, missing: bool = False) -> Layout:
    """Return the layout of another program's declarations; RemoteProtocolError names a wrong one.

    Text in the list is replaced by the map that it means.
    """
    if isinstance(declarations, list):
        declarations[:] = [_declared_map(row, what, i) for i, row in enumerate(declarations)]
    if len(declarations) > IDS_PER_ENVIRONMENT:
        raise RemoteProtocolError(
            f"{what}: expected at most {IDS_PER_ENVIRONMENT} declarations, found {len(declarations)}"
        )
    ids, spaces = [], []
    for i, row in enumerate(declarations):
        uid = row.get("id")
        if type(uid) is not str or not 0 < len(uid.encode()) <= UID_BYTES or not uid.isprintable():
            raise RemoteProtocolError(
                f"{what}[{i}].id: expected printable text of 1 to {UID_BYTES} bytes, found {uid!r:.60}"
            )
        if uid in ids:
            raise RemoteProtocolError(f"{what}[{i}].id: {uid!r} is declared twice")
        if type(row.get("space")) is not dict:
            raise RemoteProtocolError(f"{what}.{uid}.space: expected text or a map, found {row.get('space')!r:.60}")
        try:
            spaces.append(space_from_wire(row["space"]))
        except SpaceError as error:
            raise RemoteProtocolError(f"{what}.{uid}: {error}") from error
        ids.append(uid)
    return Layout(ids, spaces, missing)


def _declared_map(row: Any, what: str, i: int) -> Any:
    """Return a declaration as a map: it may be text, `id: space`, and so may the space in it."""
    if type(row) is str and ": " in row:
        row = dict(zip(("id", "space"), row.split(": ", 1), strict=True))
    if type(row) is not dict:
        raise RemoteProtocolError(f"{what}[{i}]: expected text 'id: space' or a map {{id, space}}, found {row!r:.60}")
    row = {key: value for key, value in row.items() if value is not None}
    if type(row.get("space")) is str:
        try:
            row = {**row, "space": parse_space(row["space"]).to_wire()}
        except SpaceError as error:
            raise RemoteProtocolError(f"{what}.{row.get('id')}.space: {error}") from error
    return row


class Judgement:
    """Make the document's reward and transformer of an environment, if any, and call them by their contract.

    Their errors, and invalid results, name their own classes.
    """

    def __init__(
        self, loader: Loader, start: EnvironmentStart, tolerated_errors: ToleratedErrors, owner: Mapping[str, Any]
    ) -> None:
        self._loader, self._start, self._owner = loader, start, owner
        self.generators: dict[str, Any] = {}
        self.own_rewards = False
        """Whether the environment's own rewards count in this step, since a reward raised a tolerated error."""
        self._rewarding = self._hooks(tolerated_errors, "reward", start.reward)
        self._transforming = self._hooks(tolerated_errors, "transformer", start.transformer)
        self.reward: Reward | None = self._make("reward", start.reward, self._rewarding)
        self.transformer: StateTransformer | None = self._make("transformer", start.transformer, self._transforming)
        self.paying, self.showing = self._rewarding, self._transforming  # the hooks of both
        self.lenient = self.reward is not None and self._rewarding.tolerated_errors is not None
        """Whether the environment's own rewards may have to replace those of the document."""
        self.once = None if self.reward is None else Once(self.reward)
        self.silent = self.once is None and self.transformer is None
        """Whether there is neither reward nor transformer."""

    def _hooks(self, tolerated_errors: ToleratedErrors, kind: str, plugin: Mapping[str, Any] | None) -> Hooks:
        uid = self._start.uid
        where, issuer = f"{kind} of environment {uid} (worker {self._start.worker})", f"{kind}:{uid}"
        if plugin is None:
            return Hooks(where)
        return Hooks.of(self._loader, kind, plugin, where, tolerated_errors, issuer)

    def _make(self, kind: str, plugin: Mapping[str, Any] | None, hooks: Hooks) -> Any:
        if plugin is None:
            return None
        attributes = {**self._owner, **identity(derive(self._start.stream, kind))}
        self.generators[kind] = attributes["rng"]
        return hooks("__init__", lambda: self._loader.make(kind, plugin, attributes))

    def told_by(self, hooks: Hooks) -> Hooks:
        """Return the hooks of the object that returns the final readings; `hooks` are the environment's."""
        return hooks if self.transformer is None else self._transforming

    def paid_by(self, hooks: Hooks) -> Hooks:
        """Return the hooks of the object that returns the final rewards."""
        return self.told_by(hooks if self.once is None or self.own_rewards else self._rewarding)

    def reset(self) -> None:
        """Begin the next episode of reward and transformer."""
        self.show_step(None)
        for part, hooks in ((self.reward, self._rewarding), (self.transformer, self._transforming)):
            if part is not None:
                hooks("reset", part.reset)

    def show_step(self, step: int | None) -> None:
        """Begin a step: drop the cached rewards."""
        self._rewarding.step = self._transforming.step = step
        self.own_rewards = False
        if self.once is not None:
            self.once.result = None

    def baseline(self, baseline: EnvironmentBaseline) -> EnvironmentBaseline:
        """Return a baseline, transformed if the transformer takes baselines."""
        if self.transformer is None or not self.transformer.baseline:
            return baseline
        state = EnvironmentState(baseline.sensors_available, [], False, None, baseline.simtime)
        state = self._transformed(state)
        return EnvironmentBaseline(
            state.sensor_information,
            baseline.actuators_available,
            baseline.simtime if state.simtime is None else state.simtime,
            baseline.static_world_model,
            baseline.rewards_available,
        )

    def declared(self, rewards: list[RewardInformation]) -> Layout:
        """Return the layout that the document's reward declares, in a phase with bodies."""
        assert self.reward is not None
        given = self._rewarding("declare", self.reward.declare, rewards)
        return self._rewarding("declare", layout_of, "reward", given)  # type: ignore[no-any-return]

    def finish(
        self, state: EnvironmentState, check: Callable[[list[RewardInformation]], Any] | None
    ) -> EnvironmentState:
        """Return the state with the document's rewards, transformed; `check` refuses undeclared rewards."""
        if self.once is not None:
            self._judge(self.once, state, check)
        return state if self.transformer is None else self._transformed(state)

    def close(self) -> None:
        """End the loops of async hooks."""
        self._rewarding.close()
        self._transforming.close()

    # -- reward ------------------------------------------------------------------------------------------------------
    def _judge(self, once: Once, state: EnvironmentState, check: Callable[[Any], Any] | None) -> None:
        """Replace the environment's rewards by the document's, except after a tolerated error."""
        own, rewards = state.rewards, once.result
        try:
            if rewards is None:
                rewards = self._rewarding.tolerate("reward", once, state)
            state.rewards = self._rewarding.tolerate("reward", _listed, rewards)
            if self._rewarding.tolerated_errors is not None and check is not None:
                self._rewarding.tolerate("reward", check, state.rewards)
        except Tolerated:
            state.rewards, self.own_rewards = own, True

    # -- transformer -------------------------------------------------------------------------------------------------
    def _transformed(self, state: EnvironmentState) -> EnvironmentState:
        kept = state if self._transforming.tolerated_errors is None else _copied(state)
        try:
            found: EnvironmentState = self._transforming.tolerate("transformer", self._transform, state)
        except Tolerated:
            return kept
        return found

    def _transform(self, state: EnvironmentState) -> Any:
        """Return the transformed state; a transformer must not change the flags."""
        assert self.transformer is not None
        flags = (state.terminated, state.truncated)
        made: Any = self.transformer(state)
        return _checked(flags, made) if not isawaitable(made) else _checked_later(flags, made)


async def _checked_later(flags: tuple[bool, bool], made: Awaitable[Any]) -> EnvironmentState:
    return _checked(flags, await made)


def _checked(flags: tuple[bool, bool], made: Any) -> EnvironmentState:
    if not isinstance(made, EnvironmentState):
        raise AuthorError(f"the transformer: expected an EnvironmentState, found {type(made).__name__}")
    if (made.terminated, made.truncated) != flags:
        raise AuthorError("the transformer changed terminated or truncated, which it may not")
    return made


def _listed(rewards: Any) -> list[RewardInformation]:
    """Return the rewards of a reward object as a list; AuthorError for any other result."""
    found = list(rewards) if isinstance(rewards, list | tuple) else [rewards]
    for it in found:
        if not isinstance(it, RewardInformation):
            raise AuthorError(f"expected a RewardInformation, or a list of them, found {rewards!r:.80}")
    return found


def _copied(state: EnvironmentState) -> EnvironmentState:
    """Return a copy of a state whose readings and rewards stay when the original changes."""
    kept = copy(state)
    kept.sensor_information = [copy(it) for it in state.sensor_information]
    kept.rewards = [copy(it) for it in state.rewards]
    return kept


class Once:
    """Wrap the document's reward and cache its result, so that it is called once per step.

    All other attributes are those of the reward.
    """

    def __init__(self, reward: Reward) -> None:
        self._inner = reward
        self.result: Any = None

    def __call__(self, state: EnvironmentState) -> Any:
        """Return the reward's rewards."""
        found = self._inner(state)
        if isawaitable(found):
            return self._wait(found)
        self.result = found
        return found

    async def _wait(self, found: Awaitable[Any]) -> Any:
        self.result = await found
        return self.result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)
