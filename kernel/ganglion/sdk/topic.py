"""Topic: messages of environments and muscles beside the steps: parameters, statistics, logs, messages."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from ganglion.errors import AuthorError
from ganglion.limits import INTEGER_MAX, TOPIC_BINS, TOPIC_KEYS, TOPIC_MESSAGES, TOPIC_VALUE_BYTES, UID_BYTES

SETTINGS = ("parameters", "engine")
TOPICS = (*SETTINGS, "stats", "log")
"""The topics of all; the class attribute `TOPICS` of environments and muscles names others."""

How = Literal["mean", "last", "sum", "histogram"]
HOW: tuple[How, ...] = ("mean", "last", "sum", "histogram")
Entry = list[Any]
"""A message: topic, key, value, and addressee, way of gathering, or sender; all may be empty."""


class Message(NamedTuple):
    """A message of another participant, named by uid, or of the `operator`."""

    key: str
    value: Any
    sender: str


# -- values ---------------------------------------------------------------------------------------------------------
def travelling(topic: str, key: Any, value: Any) -> Any:
    """Return a value as sent: numbers, text, booleans, None, and lists and maps of these; arrays become lists.

    AuthorError, with topic and key: The value has another type or is too large, or the key is no short text.
    """
    where = f"topic {topic}, key {key!r:.60}"
    if not isinstance(key, str) or len(key.encode(errors="replace")) > UID_BYTES:
        raise AuthorError(f"{where}: expected text of at most {UID_BYTES} bytes as a key (uid_bytes)")
    found = _plain(value, where)
    size_bytes = len(json.dumps(found, ensure_ascii=False))
    if size_bytes > TOPIC_VALUE_BYTES:
        raise AuthorError(
            f"{where}: expected at most {TOPIC_VALUE_BYTES} bytes (topic_value_bytes), found {size_bytes}"
        )
    return found


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf" and value.size <= TOPIC_VALUE_BYTES:
        value = value.tolist()
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {str(key): _plain(part, where) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, where) for part in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int) and abs(value) <= INTEGER_MAX:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    found = f"a {type(value).__name__}" if not isinstance(value, int | float) else repr(value)
    raise AuthorError(f"{where}: {found} cannot travel; expected finite numbers, text, lists and maps of these")


def draw(form: Any, rng: Generator) -> Any:
    """Return the value of a document's setting: drawn, if it is a map of a distribution, else the value itself.

    `{uniform: [low, high]}`, `{gaussian: [mean, deviation]}`, `{multirange: [[low, high], ...]}`: uniform within one of
    the ranges, which are equally likely.
    """
    if not isinstance(form, Mapping):
        return form
    ((how, given),) = form.items()
    if how == "gaussian":
        return float(rng.normal(*given))
    low, high = given if how == "uniform" else given[int(rng.integers(len(given)))]
    return float(rng.uniform(low, high))


@dataclass(slots=True)
class Gathered:
    """Gather the numbers of one key for their mean, sum, last or histogram."""

    how: str
    count: int = 0
    total: float = 0.0
    last: float = 0.0
    bins: dict[str, int] = field(default_factory=dict)  # number with two significant digits -> count

    def add(self, numbers: Sequence[float]) -> None:
        """Take numbers, at least one."""
        self.count += len(numbers)
        self.total += math.fsum(numbers)
        self.last = numbers[-1]
        if self.how == "histogram":
            for number in numbers:
                name = f"{number:.1e}"
                self.bins[name] = self.bins.get(name, 0) + 1

    def merge(self, told: Sequence[Any]) -> None:
        """Add the numbers that another object gathered later."""
        count, total, last, bins = told
        self.count, self.total, self.last = self.count + count, self.total + total, last
        for name, times in bins.items():
            self.bins[name] = self.bins.get(name, 0) + times

    @property
    def told(self) -> list[Any]:
        """Return the state as sent."""
        return [self.count, self.total, self.last, dict(self.bins)]

    @property
    def value(self) -> Any:
        """Return the value to record."""
        if self.how == "histogram":
            return [[number, self.bins[name]] for number, name in sorted((float(name), name) for name in self.bins)]
        return {"mean": self.total / self.count, "sum": self.total, "last": self.last}[self.how]


# -- topics ---------------------------------------------------------------------------------------------------------
class Topic:
    """One topic of an environment or a muscle; see `Topics`."""

    def __init__(self, name: str, topics: Topics) -> None:
        self.name, self._topics = name, topics

    def _say(self, key: Any, value: Any, more: str | None = None) -> None:
        self._topics.say([self.name, key, travelling(self.name, key, value), more or ""])


class Settings(Topic):
    """Hold values by key, set by the document, an operator, another participant, or this one.

    `parameters` are properties of the world, `engine` is how the world is run. Values that the document draws are drawn
    for each episode, from the seed of the run; a key that was set since keeps its value.
    """

    def __init__(self, name: str, topics: Topics) -> None:
        super().__init__(name, topics)
        self._values: dict[str, Any] = {}

    @property
    def values(self) -> Mapping[str, Any]:
        """Return all values by key, read-only."""
        return MappingProxyType(self._values)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default; values change only between two calls of the object's hooks."""
        return self._values.get(key, default)

    def set(self, key: str, value: Any, to: str | None = None) -> None:
        """Set a key to numbers, text, lists or maps of these, here at once or for another participant of this worker.

        `to` is the uid of an environment or the name of an agent, where the value counts from the next call on.
        """
        self._say(key, value, to)
        if to is None:
            self._values[key] = travelling(self.name, key, value)

    def hear(self, message: Message) -> None:
        """Take a value of another participant."""
        self._values[message.key] = message.value


