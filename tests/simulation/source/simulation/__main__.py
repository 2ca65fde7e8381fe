"""Simulate runs under faults, seed after seed, on all processors: python -m simulation [--first N] [--seeds N].

Each processor has a process of its own, which writes a line of JSON now and then; this one adds them up. It ends with 1
if a run went wrong, or if something that many runs must have met never happened.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from simulation.campaign import Campaign
from simulation.counting import SOMETIMES

TOLD_S, HEARD_S = 60.0, 5.0  # between two lines for who looks on, and between two words of a process
FAILURES_MAX = 20  # then something is so wrong that more seeds tell nothing
ENOUGH_SEEDS = 20_000  # after which everything must have happened


def work(first: int, count: int, step: int, until_s: float) -> None:
    """Carry out every `step`-th seed, in a folder in memory, and print what came of them."""
    stopped: list[int] = []
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who adds up tells us
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="ganglion-simulate-", dir=memory))
    campaign, told_s = Campaign(folder), time.monotonic()
    try:
        for seed in range(first, first + count, step):
            if stopped or time.time() > until_s:
                break
            _one(campaign, seed)
            if time.monotonic() - told_s > HEARD_S:
                told_s = time.monotonic()
                _tell(campaign)
    finally:
        _tell(campaign)
        shutil.rmtree(folder, ignore_errors=True)


def _one(campaign: Campaign, seed: int) -> None:
    """Carry out a seed; what processes of the run complain of is of no interest."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            campaign.go(seed)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        text = str(error) if isinstance(error, AssertionError) else f"seed {seed}: {type(error).__name__}: {error}"
        _say(json.dumps({"failure": text, "seed": seed}))


def _tell(campaign: Campaign) -> None:
    """Print what was counted since the last time."""
    _say(json.dumps({"seeds": campaign.seeds, "counts": campaign.counts}))
    campaign.counts = Counter()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Sum:
    """Add up what the processes print."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.seeds: dict[int, int] = {}
        self.begun_s = time.monotonic()
        self._lock = threading.Lock()

    def hear(self, number: int, process: subprocess.Popen[str]) -> None:
        """Take all lines of one process."""
        assert process.stdout is not None
        for line in process.stdout:
            with self._lock:
                self._take(number, json.loads(line))

    def _take(self, number: int, told: dict[str, Any]) -> None:
        if "failure" in told:
            self.failures.append(told["failure"])
            _say(f"FAILED {told['failure']}\n")
        else:
            self.seeds[number] = told["seeds"]
            self.counts += Counter(told["counts"])

    def line(self) -> str:
        """Return how far we are."""
        seeds, took_s = sum(self.seeds.values()), time.monotonic() - self.begun_s
        return f"{took_s:8.0f} s {seeds:9d} seeds {seeds / took_s:6.1f} a second {len(self.failures):3d} failed"


def main() -> int:
    """Share the seeds among processes, say how far they are, and judge the whole."""
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--first", type=int, default=100_000, help="the first seed (100000)")
    parser.add_argument("--seeds", type=int, default=20_000, help="how many (20000)")
    parser.add_argument("--hours", type=float, default=24.0, help="stop after so many hours (24)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="one per processor")
    parser.add_argument("--json", type=Path, help="write what was counted into this file")
    parser.add_argument("--part", nargs=2, type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        work(given.first, given.seeds, int(given.part[0]), given.part[1])
        return 0
    total = Sum()
    stops = _supervise(given, total)
    _say(total.line())
    for what, count in total.counts.most_common():
        _say(f"{count:10d}  {what}")
    seeds = sum(total.seeds.values())
    missing = [what for what in SOMETIMES if not total.counts[what]]
    _say(f"never happened: {', '.join(missing) or 'nothing'}")
    if given.json is not None:
        told = {"seeds": seeds, "failures": total.failures, "counts": total.counts, "missing": missing}
        given.json.write_text(json.dumps(told, indent=1))
    return 1 if total.failures or stops or (missing and seeds >= ENOUGH_SEEDS) else 0


def _supervise(given: argparse.Namespace, total: Sum) -> bool:
    """Run the processes to their end, say now and then how far they are; return whether one ended by itself."""
    until_s, number = time.time() + 3600 * given.hours, max(1, min(given.processes, given.seeds))
    processes = []
    for place in range(number):
        words = ["--first", str(given.first + place), "--seeds", str(given.seeds - place)]
        command = [sys.executable, "-m", "simulation", *words, "--part", str(number), str(until_s)]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    ears = [threading.Thread(target=total.hear, args=pair, daemon=True) for pair in enumerate(processes)]
    for ear in ears:
        ear.start()
    told_s = time.monotonic()
    try:
        while any(process.poll() is None for process in processes):
            time.sleep(0.2)
            if time.monotonic() - told_s > TOLD_S:
                told_s = time.monotonic()
                _say(total.line())
            if len(total.failures) >= FAILURES_MAX:
                break
    except KeyboardInterrupt:
        _say("interrupted")
    for process in processes:
        process.terminate()
    for process, ear in zip(processes, ears, strict=True):
        process.wait()
        ear.join()
    return any(process.returncode not in (0, -signal.SIGTERM) for process in processes)


if __name__ == "__main__":
    sys.exit(main())
