"""Topics of one worker: settings, messages and statistics besides the steps; their receivers and their records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.limits import TOPIC_BINS, TOPIC_KEYS, TOPIC_MESSAGES
from ganglion.peer.author import wrong_answer
from ganglion.peer.results.records import Records
from ganglion.sdk.seed import derive, generator_from_words
from ganglion.sdk.topic import HOW, SETTINGS, Entry, Gathered, draw, travelling

_OPERATOR = "operator"
_ENTRY = "a list [topic, key, value, addressee or how], all text but the value"


class TopicBoard:
    """Hold the settings of all participants, deliver their messages, and gather their statistics.

    Participants have their wire names; `names` maps these to uids, environments first. `now` gives the tick of a row.

    Attributes:
        waiting: Participant -> entries for its next call; participants without entries are absent.
    """

    def __init__(
        self, records: Records, place: Sequence[Any], names: Mapping[str, str], now: Callable[[], int]
    ) -> None:
        self._records, self._place, self._names, self._now = records, place, dict(names), now
        self.waiting: dict[str, list[Entry]] = {}
        self._held: dict[str, dict[str, dict[str, Any]]] = {}  # participant -> topic -> key -> value
        self._fixed: set[tuple[str, str, str]] = set()  # settings that were set since, and are no longer drawn
        self._gathered: dict[tuple[str, str], Gathered] = {}
        self._count = 0  # number of rows; identifies a repeated row

    def join(self, names: Mapping[str, str]) -> None:
        """Add participants."""
        self._names |= names

    def opening(self, peer: str, forms: Mapping[str, Mapping[str, Any]] | None, stream: bytes) -> list[Entry] | None:
        """Draw the random settings of the document from an episode's stream; return all settings."""
        for topic, keys in (forms or {}).items():
            for key, form in keys.items():
                if (peer, topic, key) not in self._fixed:
                    self._set(peer, topic, key, draw(form, generator_from_words(derive(stream, "topic", topic, key))))
        held = self._held.get(peer, {})
        entries = [[topic, key, value, ""] for topic, keys in held.items() for key, value in keys.items()]
        said = [entry for entry in self.waiting.pop(peer, ()) if entry[0] not in SETTINGS]
        return [*entries, *said] or None

    def set(self, uid: str, topic: str, key: str, value: Any) -> None:
        """Apply an operator's setting or message for one participant."""
        for peer in self._peers(uid):
            if topic in SETTINGS:
                self._fix(peer, topic, key, value, _OPERATOR)
            else:
                self._record(peer, topic, key, value)
                self._tell(peer, [topic, key, value, _OPERATOR])

    def take(self, peer: str, call: str, entries: Sequence[Entry]) -> None:
        """Handle the topics of a reply to `call`; CallFailed names the participant and the error."""
        try:
            if len(entries) > TOPIC_MESSAGES + TOPIC_KEYS:
                raise RemoteProtocolError(f"expected at most {TOPIC_MESSAGES + TOPIC_KEYS}, found {len(entries)}")
            for entry in entries:
                if type(entry) is not list or [*map(type, entry[:2] + entry[3:])] != [str, str, str]:
                    raise RemoteProtocolError(f"expected {_ENTRY}, found {entry!r:.80}")
                self._take(peer, *entry)
        except (AuthorError, RemoteProtocolError) as error:
            raise wrong_answer(peer, call, RemoteProtocolError(f"topics: {error}")) from error

    def _take(self, peer: str, topic: str, key: str, value: Any, more: str) -> None:
        if topic == "stats":
            self._gather(peer, key, value, more)
            return
        value = travelling(topic, key, value)
        if topic in SETTINGS:
            for whose in self._peers(more) if more else [peer]:
                self._fix(whose, topic, key, value, self._names[peer], by=peer)
            return
        self._record(peer, topic, key, value)
        if topic != "log":
            for other in self._peers(more) if more else [name for name in self._names if name != peer]:
                self._tell(other, [topic, key, value, self._names[peer]])

    def _gather(self, peer: str, key: str, value: Any, how: str) -> None:
        found = self._gathered.setdefault((peer, key), Gathered(how))
        whole = type(value) is list and len(value) == 4 and type(value[0]) is int and value[0] > 0
        if how not in HOW or not whole or {*map(type, value[1:3])} != {float} or type(value[3]) is not dict:
            raise RemoteProtocolError(f"stats, key {key!r:.60}: expected one of {', '.join(HOW)}, found {how!r:.40}")
        if found.how != how:
            raise RemoteProtocolError(f"stats, key {key!r:.60}: expected {found.how} as before, found {how}")
        found.merge(value)
        if len(found.bins) > TOPIC_BINS or sum(one == peer for one, _ in self._gathered) > TOPIC_KEYS:
            raise RemoteProtocolError(f"stats: at most {TOPIC_KEYS} keys (topic_keys) and {TOPIC_BINS} bins of one")

    def _fix(self, peer: str, topic: str, key: str, value: Any, sender: str, by: str = "") -> None:
        self._fixed.add((peer, topic, key))
        self._set(peer, topic, key, value)
        if peer != by:
            self._tell(peer, [topic, key, value, sender])

    def _set(self, peer: str, topic: str, key: str, value: Any) -> None:
        keys = self._held.setdefault(peer, {}).setdefault(topic, {})
        if key not in keys or keys[key] != value:
            keys[key] = value
            if len(keys) > TOPIC_KEYS:
                raise RemoteProtocolError(f"{topic}: expected at most {TOPIC_KEYS} keys (topic_keys), found more")
            self._record(peer, topic, key, value)

    def _tell(self, peer: str, entry: Entry) -> None:
        """Queue topics for the next call of a participant: the newest value of a setting, the newest messages."""
        waiting = self.waiting.setdefault(peer, [])
        if entry[0] in SETTINGS:
            waiting[:] = [one for one in waiting if one[:2] != entry[:2]]
        waiting.append(entry)
        said = [place for place, one in enumerate(waiting) if one[0] not in SETTINGS]
        if len(said) > TOPIC_MESSAGES:
            del waiting[said[0]]

    def _peers(self, uid: str) -> list[str]:
        """Return the participants of this name; several if an agent decides by models of several sources."""
        found = [peer for peer, name in self._names.items() if name == uid]
        if found:
            return found
        known = ", ".join(dict.fromkeys(self._names.values()))
        raise RemoteProtocolError(f"there is no environment or agent {uid!r:.60}; expected one of {known}")

    def flush(self, peers: Iterable[str] | None = None) -> None:
        """Record the statistics of these participants (None: of all), whose episode has ended."""
        due = set(self._names if peers is None else peers) if self._gathered else ()
        for peer, key in [place for place in self._gathered if place[0] in due]:
            self._record(peer, "stats", key, self._gathered.pop((peer, key)).value)

    def _record(self, peer: str, topic: str, key: str, value: Any) -> None:
        self._count += 1
        self._records.add(["topic", *self._place, self._now(), self._names[peer], topic, key, value, self._count])

    # -- the journal --------------------------------------------------------------------------------------------------
    def state(self) -> list[Any]:
        """Return the state that a successor needs."""
        gathered = [[*place, one.how, one.told] for place, one in self._gathered.items()]
        return [self._held, [list(one) for one in sorted(self._fixed)], self.waiting, gathered, self._count]

    def restore(self, state: Sequence[Any]) -> None:
        """Restore what `state` returned."""
        self._held, fixed, self.waiting, gathered, self._count = state
        self._fixed = {(peer, topic, key) for peer, topic, key in fixed}
        self._gathered = {}
        for peer, key, how, told in gathered:
            one = self._gathered[peer, key] = Gathered(how)
            one.merge(told)
