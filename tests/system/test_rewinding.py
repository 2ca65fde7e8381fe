"""Processes that do not do the same again: a run goes back to the begin of its phase once, then it ends by name."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.command import Command, ganglion, private

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are watched as on Linux")

MODULE = """
import os, signal
from pathlib import Path
from ganglion.sdk import ActuatorInformation, Box, Discrete, Environment, EnvironmentBaseline, EnvironmentState
from ganglion.sdk import RewardInformation, SensorInformation

class Odd(Environment):  # dies so many times; each time its successor reads otherwise while it hears the journal
    def __init__(self, folder, times):
        self.folder, self.times = Path(folder), times
    def start_environment(self):
        self.step = 0
        return EnvironmentBaseline(self.read(), [ActuatorInformation(0, Discrete(3), "a")])
    def reset(self, request):
        return self.start_environment()
    def first(self, name):
        try:
            (self.folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
    def there(self, name):
        return (self.folder / name).exists()
    def read(self):
        value = self.rng.random()
        if (self.episode, self.step) == (2, 3):
            if any(self.there(f"dead-{n}") and self.first(f"odd-{n}") for n in range(self.times)):
                value = 1.5
        return [SensorInformation(value, Box(0.0, 2.0, ()), "s")]
    def update(self, actuators):
        self.step += 1
        if (self.episode, self.step) == (2, 5):
            odd = sum(self.there(f"odd-{n}") for n in range(self.times))
            if odd < self.times and self.first(f"dead-{odd}"):
                os.kill(os.getpid(), signal.SIGKILL)
        reward = RewardInformation(self.step, Discrete(9), "r")
        return EnvironmentState(self.read(), [reward], terminated=self.step >= 8)
"""
DOCUMENT = """
uid: odd
seed: 5
version: "0.1"
recovery: {on_loss: recover}
run_config: {condition: vanilla}
schedule:
  - train:
      environments: [environment: {uid: hut, name: "odd:Odd", params: {folder: ".", times: 0}}]
      agents: [{name: ada, muscle: dummy, brain: dummy, sensors: [hut.s], actuators: [hut.a]}]
      phase_config: {worker: 1, episodes: 4}
"""


@pytest.fixture
def run() -> Iterator[Callable[..., Command]]:
    """Return what carries out runs, with so many differences each; their folder has a short path."""
    with tempfile.TemporaryDirectory(prefix="gw-", dir="/tmp") as text:
        folder = Path(text)
        (folder / "odd.py").write_text(MODULE)

        def carry_out(*times: int) -> Command:
            for count in times:
                document = DOCUMENT.replace("times: 0", f"times: {count}").replace('"."', f'"{folder}"')
                (folder / f"odd{count}.yml").write_text(document)
            return Command(folder, "run", *(f"odd{count}.yml" for count in times), more=private(folder))

        yield carry_out


def test_one_difference_leads_back_to_the_begin_of_the_phase(run: Callable[..., Command]) -> None:
    """It is named as a finding, the phase comes again, and the results are those of an undisturbed run."""
    disturbed = run(0, 1)
    status, said = disturbed.end()

    assert 0 == status, said
    [warning] = [event["text"] for event in disturbed.events if event["event"] == "warning"]
    assert warning.startswith("it goes back to the begin of phase 0: environment hut (worker 0): nondeterministic: ")
    assert "episode 2, step 3" in warning
    folder = disturbed.folder
    compared = ganglion(folder, "runs", "diff", "odd-1", "odd-2", more=private(folder))
    assert (0, "no difference\n") == (compared.returncode, compared.stdout)
    assert 0 == ganglion(folder, "verify", "odd-2", more=private(folder)).returncode
    told = ganglion(folder, "results", "incidents", "odd-2", "--format", "json", more=private(folder))
    rows = [(row["name"], row["kind"]) for row in json.loads(told.stdout)]
    assert ("environment/hut/0", "rewound") == rows[-1], rows
