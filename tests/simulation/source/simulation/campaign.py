"""Campaigns: one small run after another, each with its own faults, compared with the run that nothing disturbs."""

from __future__ import annotations

import gc
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ganglion.limits import EXIT_DIFFERS
from ganglion.wire.name import Role
from simulation.bus import Disturbance, Simulation
from simulation.cases import CASES, DICE, Case, case
from simulation.counting import UNJUST
from simulation.fault import Fault, drawn, staged
from simulation.outcome import Outcome, read_episodes, read_rows
from simulation.process import KILLED

_RUNS_PER_STORE = 200
_EVENTS_MAX = 60_000  # the longest run takes a tenth of it
_CUT = "truncated: signal RESET"  # the reason of such an episode
_ORDERS = ("order", "again")  # what ends an episode early


@dataclass
class Verdict:
    """Say what came of one seed: what is wrong with it, empty if nothing is, and what happened on the way."""

    wrong: str
    counts: Counter[str] = field(default_factory=Counter)
    events: int = 0
    virtual_s: float = 0.0


class Failure(AssertionError):
    """A run did not become what it should; the words hold all that is needed to see it again."""


def case_of(seed: int, folder: Path) -> Case:
    """Return the run of a seed."""
    draw = random.Random(f"run {seed}")
    if staged(seed) and draw.random() < 0.3:
        return case(draw.randrange(0, CASES, 4), folder)  # more happens there
    return case(DICE if draw.random() < 0.05 else draw.randrange(CASES), folder)


def carry_out(seed: int, faults: Sequence[Fault], folder: Path, nodes: int = 0) -> Verdict:
    """Carry out the run of a seed with these faults, and judge it."""
    run = case_of(seed, folder)
    disturbance = Disturbance([(fault.at, fault) for fault in faults])
    simulation = Simulation(run.plan, seed, folder, disturbance, tables=read_rows, nodes=nodes)
    simulation.check_every, simulation.tight, simulation.peek = 7, seed % 2 == 1, read_episodes
    simulation.schedule.events_max = _EVENTS_MAX
    simulation.fine = staged(seed) and seed % 4 < 2
    try:
        outcome = simulation.carry_out()
        wrong = _wrong(run, simulation, outcome, faults)
        events, virtual_s = outcome.events, outcome.virtual_s
    except AssertionError as error:
        wrong = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
        events, virtual_s = simulation.schedule.events, simulation.schedule.now_s
    finally:
        shutil.rmtree(folder / simulation.run, ignore_errors=True)
    return Verdict(wrong, simulation.counts, events, virtual_s)


def _wrong(run: Case, simulation: Simulation, outcome: Outcome, faults: Sequence[Fault]) -> str:
    """Return what is wrong with an outcome: rows that differ, or an end that nobody has caused."""
    if run.name == DICE:
        unnoticed = [
            journal.process.name
            for _, journal, role in simulation.journals
            if role is Role.ENVIRONMENT and journal.compared and journal.process.status != EXIT_DIFFERS
        ]
        if unnoticed:
            return f"dice were thrown again, and nobody noticed: {unnoticed}"
    if simulation.counts[UNJUST]:
        return "somebody was called late although nobody was slow"
    if simulation.accused:
        return f"called silent although they answer: {simulation.accused}"
    if outcome.status == "failed":
        caused = _caused(run, simulation, outcome, faults)
        return "" if caused else f"it ended with: {outcome.reason}"
    if outcome.defects:
        return f"defects: {outcome.defects}"
    if outcome.status != "finished" or outcome.exit_status != 0:
        return f"it ended as {outcome.status}: {outcome.reason}"
    astray = [
        f"{process.name}: {process.words}"
        for process in simulation.processes
        if process.status not in (0, KILLED, EXIT_DIFFERS)
        and not process.zombie
        and process.participant is not None
        and process.participant.welcome is not None
    ]
    if astray:
        return f"ended by themselves: {astray}"
    if run.name == DICE:
        return ""
    if not outcome.tables:
        return "nothing of it was stored"
    changed = simulation.seen - set(outcome.tables["episodes"])
    if changed:
        return f"episodes were visible that are others now: {changed}"
    if any(fault.kind in _ORDERS for fault in faults):
        cut = [row for row in outcome.tables["episodes"] if row[8] == _CUT]
        simulation.counts["episode ended by an operator"] += len(cut)
        return _disorder(run, outcome)
    if simulation.counts["difference"]:
        return "a successor found a difference where there is none"
    differing = [name for name, rows in run.rows.items() if name != "orders" and outcome.tables.get(name) != rows]
    return f"rows differ: {', '.join(differing)}" if differing else ""


