"""Calls: how many functions of Python one step of a run takes, in each of its participants."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from greenlet import getcurrent

from ganglion.run.plan import Plan
from simulation.bus import Simulation, read
from simulation.process import Process

ROLES = ("controller", "muscle", "environment", "brain")
_ELSEWHERE = ("/tests/", "/transport/", "/broker/")  # what stands for links, files and the broker

_DOCUMENT = """
uid: calls
seed: 1
version: "0.1"
schedule:
  - steps:
      environments:
        - environment: {{uid: world, name: dummy, params: {{max_iter: {steps}}}}}
      agents:
        - name: agent
          brain: dummy
          muscle: dummy
          objective: dummy
          sensors: [{sensors}]
          actuators: [{sensors}]
      simulation: {{name: vanilla, conditions: [environment]}}
      phase_config: {{mode: {mode}, worker: 1, episodes: 1}}
run_config:
  condition: {{name: vanilla}}
"""

_BODIES = """
uid: calls
seed: 1
version: "0.1"
schedule:
  - steps:
      environments:
        - {{environment: {{uid: world, name: cartpole}}, budget: {{steps: {steps}}}, episode_end: each}}
      agents: [{{name: agent, brain: none, muscle: random}}]
      bodies: {{num: 8}}
      phase_config: {{mode: test}}
      simulation: {{name: aeb}}
"""


class Calls:
    """Count calls by process and by function while it is the profile function of the interpreter.

    What a participant's link and journal do, and all that is called from there, does not count.
    """

    def __init__(self, names: dict[Any, str]) -> None:
        self.found: Counter[tuple[str, str, str]] = Counter()  # role, file, function
        self._names = names
        self._begun: set[Any] = set()  # processes that have come to code of ours
        self._aside: dict[Any, FrameType] = {}  # the frame with which a process has left what counts

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        who = getcurrent()
        role = self._names.get(who)
        if role is None or (event != "call" and event != "return"):
            return
        aside = self._aside.get(who)
        if event == "return":
            if aside is frame:
                del self._aside[who]
        elif aside is None:
            code = frame.f_code
            if not any(place in code.co_filename for place in _ELSEWHERE):
                self._begun.add(who)
                self.found[role, code.co_filename, code.co_qualname] += 1
            elif who in self._begun:
                self._aside[who] = frame


class _Named(Simulation):
    """Carry out a plan, and note which greenlets are of which role."""

    def __init__(self, plan: Plan, names: dict[Any, str], folder: Path) -> None:
        super().__init__(plan, 1, folder)
        self._names = names

    def _process(self, name: str, program: Callable[[Process], int], incarnation: int = 1) -> Process:
        process = super()._process(name, program, incarnation)
        role = next((role for role in ROLES if f"/{role}/" in name), None)
        if role is not None:
            self._names[process._greenlet] = role
        return process


def _counted(mode: str, steps: int, folder: Path) -> Counter[tuple[str, str, str]]:
    sensors = ", ".join(f"world.{i}" for i in range(10))
    plan = read((_BODIES if mode == "bodies" else _DOCUMENT).format(mode=mode, steps=steps, sensors=sensors))
    names: dict[Any, str] = {}
    calls = Calls(names)
    simulation = _Named(plan, names, folder)
    simulation.schedule.events_max, simulation.schedule._virtual_s_max = 10_000_000, 1e6
    former = sys.getprofile()
    gc.disable()  # what others have it call would be counted where it happens to run
    sys.setprofile(calls)
    try:
        outcome = simulation.carry_out()
    finally:
        sys.setprofile(former)
        gc.enable()
    assert outcome.status == "finished"
    return calls.found


def calls_per_step(mode: str, folder: Path, steps: int = 200) -> dict[tuple[str, str, str], float]:
    """Return (role, file, function) -> calls per step: what a longer episode takes more than a shorter one.

    With `bodies` for a mode it is a test of eight bodies, whose muscle and environment take arrays.
    """
    few, many = (_counted(mode, count, folder) for count in (50, 50 + steps))
    return {key: (many[key] - few[key]) / steps for key in many if many[key] != few[key]}


def by_role(found: dict[tuple[str, str, str], float]) -> dict[str, float]:
    """Return the calls of each role."""
    return {role: round(sum(count for key, count in found.items() if key[0] == role), 1) for role in ROLES}


def table(found: dict[tuple[str, str, str], float], least: float = 0.4) -> Iterable[str]:
    """Yield lines that say which functions are called most, by role and file."""
    for role in ROLES:
        yield f"{role}: {by_role(found)[role]}"
        rows = sorted((item for item in found.items() if item[0][0] == role), key=lambda item: item[0][1:])
        for (_, file, function), count in rows:
            if count >= least:
                yield f"  {count:7.2f}  {'/'.join(Path(file).parts[-2:])}:{function}"
