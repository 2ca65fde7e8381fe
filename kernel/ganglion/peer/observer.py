"""Host of an observer: passes it the messages of a run's topics, and the numbers of missed ones."""

from __future__ import annotations

from ganglion.limits import DEADLINE_OTHER_S
from ganglion.peer.author import Hooks, Loader
from ganglion.peer.host import Host
from ganglion.peer.participant import Participant
from ganglion.sdk.store import Observer
from ganglion.wire.codec import codec_of
from ganglion.wire.conversation import Leave, Notice
from ganglion.wire.messages import Gap, RunEvent, Subscribe
from ganglion.wire.name import topic

_EVENTS = "events"  # the topic of an event that names none
_END = "run.ended"


class ObserverHost(Host):
    """Host one observer of one run; it leaves when the run has ended."""

    participant: Participant

    def __init__(self, loader: Loader, plugin: str, run: str, results: str = "") -> None:
        self._run = run
        self._hooks = Hooks(f"observer of {run}, {loader.blame('observer', plugin)}")
        self._observer: Observer = self._hooks("__init__", loader.make, "observer", {"name": plugin}, {})
        self._observer.run, self._observer.folder = run, f"{results}/{run}" if results else ""
        self._heard: dict[str, int] = {}

    def joined(self) -> None:
        """Set the observer up and subscribe to its topics."""
        self._hooks("setup", self._observer.setup)
        for name in dict.fromkeys((*self._observer.topics, _EVENTS)):
            self.participant.ask("", "kernel.subscribe", Subscribe(topic(self._run, name)), DEADLINE_OTHER_S)

    def told(self, told: Notice) -> None:
        """Take one message of a topic, or the report that some did not arrive."""
        if told.head.call == "kernel.gap":
            self._missed(codec_of(Gap).decode(told.body))
        if told.head.call != "event":
            return
        event = codec_of(RunEvent).decode(told.body)
        name = event.topic or _EVENTS
        self._heard[name] = self._heard.get(name, 0) + 1
        if name in self._observer.topics:
            self._hooks("observe", self._observer.observe, name, event.event, event.fields, event.time_s)
        if name == _EVENTS and event.event == _END:
            self.participant.leaving = Leave("the run has ended")

    def close(self) -> None:
        """Tear the observer down."""
        self._hooks("teardown", self._observer.teardown)
        self._hooks.close()

    def _missed(self, gap: Gap) -> None:
        name = gap.topic.rpartition("/")[2]
        first = self._heard.get(name, 0) + 1
        self._heard[name] = first - 1 + gap.missed
        if name in self._observer.topics:
            self._hooks("missed", self._observer.missed, name, first, first - 1 + gap.missed)
