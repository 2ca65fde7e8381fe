"""Measure: what one input costs, and what is found about it."""

from __future__ import annotations

import time
import traceback
import tracemalloc
from collections.abc import Iterable
from dataclasses import dataclass

from fuzz.target import Target

CPU_S = 0.05
MEMORY_BYTES = 64 * 1024 * 1024
_TRIES = 3  # a slow one is asked again: the machine may have been slow, not the reader


@dataclass(frozen=True)
class Finding:
    """Hold an input that a reader does not stand, and why."""

    target: str
    data: bytes
    why: str

    def __str__(self) -> str:
        return f"{self.target}: {self.why}\n{len(self.data)} bytes: {self.data[:400]!r}"


def search(target: Target, inputs: Iterable[bytes]) -> Finding | None:
    """Return the first input that raises, takes too much processor time, or too much memory; None if there is none.

    Memory is what Python and numpy take, at its peak while the input is read.
    """
    tracemalloc.start()
    try:
        for data in inputs:
            why = _try(target, data)
            if why:
                return Finding(target.name, data, why)
    finally:
        tracemalloc.stop()
    return None


def _try(target: Target, data: bytes) -> str:
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    start_s = time.thread_time()
    try:
        target.read(data)
    except Exception:  # noqa: BLE001 - whatever it is, it is the finding
        return traceback.format_exc(limit=-6)
    took_s = time.thread_time() - start_s
    _, peak = tracemalloc.get_traced_memory()
    if peak - before > MEMORY_BYTES:
        return f"it takes {(peak - before) >> 20} MiB"
    if took_s > CPU_S:
        took_s = min(_cpu_s(target, data) for _ in range(_TRIES))
    return f"it takes {took_s:.3f} s" if took_s > CPU_S else ""


def _cpu_s(target: Target, data: bytes) -> float:
    """Return what reading takes without being watched."""
    tracemalloc.stop()
    try:
        start_s = time.thread_time()
        target.read(data)
        return time.thread_time() - start_s
    finally:
        tracemalloc.start()
