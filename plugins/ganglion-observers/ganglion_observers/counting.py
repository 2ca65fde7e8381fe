"""Counting: each process counts its calls in files of a folder, from which they are added up for Prometheus."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from ganglion_observers.calls import Connect, Passed, noting, role_of
from ganglion_observers.scalars import tool

FOLDER = "GANGLION_METRICS"
"""The variable with the folder."""

LABELS_MAX = 200
"""The most names of calls that one process counts apart; all others are `other`."""

MESSAGES, CALLS, WAITS = "ganglion_messages", "ganglion_call_seconds", "ganglion_waiting_since"
_BUCKETS_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def metrics(connect: Connect, name: str) -> Connect:
    """Return a way to connect by which calls are counted; as it was where there is no folder that we may write to."""
    folder = os.environ.get(FOLDER, "")
    if not os.access(folder or "/nowhere", os.W_OK):
        sys.stderr.write(f"{name}: {FOLDER}: expected a folder to count calls in, found {folder!r}: none is counted\n")
        return connect
    return noting(connect, name, _Counts(name, folder))


class _Counts:
    def __init__(self, name: str, folder: str) -> None:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # before the library is imported
        library = tool("prometheus_client", "metrics")
        self._messages = library.Counter(MESSAGES, "messages sent", ["call", "role"], registry=None)
        self._seconds = library.Histogram(
            CALLS, "from a call to its answer", ["call"], registry=None, buckets=_BUCKETS_S
        )
        self._waits = library.Gauge(
            WAITS, "since when", ["peer", "call"], registry=None, multiprocess_mode="mostrecent"
        )
        self._name, self._role = name, role_of(name)
        self._known: dict[str, tuple[Any, Any, Any]] = {}

    def _of(self, call: str) -> tuple[Any, Any, Any]:
        found = self._known.get(call)
        if found is None:
            word = call if len(self._known) < LABELS_MAX else "other"
            found = self._known[call] = (
                self._messages.labels(word, self._role),
                self._seconds.labels(word),
                self._waits.labels(self._name, word),
            )
        return found

    def asked(self, call: Passed) -> None:
        messages, _, waits = self._of(call.call)
        messages.inc()
        waits.set(call.begun_ns / 1e9)

    def answered(self, call: Passed, failed: bool) -> None:
        _, seconds, waits = self._of(call.call)
        seconds.observe(max(0.0, (time.time_ns() - call.begun_ns) / 1e9))
        waits.set(0.0)

    def began(self, call: Passed) -> None:
        pass

    def ended(self, call: Passed, failed: bool) -> None:
        self._of(call.call)[0].inc()

    def close(self) -> None:
        pass
