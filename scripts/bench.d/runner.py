"""Run the benches: every `bench_<name>.py` beside this file has `rows(options) -> list[Row]`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path

from measure import Options, Row

HERE = Path(__file__).parent


def main() -> int:
    """Run what was asked for, print a table, and return 1 if a gate was missed."""
    names = sorted(file.stem.removeprefix("bench_") for file in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Measure ratios within one run; fail if a gate is missed."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which benches: {', '.join(names)} (all of them)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds, whose median ratio counts (9)")
    parser.add_argument("--round-s", type=float, default=0.25, help="length of one round in seconds (0.25)")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in names:
            parser.error(f"unknown bench {name!r}; there are: {', '.join(names)}")
    options = Options(arguments.rounds, arguments.round_s)
    rows: list[Row] = []
    for name in arguments.names or names:
        rows += importlib.import_module(f"bench_{name}").rows(options)
    _print(rows)
    if arguments.json:
        machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
        arguments.json.write_text(
            json.dumps({"machine": machine, "rows": [asdict(row) for row in rows]}, indent=1) + "\n"
        )
    missed = [row for row in rows if row.missed]
    for row in missed:
        print(
            f"gate missed: {row.name}: expected a ratio of at least {row.gate}, found {row.ratio:.2f}", file=sys.stderr
        )
    return 1 if missed else 0


def _print(rows: list[Row]) -> None:
    print(f"{'bench':58} {'ratio':>8} {'gate':>6}  {'ours':>12} {'reference':>12}")
    for row in rows:
        gate = "-" if row.gate is None else f"{row.gate:g}"
        if row.ratio is None:
            print(f"{row.name:58} {'SKIPPED':>8} {gate:>6}  {row.note}")
            continue
        mark = " MISSED" if row.missed else ""
        print(f"{row.name:58} {row.ratio:8.2f} {gate:>6}  {row.ours:10.4g}/s {row.reference:10.4g}/s{mark} {row.note}")


if __name__ == "__main__":
    sys.exit(main())
