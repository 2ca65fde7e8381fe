"""Filters: the stack between an agent and the bus, in a muscle's process and in a brain's."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ganglion.errors import AuthorError
from ganglion.peer.agent.decision import finite
from ganglion.peer.author import Hooks, Loader, Tolerated, ToleratedErrors, identity, naming
from ganglion.peer.environment.contract import check_once, listed, values_of
from ganglion.peer.step.arrays import batch_field
from ganglion.peer.step.layout import Field, Layout, blocks_of
from ganglion.peer.values import deserialize, serialize
from ganglion.sdk.filter import Actuators, Array, Filter, FilterBatch, Sensors
from ganglion.sdk.information import SensorInformation, Template
from ganglion.sdk.models import Models
from ganglion.sdk.seed import derive, generator_from_words

_OURS = ("uid", "name", "worker", "mode", "seed", "rng", "params", "muscle", "brain", "agent", "given", "shown")
"""Attributes set by the bus; they are not part of a filter's state."""


def tag_of(number: int) -> str:
    """Return the tag under which the arrays of the filter with this number are stored with a model."""
    return f"filter-{number}"


UNKNOWN = (
    "filters of agent `{}` change what it sets: what it would have proposed itself is not known of forced setpoints"
)


class FilterStack:
    """The filters of one process, each with hooks that name the filter in errors.

    Args:
        plugins: Maps {name, params, on_error, stream}, in document order.
        where: The owner of the filters, for error texts.
        attributes: Given to each filter.
        tolerated_errors: Collects the errors that the host tolerates.
        groups: Number of groups of bodies with filters of their own; filters are numbered through all groups.
        first: The number of the first filter, if other stacks have the numbers below.
    """

    def __init__(
        self,
        loader: Loader,
        plugins: Sequence[Mapping[str, Any]],
        where: str,
        attributes: Mapping[str, Any],
        tolerated_errors: ToleratedErrors,
        groups: int = 1,
        first: int = 0,
    ) -> None:
        self.filters: list[Filter] = []
        self.hooks: list[Hooks] = []
        self.generators: dict[str, np.random.Generator] = {}
        self._where, self.first = where, first
        for number, plugin in enumerate([*plugins] * groups, first):
            group, place = divmod(number, len(plugins))
            issuer = f"{tag_of(place)}:{attributes['name']}"
            mine = Hooks.of(loader, "filter", plugin, f"filter {place} of {where}", tolerated_errors, issuer)
            stream = derive(plugin["stream"], "group", group) if group and groups > 1 else plugin["stream"]
            own = {**attributes, **identity(stream)}
            self.filters.append(mine("__init__", loader.make, "filter", plugin, own))
            self.hooks.append(mine)
            self.generators[tag_of(number)] = own["rng"]
        pairs = list(zip(self.filters, self.hooks, strict=True))
        self._pairs = [pairs[i : i + len(plugins)] for i in range(0, len(pairs), len(plugins) or 1)]  # by group

    def __len__(self) -> int:
        return len(self.filters)

    def begin(
        self, owner: str, part: Any, sensors: Sensors, actuators: Actuators, group: int = 0
    ) -> tuple[Sensors, Actuators]:
        """Assign each filter its muscle or brain, set it up, and return the declarations behind the last filter."""
        for one, hooks in self._pairs[group]:
            setattr(one, owner, part)
            hooks("setup", one.setup)
        self._spaces = {id(it.space): it.space for it in (*sensors, *actuators)}
        for one, hooks in self._pairs[group]:
            one.given = sensors, actuators = list(sensors), list(actuators)
            shown = hooks("declare", one.declare, list(sensors), list(actuators))
            one.shown = sensors, actuators = hooks("declare", _declared, shown)
            self._spaces |= {id(it.space): it.space for it in (*sensors, *actuators)}
        return sensors, actuators

    def receive(self, number: int, arrays: Mapping[str, Array]) -> None:
        """Pass a filter arrays that were published, or stored with a model."""
        self.hooks[number].excused(None, "receive", self.filters[number].receive, dict(arrays))

    def received_from(self, models: Models) -> dict[int, dict[str, Array]]:
        """Pass all filters the arrays stored with a model; return them by the number of the filter.

        Raises:
            AuthorError: A filter that takes no arrays has the number of another class's arrays: the order was changed,
                and the filter that needs the arrays would not receive them.
        """
        found: dict[int, dict[str, Array]] = {}
        for place, one in enumerate(self.filters):
            number = self.first + place
            arrays = models.load(tag_of(number))
            if arrays is None:
                continue
            whose, deaf = ((models.meta(tag_of(number)) or {}).get("class"), type(one).receive is Filter.receive)
            if deaf and whose not in (None, _class_of(one)):
                raise AuthorError(
                    f"filter {number} of {self._where}: expected a filter that takes the arrays of {whose}, which lie "
                    f"with the model, found {_class_of(one)}: were filters left out, or put into another order?"
                )
            self.receive(place, arrays)
            found[number] = arrays
        return found

    def show_step(self, step: int | None) -> None:
        """Set the step that error texts name."""
        for hooks in self.hooks:
            hooks.step = step

    def close(self) -> None:
        """End the loops of async hooks."""
        for hooks in self.hooks:
            hooks.close()


