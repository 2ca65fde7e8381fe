"""Tables of real processes: a rate that holds, who waits in `ps`, killed writers, a learner that draws from one."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from system.command import Command, ganglion, private
from system.results import table

pytestmark = pytest.mark.long

PARTS = """
from ganglion.sdk import Brain


class Sampler(Brain):
    batched = True

    def setup(self):
        self.memory.size_limit = 0

    def thinking(self, muscle_id, data):
        return None

    def learn(self, batch):
        self.tables["recent"].sample_steps(1)
        self.add_statistics("d", float(self.tables["recent"].state()["d"]))
"""
RATES = """
uid: rates
seed: 3
version: "0.1"
schedule:
  - train:
      environments:
        - {environment: {uid: lake, name: counting, params: {length: 100}}, budget: {steps: 2000}}
        - {environment: {uid: moor, name: counting, params: {length: 100}}, budget: {steps: 3990}}
      agents:
        - {name: ada, brain: log, muscle: echo}
        - {name: bob, brain: {name: "parts:Sampler"}, muscle: echo}
      bodies: {product: inner}
      tables:
        - uid: recent
          name: pool
          params: {capacity: {steps: 500}, rate: {samples_per_insert: 2, min_size: 5, buffer: 4}}
          feed: [ada]
          serve: [bob]
      phase_config: {mode: train, sync: async}
      simulation: {name: aeb, params: {mode: free}}
      recovery: {on_loss: ON_LOSS}
"""
SPAN_S = 600.0


@pytest.fixture
def short() -> Iterator[Path]:
    """Return a folder whose path is short, as that of a socket has to be."""
    with tempfile.TemporaryDirectory(prefix="gt-", dir="/tmp") as folder:
        yield Path(folder)


def begin(folder: Path, on_loss: str) -> Command:
    """Begin the run."""
    (folder / "parts.py").write_text(PARTS)
    (folder / "rates.yml").write_text(RATES.replace("ON_LOSS", on_loss))
    more = {**private(folder), "GANGLION_ALLOW": "parts"}
    return Command(folder, "run", "rates.yml", "--name", "rates", more=more, span_s=SPAN_S)


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return what `ganglion ps` shows of the run; nothing where it has just ended."""
    shown = ganglion(folder, "ps", "--json", more=private(folder))
    return [row for row in json.loads(shown.stdout or "[]") if row["run"] == "rates"] if not shown.returncode else []


def test_a_rate_holds_both_sides(short: Path) -> None:
    """2 draws for each of 2,000 inserts, buffer 4: d stays within 6 and 14; who waits is shown; a writer is killed."""
    command, states, killed = begin(short, "recover"), [], 0
    while (event := command.next_event(SPAN_S)) is not None:
        if event["event"] != "episode.ended":
            continue
        shown = rows(short)
        states += [row["table"] for row in shown if row["role"] == "table" and row["table"]]
        writer = next((row["pid"] for row in shown if row["name"] == "rates/brain/ada"), None)
        if writer is not None and not killed and len(states) > 1:
            killed = writer
            os.kill(writer, signal.SIGKILL)
    status, said = command.end()
    drawn = [
        (row["statistics"] or {}).get("brain.d") for row in table(short, "actions", "rates") if row["agent"] == "bob"
    ]

    assert 0 == status, said
    assert killed
    assert [True] == list({6 <= d <= 14 for d in drawn if d is not None})
    assert 3900 < len([d for d in drawn if d is not None])
    assert {"insert", "sample"} & {state.get("blocked") for state in states}
    assert max(state["steps"] for state in states) <= 500


def test_with_fail_a_lost_writer_ends_the_run_by_name(short: Path) -> None:
    """Nobody waits for what never comes."""
    command = begin(short, "fail")
    command.until("episode.ended")
    pid = next(row["pid"] for row in rows(short) if row["name"] == "rates/brain/ada")
    os.kill(pid, signal.SIGKILL)
    status, said = command.end()

    assert 1 == status, said
    assert "brain ada" in str(command.events[-1])