class Stats(Topic):
    """Gather numbers by key; each key gives one row when an episode ends in which its participant took part."""

    def __init__(self, name: str, topics: Topics) -> None:
        super().__init__(name, topics)
        self._gathered: dict[str, Gathered] = {}

    def add(self, key: str, value: ArrayLike, how: How = "mean") -> None:
        """Take one finite number, or an array of them, such as one of each body.

        `how` is the recorded value of all numbers of a key: their `mean`, `sum`, the `last`, or a `histogram`, a list
        of pairs of a number of two significant digits and its count. Give the same `how` in each call for a key.
        """
        travelling(self.name, key, None)
        try:
            numbers = np.asarray(value, np.float64).ravel().tolist()
        except (TypeError, ValueError):
            numbers = [math.nan]
        if how not in HOW or not all(map(math.isfinite, numbers)):
            what = f"finite numbers, found {value!r:.60}" if how in HOW else f"one of {', '.join(HOW)}, found {how!r}"
            raise AuthorError(f"topic {self.name}, key {key!r:.60}: expected {what}")
        if not numbers:
            return
        found = self._gathered.setdefault(key, Gathered(how))
        if found.how != how:
            raise AuthorError(f"topic {self.name}, key {key!r:.60}: expected {found.how} as before, found {how}")
        found.add(numbers)
        if len(self._gathered) > TOPIC_KEYS:
            raise AuthorError(f"topic {self.name}: expected at most {TOPIC_KEYS} keys (topic_keys), found more")
        if len(found.bins) > TOPIC_BINS:
            text = f"expected at most {TOPIC_BINS} bins (topic_bins), found more"
            raise AuthorError(f"topic {self.name}, key {key!r:.60}: {text}")
        self._topics.due = True

    def told(self) -> list[Entry]:
        """Return the gathered numbers as sent."""
        return [[self.name, key, one.told, one.how] for key, one in self._gathered.items()]

    def restore(self, told: Sequence[Entry]) -> None:
        """Replace the gathered numbers by those of `told`."""
        self._gathered = {}
        for _, key, value, how in told:
            self._gathered[key] = Gathered(how)
            self._gathered[key].merge(value)


class Log(Topic):
    """Take lines of text; each is a row."""

    def write(self, text: str, key: str = "") -> None:
        """Record a line under a key."""
        self._say(key, str(text))


