"""The broker alone, against zmq.asyncio and against a swap broker in C on libzmq."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bus import broker
from load import METERS, Target
from measure import HERE, Options, Row, compare, interleave, placed, process, python

GATES = {  # pinned to one processor, where CPU per message is what counts
    "zmq.asyncio": {"1 outstanding": 1.8, "64 outstanding": 8.0, "one-way": 10.0},
    "C swap broker": {"1 outstanding": 1.0, "64 outstanding": 0.7, "one-way": 0.6},
}


def rows(options: Options) -> list[Row]:
    """Measure all brokers in turns, pinned and free."""
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="ganglion-bench-") as folder:
        swap, reason = compile_swap(Path(folder))
        if swap is None:
            print(f"bench broker: NO C REFERENCE: {reason}", file=sys.stderr)
        for pinned in (True, False):
            with placed(pinned):
                found += _measure(options, Path(folder), swap, reason, pinned)
    return found


def _measure(options: Options, folder: Path, swap: Path | None, reason: str, pinned: bool) -> list[Row]:
    place = "pinned" if pinned else "free"
    paths = {name: str(folder / f"{place}-{name.split()[0]}.sock") for name in ("ours", *GATES)}
    found: list[Row] = []
    with ExitStack() as stack:
        stack.enter_context(broker(f"ipc://{paths['ours']}"))
        stack.enter_context(process(python("reference_asyncio.py", f"ipc://{paths['zmq.asyncio']}")))
        if swap is not None:
            stack.enter_context(process([str(swap), f"ipc://{paths['C swap broker']}"]))
        present = {
            name: Target(path, name == "ours")
            for name, path in paths.items()
            if name != "C swap broker" or swap is not None
        }
        for meter, measure in METERS.items():
            rates = interleave(
                {name: partial(measure, target, options.round_s) for name, target in present.items()}, options.rounds
            )
            for reference, gates in GATES.items():
                title = f"broker {meter}, {place}, x {reference}"
                gate = gates[meter] if pinned else None
                if reference in rates:
                    found.append(compare(title, rates["ours"], rates[reference], gate))
                else:
                    found.append(Row(title, None, gate, note=reason))
    return found


def compile_swap(folder: Path) -> tuple[Path | None, str]:
    """Return the compiled C broker, or None and what is missing."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None, "no C compiler (Debian: gcc)"
    program = folder / "swap"
    built = subprocess.run(
        [compiler, "-O2", "-o", str(program), str(HERE / "reference_swap.c"), "-lzmq"],
        check=False,
        capture_output=True,
        text=True,
    )
    if built.returncode:
        return None, "zmq.h or libzmq is missing (Debian: libzmq3-dev)"
    return program, ""
