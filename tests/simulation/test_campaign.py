"""Small runs, each with faults drawn from a seed: equal results, or an end whose cause was injected.

A failure names its seed and the fewest faults that make it; it is seen again by

    GANGLION_SEED=n python -m pytest tests/simulation/test_campaign.py -k one_seed

GANGLION_SEEDS says how many seeds the long campaign takes, GANGLION_FIRST_SEED where it begins:

    GANGLION_SEEDS=1000000 python -m pytest -m long tests/simulation/test_campaign.py
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from simulation.bus import Simulation
from simulation.campaign import Campaign, Failure, carry_out, case_of, shrunk
from simulation.cases import CASES, DICE, case, plan_of
from simulation.counting import SOMETIMES
from simulation.fault import KINDS, ROLES, Fault, drawn
from simulation.keeper import Keeper
from simulation.outcome import read_rows

from ganglion.wire.name import Role

PARTS, SEEDS = 3, 20
LONG_SEEDS = int(os.environ.get("GANGLION_SEEDS", "20000"))
FIRST_LONG_SEED = int(os.environ.get("GANGLION_FIRST_SEED", "100000"))
TOLD_S = 60.0
TELL_MUTANTS = (0, 1, 2, 7, 11, 12, 22, 31, 51, 55, 72, 136, 145, 175, 274, 482, 572)
FOUND = {
    # Words that name what was wrong -> the seed of the run, and the fewest faults that have shown it.
    "an order that was refused shifts the signals of a phase that begins again": (
        567,
        [Fault("halt", 223, Role.CONTROLLER, 19749, 17, 3.0), Fault("all", 381, Role.BRAIN, 40679, 3, 0.3)],
    ),
    "an order after the end is a row that a store may fail to write": (
        110500,
        [Fault("halt", 363, Role.STORE, 7667, 29, 1.0), Fault("commit", 403, Role.STORE, 42697, 15, 0.05)],
    ),
    "a broker that is lost while more join than may be started anew": (
        508,
        [Fault("broker", 87, Role.STORE, 29389, 23, 3.0)],
    ),
    "an answer that comes twice, to who has forgotten that he asked twice": (
        200123,
        [Fault("echo", 29, Role.GOVERNOR, 10684, 25, 3.0), Fault("mine", 335, Role.CONTROLLER, 22987, 3, 1.0)],
    ),
    "a store that could not be ended wakes up, writes first, and ends its successor": (
        312,
        [Fault("undead", 393, Role.STORE, 939, 7, 1.0), Fault("undead", 786, Role.STORE, 942, 7, 1.0)],
    ),
    "signals of workers that race come in another order in a phase that begins again": (
        100392,
        [Fault("all", 309, Role.CONTROLLER, 35499, 21, 0.05)],
    ),
    "an accusation crosses the news that who is late is lost, and its refusal is taken for the last word": (
        405777,
        [Fault("cut", 181, Role.BRAIN, 34824, 29, 0.3)],
    ),
    "who has lost his place on the bus for good writes on his journal how he ends": (
        406207,
        [Fault("undead", 114, Role.CONTROLLER, 48315, 9, 1.0), Fault("nap", 220, Role.BRAIN, 30879, 9, 3.0)],
    ),
    "a supervisor that resumes a run uses the serials of its predecessor, and a signal is taken for a repetition": (
        3109,
        [Fault("snare", 27, Role.ENVIRONMENT, 38416, 29, 20.0), Fault("unanswered", 114, Role.GOVERNOR, 54223, 2, 0.3)],
    ),
    "a broker that is lost twice while processes are asked to leave": (
        3096,
        [
            Fault("pause", 157, Role.BRAIN, 16126, 13, 20.0),
            Fault("broker", 175, Role.CONTROLLER, 58031, 15, 20.0),
            Fault("broker", 224, Role.GOVERNOR, 1863, 4, 3.0),
        ],
    ),
    "a worker says that it stands while it is told to go on": (
        700834,
        [Fault("doze", 303, Role.BRAIN, 18436, 8, 3.0), Fault("halt", 540, Role.MUSCLE, 40819, 24, 0.05)],
    ),
    "a store whose COMMIT broke keeps the lock of its database until it tries again": (
        713246,
        [Fault("commit", 129, Role.GOVERNOR, 58607, 4, 3.0), Fault("undead", 150, Role.STORE, 41402, 6, 3.0)],
    ),
    "a peer that has lost its connection in its first call is refused by its name until the call is late": (
        1007369,
        [Fault("cut", 49, Role.GOVERNOR, 3536, 26, 0.3)],
    ),
    "a journal whose first block was written in part is gone on with behind that part": (
        1008005,
        [Fault("haunt", 31, Role.STORE, 34991, 2, 20.0)],
    ),
    "a run that went back to an earlier phase goes on with the begin of a later one": (
        1010074,
        [
            Fault("checkpoint", 224, Role.BRAIN, 41458, 1, 3.0),
            Fault("all", 320, Role.BRAIN, 41458, 1, 3.0),
            Fault("all", 392, Role.STORE, 6975, 11, 0.05),
        ],
    ),
    "a governor that replays a compacted journal has promised an operator an answer at another time": (
        1011221,
        [
            Fault("kill", 80, Role.STORE, 51274, 30, 1.0),
            Fault("halt", 110, Role.MUSCLE, 17594, 27, 0.3),
            Fault("unanswered", 173, Role.STORE, 10749, 15, 3.0),
        ],
    ),
    # The next two were mistakes of the simulation itself.
    "a process hangs behind a question whether it is there, which its pulse has not read yet": (
        707952,
        [Fault("hang", 94, Role.MUSCLE, 56143, 13, 0.3), Fault("hang", 118, Role.CONTROLLER, 37296, 21, 20.0)],
    ),
    "a run goes on from a moment, and nobody takes back what an operator has brought about behind it": (
        709916,
        [
            Fault("checkpoint", 98, Role.GOVERNOR, 13634, 23, 0.05),
            Fault("last", 209, Role.GOVERNOR, 13634, 23, 0.05),
            Fault("order", 238, Role.GOVERNOR, 17587, 19, 20.0),
        ],
    ),
}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Return a folder for results, in memory where the system has one there: a disk would be slower than all else."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="ganglion-campaign-", dir=memory if os.access(memory, os.W_OK) else None))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, PARTS))])
def test_faults_change_nothing(folder: Path, part: int) -> None:
    """Whatever befalls a run: its rows are those of the undisturbed one, or it ends by an injected cause."""
    campaign = Campaign(folder)
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        campaign.go(seed)

    assert SEEDS == campaign.seeds
    for what in ("absent callee", "reconnect", "answer from memory", "replay of a environment"):
        assert campaign.counts[what], campaign.counts


def test_one_seed(folder: Path) -> None:
    """The run of the seed in GANGLION_SEED goes well: to see again what a campaign has found."""
    Campaign(folder).go(int(os.environ.get("GANGLION_SEED", "0")))


def test_cases_differ() -> None:
    """The runs of a campaign are many, and of all kinds: modes, workers, phases, evaluations, agents without brains."""
    plans = [plan_of(number) for number in range(CASES)]
    phases = [phase for plan in plans for phase in plan.phases]

    assert {"train", "test"} == {phase.mode for phase in phases}
    assert {1, 2, 3} == {phase.workers for phase in phases}
    assert {1, 2} == {len(plan.phases) for plan in plans}
    assert {"lockstep", "pipelined"} <= {phase.sync for phase in phases}
    assert any(phase.evaluates for phase in phases)
    assert {None, "simulation.chain:ChainBrain"} == {
        agent.brain.name if agent.brain else None for phase in phases for agent in phase.agents
    }


@pytest.mark.parametrize("name", [0, 5, 11])
def test_rows_depend_on_all_that_is_heard(folder: Path, name: int) -> None:
    """The rows of a case are equal for any schedule; those of a case with dice are not."""
    run = case(name, folder)
    for seed in range(3):
        assert not carry_out_undisturbed(run.name, seed, folder)
    assert carry_out_undisturbed(DICE, 1, folder)


def carry_out_undisturbed(name: str, seed: int, folder: Path) -> list[str]:
    """Return which tables of a run differ from those of the first one."""
    run = case(int(name) if name != DICE else DICE, folder)
    outcome = Simulation(run.plan, seed, folder, tables=read_rows).carry_out()
    return [table for table, rows in run.rows.items() if outcome.tables[table] != rows]


@pytest.mark.parametrize(("seed", "faults"), FOUND.values(), ids=FOUND)
def test_what_was_found_stays_mended(folder: Path, seed: int, faults: list[Fault]) -> None:
    """What campaigns have found goes well now."""
    assert not carry_out(seed, faults, folder).wrong


@pytest.mark.long
@pytest.mark.parametrize("seed", TELL_MUTANTS)
def test_a_seed_that_tells_mutants_goes_well(folder: Path, seed: int) -> None:
    """A run that misses a line of the design (`tests/mutants/simulation.toml`) goes well where none is missing."""
    Campaign(folder, shrinks=False).go(seed)


def test_a_failure_names_seed_and_fewest_faults(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a campaign says of a failure is enough to see it again, and holds no fault that does not matter."""
    case_of(0, folder)  # its undisturbed results, before anything is broken
    admission = Keeper._admission
    monkeypatch.setattr(Keeper, "_admission", lambda *given: replace(admission(*given), returns=False))
    with pytest.raises(Failure) as failure:
        Campaign(folder).go(0)
    words = str(failure.value)
    fewest = shrunk(0, drawn(0, case_of(0, folder).length), folder)

    assert words.startswith("seed 0, run ")
    assert all(str(fault) in words for fault in fewest)
    assert carry_out(0, fewest, folder).wrong
    for fault in fewest:
        assert not carry_out(0, [other for other in fewest if other is not fault], folder).wrong


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault_strikes(folder: Path, kind: str) -> None:
    """A fault of each kind, early in a run, is survived, or ends the run by its own name."""
    for pick, role in enumerate(ROLES[::3]):
        fault = Fault(kind, 60 + 20 * pick, role, pick, 5, 0.3)
        assert not carry_out(1, [fault], folder, nodes=2 * (kind == "relay")).wrong, str(fault)


@pytest.mark.long
def test_a_long_campaign(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same for many seeds; every kind of thing that may happen has happened."""
    campaign = Campaign(folder)
    begun_s = told_s = time.monotonic()
    for seed in range(FIRST_LONG_SEED, FIRST_LONG_SEED + LONG_SEEDS):
        campaign.go(seed)
        if time.monotonic() - told_s > TOLD_S:
            told_s = time.monotonic()
            tell(capsys, campaign, told_s - begun_s)
    tell(capsys, campaign, time.monotonic() - begun_s)
    with capsys.disabled():
        sys.stdout.writelines(f"{count:9d}  {what}\n" for what, count in campaign.counts.most_common())

    assert [] == [what for what in SOMETIMES if not campaign.counts[what]]


def tell(capsys: pytest.CaptureFixture[str], campaign: Campaign, took_s: float) -> None:
    """Say how far a campaign has come."""
    with capsys.disabled():
        sys.stdout.write(f"\n{campaign.seeds} seeds, {campaign.seeds / took_s:.1f} a second\n")