def _class_of(one: Filter) -> str:
    return f"{type(one).__module__}:{type(one).__qualname__}"


def _declared(given: Any) -> tuple[Sensors, Actuators]:
    """Return a filter's declarations; each actuator gets a no-op that its space contains."""
    sensors, actuators = map(list, _pair(given))
    for what, informations in (("sensor", sensors), ("actuator", actuators)):
        check_once(what, [it.uid for it in listed(what, informations)])
    for it in actuators:
        it.value = it.space.default() if it.value is None else it.value
    return sensors, actuators


class ActingFilters(FilterStack):
    """The muscle's halves, for readings and in reverse for setpoints; a tolerated error raises Tolerated."""

    def declare(self, muscle: Any, sensors: Sensors, actuators: Actuators, stream: bytes) -> tuple[Sensors, Actuators]:
        """Set up all filters and return the declarations of the agent, whose spaces have streams of their own."""
        self._outer = (Template(sensors), Template(actuators))
        self._applied = Layout([a.uid for a in actuators], [a.space for a in actuators])
        sensors, actuators = self.begin("muscle", muscle, sensors, actuators)
        sensors = [SensorInformation(None, it.space, it.uid, it.value_ids) for it in sensors]
        for it in (*sensors, *actuators):
            it.space.seed(generator_from_words(derive(stream, "space", it.uid)))
        self.seen = Layout([s.uid for s in sensors], [s.space for s in sensors])
        self.moved = Layout([a.uid for a in actuators], [a.space for a in actuators])
        self._inner = Template(actuators)
        self._lenient = any(hooks.tolerated_errors is not None for hooks in self.hooks)
        self._learning = any(type(one).receive is not Filter.receive for one in self.filters)
        return sensors, actuators

    def reset(self) -> None:
        """Begin an episode."""
        for one, hooks in self._pairs[0]:
            hooks("reset", one.reset)

    def view(self, readings: Sequence[Any]) -> tuple[list[Any], Actuators]:
        """Return readings as changed by filters, in the order of the agent's sensors, and the actuators to set."""
        sensors, actuators = self._outer[0].fill(readings), self._outer[1].empty()
        for one, hooks in self._pairs[0]:
            given = hooks.tolerate("muscle_pre_process", one.muscle_pre_process, sensors, actuators)
            sensors, actuators = hooks.tolerate("muscle_pre_process", _pair, given)
        values = self.hooks[-1].tolerate("muscle_pre_process", values_of, "sensor", self.seen, sensors)
        offered = {it.uid: it for it in actuators}
        available = [
            offered[it.uid] if it.uid in offered and offered[it.uid].space == it.space else it
            for it in self._inner.empty()
        ]
        return values, available

    def apply(self, setpoints: Actuators, data: Any) -> tuple[list[Any], Any]:
        """Return the setpoints that are to be applied, in declared order, and the data for the brain.

        After a tolerated error earlier filters are restored: none has seen setpoints that were not applied.
        """
        passed: list[tuple[Filter, Any]] = []
        try:
            for one, hooks in reversed(self._pairs[0]):
                kept = self._kept(one) if self._lenient else None
                given = hooks.tolerate("muscle_post_process", one.muscle_post_process, setpoints, data)
                setpoints, data = hooks.tolerate("muscle_post_process", _pair, given)
                passed.append((one, kept))
            own = self.hooks[0].tolerate
            return own("muscle_post_process", values_of, "actuator", self._applied, setpoints), data
        except Tolerated:
            for one, kept in passed:
                _put_back(one, kept)
            raise

    def informed(self, values: Sequence[Any]) -> Actuators:
        """Return an agent's setpoints as informations."""
        return self._inner.fill(values)

    def keep(self) -> list[Any] | None:
        """Return the state of all filters, for `go_back`; None, as not needed, if no filter can publish."""
        return [self._kept(one) for one in self.filters] if self._learning else None

    def keep_all(self) -> list[Any] | None:
        """Return the state of all filters, for `go_back`; None if none of their errors is tolerated."""
        return [self._kept(one) for one in self.filters] if self._lenient else None

    def _kept(self, one: Filter) -> tuple[dict[str, Any], Any]:
        own = {name: value for name, value in vars(one).items() if name not in _OURS}
        memo: dict[int, Any] = dict(self._spaces)  # a space never changes, so it is not copied
        return copy.deepcopy(own, memo), one.rng.bit_generator.state

    def go_back(self, kept: list[Any] | None) -> None:
        """Restore the state that `keep` returned."""
        for one, state in zip(self.filters, kept or [], strict=False):
            _put_back(one, state)