def _caused(run: Case, simulation: Simulation, outcome: Outcome, faults: Sequence[Fault]) -> bool:
    """Say whether a run has failed by what befell it."""
    counts = simulation.counts
    deaths = Counter(p.name for p in simulation.processes if p.status == KILLED or p.zombie)
    most = max(deaths.values(), default=0)
    if (counts["poison"] and most >= 3) or (counts["intensity"] and (most >= 6 or deaths.total() > 20)):
        return True
    # Where a store that could not be ended wakes up and begins the run first, its successor is stopped by name.
    stores = [p for p in simulation.processes if p.name.endswith(f"/{Role.STORE.value}")]
    if "another one has begun it" in outcome.reason and any(store.zombie for store in stores):
        return True
    # A phase that begins again does so without what operators have said; if that was heard, it differs.
    again = counts["resume with phase"] or counts["going back"]
    unheard = again and any(fault.kind in _ORDERS for fault in faults)
    return "nondeterministic" in outcome.reason and (run.name == DICE or bool(unheard))


def _disorder(run: Case, outcome: Outcome) -> str:
    """Return what is wrong with a run in which an operator has ended episodes early: each order ends one, at most."""
    orders = [row for row in outcome.tables["orders"] if row[4] == "RESET" and not row[6].startswith("refused")]
    before, found = _lanes(run.rows["episodes"]), _lanes(outcome.tables["episodes"])
    if _driven(before) != _driven(found):
        return f"workers have run: expected {[*before]}, found {[*found]}"
    for lane, rows in found.items():
        phase, mode, worker = lane
        # How often is evaluated depends on who ends an episode together with whom.
        expected = rows if mode == "evaluate" else before[lane]
        if [row[4] for row in rows] != [*range(len(expected))]:
            return f"episodes of {lane}: expected {len(expected)}, found {[row[4] for row in rows]}"
        meant = [row for row in orders if row[0] == phase and row[1] in (None, worker)]
        cut = [row for row in rows if row[8] == _CUT]
        if len(cut) > (len(meant) if mode != "evaluate" else 0):
            return f"{len(meant)} orders have ended {len(cut)} episodes of {lane}"
    return ""


def _driven(lanes: dict[tuple[Any, ...], list[Any]]) -> list[tuple[Any, ...]]:
    """Return the lanes of those who do not evaluate."""
    return [lane for lane in lanes if lane[1] != "evaluate"]


def _lanes(episodes: Sequence[Any]) -> dict[tuple[Any, ...], list[Any]]:
    """Return the rows of episodes by phase, mode and worker, in their order."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for row in sorted(episodes, key=lambda row: row[:5]):
        found.setdefault((row[0], row[1], row[2]), []).append(row)
    return found


def shrunk(seed: int, faults: Sequence[Fault], folder: Path) -> list[Fault]:
    """Return as few of the faults as still make the run of a seed go wrong."""
    kept = list(faults)
    for fault in faults:
        fewer = [other for other in kept if other is not fault]
        if carry_out(seed, fewer, folder).wrong:
            kept = fewer
    return kept


@dataclass
class Campaign:
    """Carry out seed after seed, and count what happened in them; what fails is shrunk to the fewest faults."""

    folder: Path
    shrinks: bool = True
    counts: Counter[str] = field(default_factory=Counter)
    seeds: int = 0

    def _tidy(self) -> None:
        """Begin a new store now and then: the more runs lie in one, the slower it is; and free what is in cycles."""
        if self.seeds % _RUNS_PER_STORE == 0:
            for file in self.folder.glob("ganglion.db*"):
                file.unlink()
            gc.collect()

    def go(self, seed: int) -> None:
        """Carry out one seed; Failure if it goes wrong."""
        self._tidy()
        faults = drawn(seed, case_of(seed, self.folder).length)
        verdict = carry_out(seed, faults, self.folder)
        self.seeds += 1
        self.counts += verdict.counts
        self.counts.update({f"fault {fault.kind}": 1 for fault in faults})
        if verdict.wrong:
            fewest = shrunk(seed, faults, self.folder) if self.shrinks else faults
            words = "\n".join(f"    {fault}" for fault in fewest)
            raise Failure(f"seed {seed}, run {case_of(seed, self.folder).name}: {verdict.wrong}\nby\n{words}")
