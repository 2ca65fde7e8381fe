"""A phase without an end: what memory and journals of its processes grow by, from a tenth of its ticks on."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure import Options, Row

TICKS_PER_ROUND = 100_000  # ten rounds are a million; a round takes one to four minutes
GROWTH_MIB = 8.0  # that each process may grow by
JOURNAL_MIB = 24.0  # a journal is compacted from 8 MiB on, or at twice the size of the state of its process
ROLES = ("controller", "broker", "muscle", "environment", "governor", "store")
DOCUMENT = """\
uid: long
seed: 42
version: "0.1"
schedule:
  - steps:
      environments:
        - environment: {uid: lake, name: counting, params: {length: [7, 11]}}
          budget: {steps: TICKS}
          episode_end: each
      agents: [{name: ada, brain: none, muscle: echo}]
      bodies: {num: 2}
      phase_config: {mode: test}
      simulation: {name: aeb}
"""


def rows(options: Options) -> list[Row]:
    """Run two bodies that never end together, and look at the processes while they run."""
    ticks = options.rounds * TICKS_PER_ROUND
    with tempfile.TemporaryDirectory(prefix="ganglion-bench-") as text:
        folder = Path(text)
        (folder / "long.yml").write_text(DOCUMENT.replace("TICKS", str(ticks)))
        looks = list(_looks(folder))
    late = [look for made, look in looks if made >= ticks // 10]
    found = []
    for role in ROLES:
        before, end = late[0][role], late[-1][role]
        growth = max(max(look[role] for look in late) - before, 0.1)
        note = f"{before:.1f} MiB, {end:.1f} MiB at the end, {ticks:,} ticks"
        found.append(Row(f"long, {role}, {GROWTH_MIB:g} MiB x its growth", GROWTH_MIB / growth, 1.0, 0.0, 0.0, note))
    longest = max(look["journal"] for _, look in looks)
    name = f"long, {JOURNAL_MIB:g} MiB x the longest journal"
    return [*found, Row(name, JOURNAL_MIB / longest, 1.0, 0.0, 0.0, f"{longest:.1f} MiB")]


def _looks(folder: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the tick, and what the processes have in MiB, for each report of progress that the run makes."""
    argv = [str(Path(sys.executable).with_name("ganglion")), "--results", "r", "--json", "run", "long.yml"]
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            event = json.loads(line)
            if event.get("event") == "steps.taken" and (found := _sizes(folder)):
                yield event["tick"], found
    if running.returncode != 0:
        raise RuntimeError(f"{argv} ended with {running.returncode}")


def _sizes(folder: Path) -> dict[str, float]:
    """Return what each process has resident, and the longest journal; nothing while a process is starting."""
    argv = [str(Path(sys.executable).with_name("ganglion")), "--results", "r", "ps", "--json"]
    listed = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    found = {row["role"]: row["memory_bytes"] / 2**20 for row in json.loads(listed.stdout or "[]")}
    sizes = [path.stat().st_size for path in folder.glob("r/*/journals/*.journal")]
    return {**found, "journal": max(sizes) / 2**20} if found.keys() >= set(ROLES) and sizes else {}
