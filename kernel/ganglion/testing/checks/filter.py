"""Check of a filter: both halves, driven as in a run, with drawn readings and setpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ganglion.peer.author import Excuses
from ganglion.peer.filters import ActingFilters, LearningFilters
from ganglion.peer.values import freeze, thaw
from ganglion.sdk.filter import Filter
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import ActuatorInformation, SensorInformation
from ganglion.sdk.seed import generator_from_words, words
from ganglion.sdk.spaces.kinds import Box, Discrete
from ganglion.testing.checks.clause import clause, expect
from ganglion.testing.stage import RUN, Classes

_SENSORS = (
    SensorInformation(None, Box(-1.0, 1.0, ()), "world.level"),
    SensorInformation(None, Box(0.0, 2.0, (2,)), "world.place"),
    SensorInformation(None, Discrete(5, start=-2), "world.gear"),
)
_ACTUATORS = (ActuatorInformation(0.5, Box(-1.0, 1.0, ()), "world.push"),)
_KEPT_ROWS = 30  # before the brain's half is replaced, and as many after it
_Pair = tuple[list[SensorInformation], list[ActuatorInformation]]
_Halves = tuple[ActingFilters, LearningFilters]
_NOBODY: Any = object()  # stands for the muscle or the brain of a filter


def check_filter(
    cls: type[Filter],
    params: Mapping[str, Any] | None = None,
    *,
    sensors: Sequence[SensorInformation] = _SENSORS,
    actuators: Sequence[ActuatorInformation] = _ACTUATORS,
    seed: int = 1,
    episodes: int = 3,
    steps: int = 20,
) -> None:
    """Check whether a filter keeps its contract, with drawn readings and setpoints.

    Args:
        cls: The class.
        params: Of the document.
        sensors: What lies before it; full ids, values are not looked at.
        actuators: Likewise; values are their no-ops.
        seed: Of the run.
        episodes: How many episodes.
        steps: How many decisions each has.

    Raises:
        ContractBroken: Names the class, the clause and what was found; the author's own exception is its cause.
    """
    pair = (list(sensors), list(actuators))
    traces = []
    for _ in range(2):
        with clause(cls, "it is made, set up, and declares sensors and actuators in both processes"):
            halves, told = _declared(cls, params, seed, pair)
        expect(cls, "both halves declare the same", told[:2] == told[2:], repr(told[2:])[:200])
        with clause(cls, "readings, setpoints, data and updates pass through, each in its declared space"):
            traces.append(_played(halves, sensors, seed, episodes, steps))
    sentence = "the same readings and setpoints give the same (random numbers come from `self.rng`)"
    expect(cls, sentence, traces[0] == traces[1], "another answer the second time")
    with clause(cls, "`reset` begins anew: an episode knows nothing of the one before"):
        (acting, _), _ = _declared(cls, params, seed, pair)
        once = _episode(acting, sensors, seed, steps)
        again = _episode(acting, sensors, seed, steps)
    fresh = generator_from_words(words(seed, ["filter"])).bit_generator.state
    draws = any(it.rng.bit_generator.state != fresh for it in acting.filters)
    expect(cls, "`reset` begins anew", draws or once == again, "the episode before shows in the next one")
    with clause(cls, "both halves `receive` what was published, as it lies with a model"):
        for half in _declared(cls, params, seed, pair)[0]:
            for number, arrays in halves[1].published.items():
                half.receive(number, arrays)
    if halves[1].can_be_kept:
        _check_state(cls, params, seed, pair)


def _check_state(cls: type[Filter], params: Mapping[str, Any] | None, seed: int, pair: _Pair) -> None:
    """Let another brain's half go on in the middle, which must do what the first would have done."""
    sentence = "what `save_state` returns can travel, and is all that `load_state` needs to go on"
    draw = generator_from_words(words(seed, ["check"]))
    numbers = draw.normal(size=2 * _KEPT_ROWS).tolist()
    with clause(cls, sentence):
        (acting, first), (_, second) = (_declared(cls, params, seed, pair)[0] for _ in range(2))
        acting.reset()
        rows = list(zip([_decide(acting, pair[0], draw)[1] for _ in numbers], numbers, strict=True))
        for row, number in rows[:_KEPT_ROWS]:
            _heard(first, row, number)
        second.restore(_travelled(first.export(), "save_state"))
        for one, other in zip(first.filters, second.filters, strict=True):
            other.rng.bit_generator.state = one.rng.bit_generator.state  # which the bus keeps itself
        traces = [[_heard(half, row, number) for row, number in rows[_KEPT_ROWS:]] for half in (first, second)]
    expect(cls, sentence, traces[0] == traces[1], "another answer of the half that went on")