class BodyFilters:
    """The muscles' halves of many bodies of one group, a stack for each; `ArrayFilters` is one stack for all.

    A mask says for which bodies an error was tolerated; the other bodies are not affected.

    Attributes:
        seen, moved: The layouts of one body's sensors and actuators behind the filters.
        first: The number of the first filter.
    """

    def __init__(self, stacks: Sequence[ActingFilters], names: Sequence[str], outer: tuple[Layout, Layout]) -> None:
        self._stacks, self._names, self._outer = list(stacks), list(names), outer
        self.seen, self.moved, self.first = stacks[0].seen, stacks[0].moved, stacks[0].first
        for stack, name in zip(self._stacks, names, strict=True):
            for what, mine, other in (("sensors", stack.seen, self.seen), ("actuators", stack.moved, self.moved)):
                if mine.pairs() != other.pairs():
                    raise AuthorError(f"filters of bodies {names[0]} and {name} declare other {what}")
        self.filters = [one for stack in self._stacks for one in stack.filters]
        self._kept: dict[int, list[Any] | None] = {}

    def __len__(self) -> int:
        return len(self._stacks[0])

    def rename(self, place: int, name: str) -> None:
        """Rename the body at a place after another body has taken it."""
        self._names[place] = name

    def begin(self, places: Iterable[int]) -> None:
        """Begin an episode of these bodies."""
        for place in places:
            self._stacks[place].reset()

    def view(self, places: Sequence[int], steps: Sequence[int], runs: Sequence[Array]) -> tuple[list[Array], Array]:
        """Return the readings of these bodies as changed by filters, and which bodies have any."""
        rows: list[list[Any]] = []
        saw = np.ones(len(places), bool)
        values = self._outer[0].bodies(blocks_of(runs), "act.readings", len(places))
        for i, (place, step) in enumerate(zip(places, steps, strict=True)):
            stack = self._stacks[place]
            stack.show_step(step)
            try:
                with naming(self._names[place]):
                    rows.append(stack.view(values[i])[0])
            except Tolerated:
                saw[i] = False
        found = self.seen.zeros(len(places))
        for whole, part in zip(found, self.seen.matrices(self.seen.field(rows), len(rows)), strict=True):
            whole[saw] = part
        return found, saw

    def keep(self, places: Sequence[int]) -> None:
        """Keep the state of these bodies' filters, for `go_back`."""
        self._kept = {place: self._stacks[place].keep() for place in places}

    def go_back(self) -> bool:
        """Restore the state of the last `keep`; return whether there was any."""
        kept, self._kept = self._kept, {}
        for place, state in kept.items():
            self._stacks[place].go_back(state)
        return any(state is not None for state in kept.values())

    def apply(
        self, places: Sequence[int], runs: Sequence[Array], data: list[Any]
    ) -> tuple[list[Array], list[Any], Array]:
        """Return the setpoints to apply for these bodies, data for the brain, and which bodies had no error."""
        found, passed = self._outer[1].zeros(len(places)), np.ones(len(places), bool)
        rows = self.moved.bodies(blocks_of(runs), "setpoints", len(places))
        for i, place in enumerate(places):
            stack = self._stacks[place]
            try:
                with naming(self._names[place]):
                    values, data[i] = stack.apply(stack.informed(rows[i]), data[i])
                    stack.hooks[0].tolerate("muscle_post_process", finite, self._outer[1], values)
            except Tolerated:
                passed[i] = False
                continue
            for whole, part in zip(found, self._outer[1].matrices(self._outer[1].field([values]), 1), strict=True):
                whole[i] = part[0]
        return found, data, passed

    def receive(self, published: Mapping[int, Mapping[str, Array]]) -> bool:
        """Pass filters the arrays of their other halves; if there are any, restore the state of `keep` first."""
        mine = {number - self.first: arrays for number, arrays in published.items()}
        mine = {place: arrays for place, arrays in mine.items() if 0 <= place < len(self)}
        went = bool(mine) and self.go_back()
        for place, arrays in mine.items():
            for stack in self._stacks:
                stack.receive(place, arrays)
        return went

    def received_from(self, models: Models) -> None:
        """Pass all filters the arrays stored with a model."""
        for stack in self._stacks:
            stack.received_from(models)

    def close(self) -> None:
        """End the loops of async hooks."""
        for stack in self._stacks:
            stack.close()


