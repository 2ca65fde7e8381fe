"""Clock: a clock that stands until a test moves it, for classes that are given one to look at."""

from __future__ import annotations

__all__ = ["Clock"]


class Clock:
    """Be a clock that goes on only when it is told to: calling it gives seconds, as `time.monotonic` does.

    A class that has to do with real time takes its clock, and what it sleeps by, as arguments; a test gives it
    `clock` and `clock.sleep`.

    Args:
        now_s: What it shows at first.
    """

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = float(now_s)

    def __call__(self) -> float:
        """Return what it shows, seconds."""
        return self._now_s

    def advance(self, span_s: float) -> float:
        """Move it forward; return what it shows then.

        Raises:
            ValueError: The span is negative or no number: no clock goes backwards.
        """
        if not span_s >= 0.0:
            raise ValueError(f"clock: expected a span of at least 0 s, found {span_s!r}")
        self._now_s += float(span_s)
        return self._now_s

    def sleep(self, span_s: float) -> None:
        """Let the time pass without waiting; raises as `advance`."""
        self.advance(span_s)