def _travelled(tree: Any, what: str) -> Any:
    """Return data as they arrive in another process."""
    blobs: list[bytes] = []
    return thaw(freeze(tree, blobs, what), blobs, what)


def _decide(acting: ActingFilters, sensors: Sequence[SensorInformation], draw: Any, told: Any = None) -> Any:
    """Return what is seen and applied in a decision, and its data as they travel."""
    values, _ = acting.view([it.space.sample(draw) for it in sensors])
    applied, data = acting.apply(acting.informed([space.sample(draw) for space in acting.moved.spaces]), told)
    return (acting.seen.to_row(values), applied), _travelled(data, "data")


def _heard(learning: LearningFilters, data: Any, objective: float) -> str:
    """Return all that a brain's half makes of a row."""
    found = (learning.data("agent/0", data), learning.objective("agent/0", objective), learning.update([1]))
    learning.publish()
    published = {number: {n: a.tobytes() for n, a in it.items()} for number, it in learning.published.items()}
    return repr((found, published, learning.version))


def _declared(cls: type[Filter], params: Mapping[str, Any] | None, seed: int, pair: _Pair) -> tuple[_Halves, list[Any]]:
    """Return both halves, to which sensors and actuators are declared, and what they declare in turn."""
    loader = Classes(classes={("filter", "own"): cls})
    plugin = {"name": "own", "params": dict(params or {}), "stream": words(seed, ["filter"])}
    attributes = {"uid": "agent/0", "name": "agent", "worker": 0, "mode": Mode.TRAIN}
    more = ([plugin], "the check", attributes, Excuses(lambda: None, RUN))
    acting, learning = ActingFilters(loader, *more), LearningFilters(loader, *more)
    declared = (*acting.declare(_NOBODY, *pair, words(seed, ["muscle"])), *learning.declare(_NOBODY, *pair))
    return (acting, learning), [[(it.uid, it.space) for it in row] for row in declared]


def _episode(acting: ActingFilters, sensors: Sequence[SensorInformation], seed: int, steps: int) -> list[str]:
    """Return what is seen and applied in one episode, from the same draws each time."""
    draw = generator_from_words(words(seed, ["check"]))
    acting.reset()
    return [repr(_decide(acting, sensors, draw)[0]) for _ in range(steps)]


def _played(halves: _Halves, sensors: Sequence[SensorInformation], seed: int, episodes: int, steps: int) -> list[str]:
    """Return all that comes of episodes in which the brain's half hears of each decision."""
    acting, learning = halves
    draw = generator_from_words(words(seed, ["check"]))
    trace = []
    version = 0
    for step in [*range(steps)] * episodes:
        if step == 0:
            acting.reset()
        seen, data = _decide(acting, sensors, draw, {"step": step})
        data = learning.data("agent/0", data)
        objective = learning.objective("agent/0", float(draw.normal()))
        update = freeze(learning.update([step]), [], "update")
        trace.append(repr((*seen, data, objective, update)))
        learning.publish()
        if learning.version > version:
            version = learning.version
            for number, arrays in learning.published.items():
                acting.receive(number, arrays)
    return trace
