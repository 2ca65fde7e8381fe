"""One long run with a kill now and then: who came back, how long it took, what grew."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from system.command import Command, ganglion, private
from system.processes import MARKER, ROLES, below, descriptors, left_of, memory_kib
from system.world import RUN, write_world

DRIFT_MAX = 0.05  # of the memory of who is never killed, from the first quarter to the last
ENDLESS = 10_000_000  # episodes
_LOOK_S = 0.01


class Soak:
    """Hold the long run and what was seen of it."""

    def __init__(self, folder: Path, seed: int, workers: int, span_s: float) -> None:
        self.folder = folder
        self.dice = random.Random(seed)
        write_world(folder, workers, ENDLESS)
        more = {**private(folder), MARKER: str(folder)}
        self.command = Command(folder, "run", "chaos.yml", "--name", RUN, more=more, span_s=span_s + 120.0)
        self.kills: list[tuple[str, float | None]] = []  # name, seconds until the next episode has ended
        self.memory: defaultdict[str, list[int]] = defaultdict(list)
        self.descriptors: defaultdict[str, list[int]] = defaultdict(list)
        self.journals: defaultdict[str, list[int]] = defaultdict(list)
        self._read = 0
        self.ended = 0
        self.restarted = 0

    def hear(self) -> None:
        """Take in what was told."""
        lines = self.command.out.lines
        for line in lines[self._read :]:
            event = json.loads(line)
            self.ended += event["event"] == "episode.ended"
            self.restarted += event["event"] == "peer.restarted"
            if event["event"] in ("peer.lost", "waiting", "warning", "run.ended"):
                print(f"       {line.strip():.300}", flush=True)
        self._read = len(lines)

    def wait(self, span_s: float) -> None:
        """Let it run for a while, or until it ends."""
        until_s = time.monotonic() + span_s
        while time.monotonic() < until_s and self.command.process.poll() is None:
            self.hear()
            time.sleep(_LOOK_S)

    def kill(self, patience_s: float) -> None:
        """Kill a process of a role that is drawn; wait until an episode has ended after it."""
        seen = below(self.command.process.pid)
        role = self.dice.choice(ROLES)
        chosen = [process for process in seen if process.role == role and not _waits(process.name)]
        if not chosen:
            print(f"       there is no {role}", flush=True)
            return
        victim = self.dice.choice(chosen)
        self.hear()
        ended, began_s = self.ended, time.monotonic()
        os.kill(victim.pid, signal.SIGKILL)
        while self.ended < ended + 2 and time.monotonic() < began_s + patience_s:
            if self.command.process.poll() is not None:
                break
            self.hear()
            time.sleep(_LOOK_S)
        took_s = time.monotonic() - began_s if self.ended >= ended + 2 else None
        self.kills.append((victim.name, took_s))
        print(f"{len(self.kills):5d} {victim.name:16} {f'{took_s:6.2f} s' if took_s else 'NEVER'}", flush=True)

    def sample(self) -> None:
        """Note memory and descriptors of all."""
        seen = [(p.role, p.pid) for p in below(self.command.process.pid)]
        for file in (self.folder / "results" / RUN / "journals").glob("*.journal"):
            self.journals[file.stem.rstrip("-0123456789")].append(file.stat().st_size)
        for role, pid in [("supervisor", self.command.process.pid), *seen]:
            self.memory[role].append(memory_kib(pid))
            self.descriptors[role].append(descriptors(pid))


def main(span_s: float, every_s: float, seed: int, workers: int) -> int:
    """Run for `span_s` seconds; return 1 if somebody did not come back, something grew, or the end is not in order."""
    with tempfile.TemporaryDirectory(prefix="gc-", dir="/tmp") as text:
        soak = Soak(Path(text), seed, workers, span_s)
        until_s = time.monotonic() + span_s
        try:
            soak.wait(min(10.0, every_s))
            while time.monotonic() < until_s and soak.command.process.poll() is None:
                soak.sample()
                soak.kill(patience_s=60.0)
                soak.wait(min(every_s, until_s - time.monotonic()))
            soak.sample()
            soak.command.process.send_signal(signal.SIGINT)
            soak.wait(30.0)
            return _sum_up(soak)
        finally:
            soak.command.kill()


def _waits(name: str) -> bool:
    """Say whether a process waits for an evaluation that is far off: who is killed there thrice is taken for poison."""
    return name.rpartition(".")[2].startswith("e")


def _sum_up(soak: Soak) -> int:
    faults: list[str] = []
    status = soak.command.process.poll()
    if status != 130:
        faults.append(f"it ended with {status} in place of 130: {soak.command.err.lines[-20:]}")
        soak.command.kill()
    left = left_of(str(soak.folder))
    if left:
        faults.append(f"processes are left: {left}")
    done = ganglion(soak.folder, "verify", RUN, more=private(soak.folder), span_s=3600.0)
    if done.returncode != 0:
        faults.append(f"verify ended with {done.returncode}: {done.stdout[-1000:]}")
    back = [took_s for _, took_s in soak.kills if took_s is not None]
    if len(back) < len(soak.kills):
        faults.append(f"{len(soak.kills) - len(back)} kills were not made good within a minute")
    if back:
        print(f"gap: median {statistics.median(back):.2f} s, max {max(back):.2f} s, last {back[-1]:.2f} s")
    print(f"{soak.ended} episodes, {soak.restarted} restarts")
    for name, sizes in sorted(soak.journals.items()):
        print(f"journal {name:22} last {sizes[-1] / 2**20:7.2f} MiB, longest {max(sizes) / 2**20:7.2f} MiB")
    for role, found in soak.memory.items():
        quarter = max(1, len(found) // 4)
        first, last = statistics.median(found[:quarter]), statistics.median(found[-quarter:])
        held = soak.descriptors[role]
        before, after = statistics.median(held[:quarter]), statistics.median(held[-quarter:])
        drift = last / first - 1.0 if first else 0.0
        print(
            f"{role:12} {first / 1024:7.1f} -> {last / 1024:7.1f} MiB ({drift:+.1%}), "
            f"descriptors {before:g} -> {after:g}"
        )
        if role == "supervisor" and drift > DRIFT_MAX:
            faults.append(f"the supervisor has grown by {drift:.1%}")
        if role in ("supervisor", "broker", "warm") and after > before:
            faults.append(f"{role}: descriptors {before:g} -> {after:g}")
    for fault in faults:
        print(f"FAILED: {fault}")
    print(f"{len(soak.kills)} kills, {len(back)} made good")
    return 1 if faults or not soak.kills else 0


if __name__ == "__main__":
    sys.exit("started by scripts/chaos --soak HOURS")
