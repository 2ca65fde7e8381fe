"""Rows, interleaved rounds, and the processes that are measured."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Options:
    """Say how long to measure."""

    rounds: int
    round_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one result: the median of the ratios of all rounds, and what it must reach (None: for information).

    `ratio` is None where the reference is missing; `note` then says why.
    """

    name: str
    ratio: float | None
    gate: float | None
    ours: float = 0.0
    reference: float = 0.0
    note: str = ""

    @property
    def missed(self) -> bool:
        """Say whether there is a gate and it was not reached."""
        return self.gate is not None and self.ratio is not None and self.ratio < self.gate


def interleave(meters: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return the rates of all meters, measured in turns, so that what disturbs the machine disturbs all of them."""
    rates: dict[str, list[float]] = {name: [] for name in meters}
    order = list(meters)
    for meter in meters.values():  # one round that does not count
        meter()
    for _ in range(rounds):
        for name in order:
            rates[name].append(meters[name]())
        order = order[1:] + order[:1]
    return rates


def compare(name: str, ours: list[float], reference: list[float], gate: float | None, note: str = "") -> Row:
    """Return the row of two series that were measured in turns."""
    ratio = statistics.median(a / b for a, b in zip(ours, reference, strict=True))
    return Row(name, ratio, gate, statistics.median(ours), statistics.median(reference), note)


@contextmanager
def placed(pinned: bool) -> Iterator[None]:
    """Keep this process and what it starts on one processor, or leave the choice to the system."""
    before = os.sched_getaffinity(0)
    if pinned:
        os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def process(argv: list[str], order: str = "") -> Iterator[str]:
    """Run a program that writes a line when it is ready and ends when its input does; gives that line."""
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(order)
        child.stdin.flush()
        line = child.stdout.readline()
        if not line:
            raise RuntimeError(f"{argv} ended with {child.wait()} before it was ready")
        yield line
    finally:
        child.stdin.close()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()


def python(file: str, *arguments: str) -> list[str]:
    """Return the command that runs a file of this folder."""
    return [sys.executable, str(HERE / file), *arguments]