class ArrayFilters(BodyFilters):
    """The muscles' half of all bodies of one group: one stack, called once for all bodies that decide.

    A tolerated error concerns all bodies of the call.
    """

    def __init__(self, stack: ActingFilters, names: Sequence[str], outer: tuple[Layout, Layout]) -> None:
        super().__init__([stack], names[:1], outer)
        self._stack, self._names = stack, list(names)
        self._forms = [[_layout(part) for part in (*one.given, *one.shown)] for one in stack.filters]

    def begin(self, places: Iterable[int]) -> None:
        """Begin an episode of these bodies."""
        rows = np.array([*places], np.int64)
        for one, hooks in zip(self._stack.filters, self._stack.hooks, strict=True) if len(rows) else ():
            hooks("reset_batch", one.reset_batch, rows)

    def view(self, places: Sequence[int], steps: Sequence[int], runs: Sequence[Array]) -> tuple[list[Array], Array]:
        """Return the readings of these bodies as changed by filters, and which bodies have any."""
        self._stack.show_step(steps[0])
        field, names = blocks_of(runs), [self._names[place] for place in places]
        try:
            for one, hooks, form in zip(self._stack.filters, self._stack.hooks, self._forms, strict=True):
                given = hooks.tolerate("pre_process_batch", one.pre_process_batch, self._batch(form[0], field, places))
                field = hooks.tolerate("pre_process_batch", batch_field, "sensor", form[2], given, names)
        except Tolerated:
            return self.seen.zeros(len(places)), np.zeros(len(places), bool)
        return self.seen.matrices(field, len(places)), np.ones(len(places), bool)

    def keep(self, places: Sequence[int]) -> None:
        """Keep the state of the filters, for `go_back`."""
        self._kept = {0: self._stack.keep()} if len(places) else {}

    def apply(
        self, places: Sequence[int], runs: Sequence[Array], data: list[Any]
    ) -> tuple[list[Array], list[Any], Array]:
        """Return the setpoints to apply for these bodies, data for the brain, and which bodies had no error."""
        field, names = blocks_of(runs), [self._names[place] for place in places]
        kept = self._stack.keep_all()
        try:
            for one, hooks, form in reversed([*zip(self._stack.filters, self._stack.hooks, self._forms, strict=True)]):
                batch = self._batch(form[3], field, places)
                given = hooks.tolerate("post_process_batch", one.post_process_batch, batch, data)
                field, data = hooks.tolerate("post_process_batch", _post, given, form[1], names)
        except Tolerated:
            self._stack.go_back(kept)
            return list(runs), data, np.zeros(len(places), bool)
        return self._outer[1].matrices(field, len(places)), data, np.ones(len(places), bool)

    def _batch(self, layout: Layout, field: Field, places: Sequence[int]) -> FilterBatch:
        return FilterBatch(layout.arrays(field, len(places)), np.array(places, np.int64), len(self._names))


