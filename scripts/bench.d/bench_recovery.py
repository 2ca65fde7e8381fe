"""What it costs to write down what a successor would need: real runs with `recovery` on and off, in turns."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench_run import document, meter
from measure import Options, Row, compare, interleave, placed

ROUNDS = 5  # a round is a whole run: start, thousands of steps, end
GATE = 0.9
RECOVERY = "recovery: {{on_loss: {}}}\n"


def rows(options: Options) -> list[Row]:
    """Measure the steps per second of runs whose losses are mended and of such that fail at once."""
    found: list[Row] = []
    with placed(False), tempfile.TemporaryDirectory(prefix="ganglion-bench-") as text:
        folder = Path(text)
        modes, words = ("test", "train"), ("recover", "fail")
        meters = {
            f"{mode} {word}": meter(folder / word, mode, True, document() + RECOVERY.replace("{}", word))
            for mode in modes
            for word in words
        }
        rates = interleave(meters, min(options.rounds, ROUNDS))
        for mode in modes:
            name = f"run, {mode} mode, on_loss: recover, x on_loss: fail"
            found.append(compare(name, rates[f"{mode} recover"], rates[f"{mode} fail"], GATE))
    return found