class Channel(Topic):
    """Carry messages of a plugin's own topic, between objects of a worker whose classes name the topic.

    A message of a muscle arrives with the environment's next call of the same tick, and the other way round.
    """

    def __init__(self, name: str, topics: Topics) -> None:
        super().__init__(name, topics)
        self.messages: Sequence[Message] = ()
        """The messages of the running call."""

    def send(self, key: str, value: Any, to: str | None = None) -> None:
        """Send to the environment or agent of this name, or to all others of the worker that name the topic."""
        self._say(key, value, to)

    def hear(self, message: Message) -> None:
        """Take a message."""
        self.messages = (*self.messages, message)


_KINDS: dict[str, type[Topic]] = {**dict.fromkeys(SETTINGS, Settings), "stats": Stats, "log": Log}


class Topics:
    """Hold the topics of one environment or muscle by name.

    >>> topics = Topics(["weather"])
    >>> topics["stats"].add("height", [1.0, 2.0])
    >>> topics["parameters"].get("gravity", 9.8)
    9.8
    >>> topics["weather"].send("rain", True, to="ada")
    >>> topics.pop()
    [['weather', 'rain', True, 'ada'], ['stats', 'height', [2, 3.0, 2.0, {}], 'mean']]

    `parameters` and `engine` are `Settings`, `stats` gathers numbers, `log` takes text; a topic that the class
    attribute `TOPICS` names is a `Channel`. Messages travel with the next answer of the object, and are recorded in the
    table `topics` with the tick. `due` says whether there are any, `heard` whether some came with the running call.
    """

    def __init__(self, own: Sequence[str] = ()) -> None:
        given: Any = own
        if isinstance(given, str) or any(not isinstance(name, str) or not name or name in TOPICS for name in given):
            raise AuthorError(f"TOPICS: expected names beside {', '.join(TOPICS)}, found {own!r:.80}")
        self.due = self.heard = False
        self._said: list[Entry] = []
        self._topics = {name: _KINDS.get(name, Channel)(name, self) for name in (*TOPICS, *own)}

    def __getitem__(self, name: str) -> Any:
        if name not in self._topics:
            raise AuthorError(f"there is no topic {name!r:.60}; expected one of {', '.join(self._topics)}")
        return self._topics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def say(self, entry: Entry) -> None:
        """Keep what travels with the next answer."""
        if len(self._said) >= TOPIC_MESSAGES:
            text = f"expected at most {TOPIC_MESSAGES} messages in one answer (topic_messages), found more"
            raise AuthorError(f"topic {entry[0]}: {text}")
        self._said.append(entry)
        self.due = True

    def pop(self) -> list[Entry] | None:
        """Return and remove the messages to send; None without any."""
        said, stats = self._said, self["stats"]
        said += stats.told()
        stats.restore(())
        self._said, self.due = [], False
        return said or None

    def hear(self, entries: Sequence[Entry] | None) -> None:
        """Replace the messages of the previous call by those of this call."""
        for former in self._topics.values() if self.heard else ():
            if isinstance(former, Channel):
                former.messages = ()
        self.heard = False
        for name, key, value, sender in entries or ():
            topic = self._topics.get(name)  # one that the class does not name is not for it
            if isinstance(topic, Settings | Channel):
                topic.hear(Message(key, value, sender))
                self.heard = self.heard or isinstance(topic, Channel)

    def parts(self) -> dict[str, Any]:
        """Return all objects by name, which an author may keep as attributes."""
        return {"topics": self, **{f"topic {name}": topic for name, topic in self._topics.items()}}

    def state(self) -> list[Any]:
        """Return the state for a successor, between two calls."""
        settings = {name: dict(self[name].values) for name in SETTINGS}
        return [settings, [list(entry) for entry in self._said], self["stats"].told()]

    def restore(self, state: Sequence[Any]) -> None:
        """Restore what `state` returned."""
        settings, said, gathered = state
        self.hear([[name, key, value, ""] for name, values in settings.items() for key, value in values.items()])
        self._said = [list(entry) for entry in said]
        self["stats"].restore(gathered)
        self.due = bool(said or gathered)
