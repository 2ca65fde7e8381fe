from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from simulation import Disturbance, Outcome, calm, simulate
from simulation.outcome import plain, read_tables
from system.command import ganglion

LEARNERS = """\
uid: learners
seed: 7
version: "0.1"
schedule:
  - train:
      environments:
        - environment: {uid: field, name: cartpole, per_worker: [{longest: 9}, {longest: 6}]}
        - environment: {uid: hill, name: dummy, params: {max_iter: 20, discrete: false}}
      agents:
        - {name: ada, brain: {name: sarsa, params: {order: 1}}, muscle: sarsa, rewards: [field],
           sensors: [field.observation], actuators: [field.action]}
        - {name: bob, brain: dummy, muscle: dummy, objective: dummy, sensors: ["field.*", "hill.*"],
           actuators: [hill.3]}
      phase_config: {mode: train, worker: 3, episodes: 2, sync: SYNC, evaluate_every: 4}
  - test:
      simulation:
        name: taking_turns
        conditions: [{name: environment, params: {when: all}}, {name: max_steps, params: {steps: 9}}]
      phase_config: {mode: test, worker: 2, episodes: 2}
run_config: {condition: vanilla}
"""
PIPELINED, LEARNERS = LEARNERS.replace("SYNC", "pipelined"), LEARNERS.replace("SYNC", "lockstep")
TURNS = """\
uid: turns
seed: 3
version: "0.1"
schedule:
  - play:
      environments: [{environment: {uid: board, name: tic_tac_toe}}]
      agents:
        - {name: x, brain: log, muscle: tic_tac_toe, sensors: [board.legal], actuators: [board.x], rewards: [board.x]}
        - {name: o, brain: dummy, muscle: random, sensors: [board.legal], actuators: [board.o], rewards: [board.o]}
      simulation: {name: taking_turns}
      phase_config: {mode: train, worker: 3, episodes: 4}
run_config: {conditions: [max_episodes, {name: max_steps, params: {steps: 7}}]}
"""


def ended_well(outcome: Outcome) -> dict[str, Any]:
    """Return the tables of a run that finished as it should."""
    assert ("finished", 0, []) == (outcome.status, outcome.exit_status, outcome.defects)
    outcome.check()
    return outcome.tables


@pytest.mark.parametrize("others", [1, pytest.param(5, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "text", [LEARNERS, pytest.param(PIPELINED, marks=pytest.mark.long), TURNS], ids=["learners", "pipelined", "turns"]
)
def test_who_runs_first_changes_nothing(text: str, others: int, results: Path) -> None:
    """In lockstep the tables are a function of the document: whoever is faster, they are equal to the last bit."""
    first = ended_well(calm(text, 0, results))

    assert len(first["actions"]) > 20
    for seed in range(1, 1 + others):
        assert first == ended_well(simulate(text, seed, results)), f"schedule seed {seed}"


def test_slow_wires_change_nothing(results: Path) -> None:
    """Messages that take up to half a second, each wire by itself, give the tables of those that take no time."""
    first = ended_well(calm(TURNS, 0, results))
    slow = simulate(TURNS, 0, results, Disturbance(delay=lambda random, name: random.uniform(0.0, 0.5)))

    assert first == ended_well(slow)
    assert slow.virtual_s > 5.0


def test_one_seed_is_one_schedule(results: Path) -> None:
    """The same seed replays everything: each event, each message, the virtual time; another seed does not."""
    runs = [simulate(TURNS, seed, results) for seed in (11, 11, 12)]
    stories = [[line.replace(run.run, "RUN") for line in run.story] for run in runs]

    assert (runs[0].events, runs[0].virtual_s, stories[0]) == (runs[1].events, runs[1].virtual_s, stories[1])
    assert stories[0] != stories[2]


def test_real_processes_give_the_same_tables(results: Path, tmp_path: Path) -> None:
    """`ganglion run` with its processes, sockets and scheduler of the system writes what the simulation writes."""
    (tmp_path / "document.yml").write_text(LEARNERS)
    done = ganglion(tmp_path, "run", "document.yml", "--plain", "--name", "real")
    assert 0 == done.returncode, done.stderr
    simulated = ended_well(calm(LEARNERS, 0, results))

    real = read_tables(f"sqlite:///{tmp_path / 'results' / 'ganglion.db'}", "real")
    assert simulated.keys() == real.keys()
    for table, rows in simulated.items():
        assert real[table] == rows, table
    shown = json.loads(ganglion(tmp_path, "results", "actions", "real", "--format", "json").stdout)
    assert [plain(row, "real") for row in shown] == json.loads(json.dumps(simulated["actions"]))
    assert sum(map(len, simulated.values())) > 150
