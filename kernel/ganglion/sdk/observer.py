"""Observer: looks on at a run and never answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar


class Observer(ABC):
    """Take what the participants of a run tell; have no influence on it.

    An observer that is slow loses messages instead of slowing the run: `missed` is told which. The store is the one
    reader that must not lose, and has a contract of its own (`ganglion.sdk.store`).

    `topics` are the ends of the topics that it listens to; `events` carries the events of a run (phases, episodes,
    signals, waits, lost processes).
    """

    topics: ClassVar[tuple[str, ...]] = ("events",)
    run: str = ""  # the run's id; set before `setup`

    def setup(self) -> None:  # noqa: B027 - an observer that needs none of this is complete
        """Prepare; called once, before the first message."""

    @abstractmethod
    def observe(self, topic: str, event: str, fields: Mapping[str, Any], time_s: float) -> None:
        """Take one message.

        Args:
            topic: One of `topics`.
            event: Name of the event, such as `episode.ended`.
            fields: What it says; plain values.
            time_s: When it was told, in seconds since 1970 (UTC).
        """

    def missed(self, topic: str, first: int, last: int) -> None:  # noqa: B027
        """Learn that the messages `first` to `last` of a topic, both included, did not arrive."""

    def teardown(self) -> None:  # noqa: B027
        """Let go of everything; called once, also after an error."""