class GroupFilters:
    """The muscles' halves of all bodies, group by group; `layouts` are those behind them."""

    def __init__(self, parts: Sequence[BodyFilters]) -> None:
        self._parts = parts
        self.layouts = [layout for part in parts for layout in (part.seen, part.moved)]
        self.filters = [one for part in parts for one in part.filters]

    def received_from(self, models: Models) -> None:
        """Pass all filters the arrays stored with a model."""
        for part in self._parts:
            part.received_from(models)

    def close(self) -> None:
        """End the loops of async hooks."""
        for part in self._parts:
            part.close()


def _layout(informations: Sensors | Actuators) -> Layout:
    return Layout([it.uid for it in informations], [it.space for it in informations])


def _post(given: Any, layout: Layout, names: Sequence[str]) -> tuple[Field, list[Any]]:
    """Return the setpoints and data that a filter gives for these bodies."""
    setpoints, data = _pair(given)
    if not (isinstance(data, list) and len(data) == len(names)):
        raise AuthorError(f"expected data in a list of {len(names)}, one of each body, found {data!r:.80}")
    field = batch_field("setpoint", layout, setpoints, names)
    if layout.open and not layout.contains(field, finite=True, count=len(names)):
        for name, values in zip(names, layout.bodies(field, "setpoints", len(names)), strict=True):
            with naming(name):
                finite(layout, values)
    return field, data


def _put_back(one: Filter, state: tuple[dict[str, Any], Any]) -> None:
    own, words = state
    for name in [name for name in vars(one) if name not in _OURS]:
        delattr(one, name)
    vars(one).update(own)
    one.rng.bit_generator.state = words


def _pair(given: Any) -> tuple[Any, Any]:
    if not isinstance(given, tuple) or len(given) != 2:
        raise AuthorError(f"expected a pair, found {type(given).__name__}")
    return given


class LearningFilters(FilterStack):
    """The brain's halves, for data and in reverse for updates; they publish arrays for the other halves.

    A tolerated error of a filter raises Tolerated.

    Bodies of several groups have filters of their own in each group; an update passes through those of the first.
    `published` has the newest arrays of each filter by number; `version` counts the publications.
    """

    published: dict[int, dict[str, Array]]
    version: int

    def declare(self, brain: Any, sensors: Sensors, actuators: Actuators, group: int = 0) -> tuple[Sensors, Actuators]:
        """Set up the filters of a group and return the declarations of the agent."""
        self.published, self.version = {}, 0
        sensors, actuators = self.begin("brain", brain, sensors, actuators, group)
        return [SensorInformation(None, it.space, it.uid, it.value_ids) for it in sensors], actuators

    def load(self, models: Models) -> None:
        """Load the arrays stored with a model; raises like `received_from`."""
        found = self.received_from(models)
        self.published |= found
        self.version += len(found)

    def store(self, models: Models) -> None:
        """Store the newest arrays with a model, and the classes of their filters."""
        for number, arrays in self.published.items():
            models.save(arrays, tag_of(number), {"class": _class_of(self.filters[number])})

    def data(self, muscle: str, data: Any, group: int = 0) -> Any:
        """Return data of a muscle as changed by the filters, for the brain."""
        for one, hooks in self._pairs[group]:
            data = hooks.tolerate("brain_pre_process", one.brain_pre_process, muscle, data)
        return data

    def objective(self, muscle: str, objective: float | None, group: int = 0) -> float | None:
        """Return an objective as changed by the filters, for the brain."""
        for one, hooks in self._pairs[group]:
            given = hooks.tolerate("brain_objective", one.brain_objective, muscle, objective)
            objective = hooks.tolerate("brain_objective", _number, given)
        return objective

    def update(self, update: Any) -> Any:
        """Return an update as changed by the filters, for the muscles."""
        for one, hooks in reversed(self._pairs[0]):
            update = hooks.tolerate("brain_post_process", one.brain_post_process, update)
        return update

    def publish(self) -> None:
        """Ask each filter for new arrays for the muscles' halves."""
        for number, (one, hooks) in enumerate(zip(self.filters, self.hooks, strict=True)):
            arrays = hooks.excused(None, "publish", one.publish)
            arrays = None if arrays is None else hooks.excused(None, "publish", _copied, arrays)
            if arrays is not None:
                self.published[number] = arrays
                self.version += 1

    def travelling(self, blobs: list[bytes]) -> dict[str, Any]:
        """Return the published arrays in wire form."""
        return {str(number): serialize(arrays, blobs, tag_of(number)) for number, arrays in self.published.items()}

    # -- checkpoints --------------------------------------------------------------------------------------------------
    @property
    def can_be_kept(self) -> bool:
        """Say whether all filters can resume from a checkpoint: each has no brain's half, or can save its state."""
        return all(_has_state(one) or not _has_half(one) for one in self.filters)

    def export(self) -> dict[str, Any]:
        """Return the state that `restore` needs."""
        states = [
            dict(hooks("save_state", one.save_state)) if _has_state(one) else None  # type: ignore[attr-defined]
            for one, hooks in zip(self.filters, self.hooks, strict=True)
        ]
        published = {str(number): arrays for number, arrays in self.published.items()}
        return {"states": states, "published": published, "version": self.version}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `export` returned."""
        for one, hooks, own in zip(self.filters, self.hooks, state["states"], strict=True):
            if own is not None:
                hooks("load_state", one.load_state, own)  # type: ignore[attr-defined]
        self.published = {int(number): dict(arrays) for number, arrays in state["published"].items()}
        self.version = state["version"]


def _has_state(one: Filter) -> bool:
    return hasattr(one, "save_state") and hasattr(one, "load_state")


def _has_half(one: Filter) -> bool:
    names = ("brain_pre_process", "brain_objective", "brain_post_process", "publish")
    return any(getattr(type(one), name) is not getattr(Filter, name) for name in names)


def _number(objective: Any) -> float | None:
    if objective is None:
        return None
    found = float(objective)
    if found != found:
        raise AuthorError("brain_objective: expected a number or None, found NaN")
    return found


def _copied(arrays: Any) -> dict[str, Array]:
    """Return arrays as they will be deserialized: the author may change the originals later."""
    if not isinstance(arrays, Mapping):
        raise AuthorError(f"publish: expected named arrays, found {type(arrays).__name__}")
    blobs: list[bytes] = []
    found = serialize({name: np.asarray(array) for name, array in arrays.items()}, blobs, "publish")
    return dict(deserialize(found, blobs, "publish"))
