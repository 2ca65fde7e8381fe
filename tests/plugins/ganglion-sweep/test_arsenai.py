from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.cli.extension import DocumentError
from ganglion_sweep.experiment import Experiment
from ganglion_sweep.point import check_points, points_of

Faults = Callable[..., list[str]]
Read = Callable[..., Experiment]

# Two agents learn alone, then together, in one of two environments, for a short or a long time.
EXPERIMENT = """%YAML 1.2
---
uid: Two Schools
seed: 42
version: "0.1"
output: somewhere
repetitions: 1
max_runs: -1
definitions:
  environments:
    hill:
      environment: {uid: h, name: dummy, params: {max_iter: 3}}
      reward: {name: "", params: {}}
    lake:
      environment: {uid: l, name: dummy, params: {max_iter: 5}}
  agents:
    red_1: &red {name: Red, brain: {name: dummy}, muscle: {name: dummy}, objective: {name: dummy}}
    red_2: {<<: *red, name: Crimson, load: {solo: {}, end: false}}
    blue_1: {<<: *red, name: Blue}
    blue_2: {<<: *red, name: Navy}
  sensors:
    low: {h: [0, 1], l: [0, l.1]}
    high: {h: [8, 9], l: [9]}
  actuators:
    one: {h: [0], l: [0]}
    two: {h: [1], l: [1]}
  simulation:
    plain: {name: vanilla, conditions: [{name: environment}]}
  phase_config:
    short: {mode: train, worker: 1, episodes: 1, evaluate_episodes: 2}
    long: {mode: train, worker: 1, episodes: 4}
    examine: {mode: test, worker: 1, episodes: 1}
  run_config: {condition: {name: vanilla}}
schedule:
  - solo:
      environments: [[hill], [lake]]
      agents: [[red_1], [red_2]]
      simulation: [plain]
      phase_config: [short, long]
      sensors: {red_1: [low], red_2: [low]}
      actuators: {red_1: [one], red_2: [one]}
  - other:
      environments: [["$req(phase=0, index=0"]]
      agents: [[blue_1], [blue_2]]
      sensors: {blue_1: [high], blue_2: [high]}
      actuators: {blue_1: [two], blue_2: [two]}
  - both:
      agents: [["$req(phase=solo, index=0)", "$req(phase=1, index=0)"]]
      sensors: {red_1: [low], red_2: [low], blue_1: [high], blue_2: [high]}
      actuators: {red_1: [one], red_2: [one], blue_1: [two], blue_2: [two]}
  - end:
      phase_config: [examine]
"""
FACTORS = ["solo.environments", "solo.agents", "solo.phase_config", "other.agents"]


def phases(experiment: Experiment, number: int) -> list[dict[str, Any]]:
    """Return the phases of a run."""
    return [phase for entry in points_of(experiment)[number].root.plain()["schedule"] for phase in entry.values()]


def test_two_levels_of_four_factors_are_sixteen_runs(read: Read) -> None:
    """An outer list with several levels is a factor; the full design has every combination, the last one fastest."""
    experiment = read(EXPERIMENT)
    points = points_of(experiment)

    assert FACTORS == [factor.name for factor in experiment.factors]
    assert 16 == len(points)
    assert [{"other.agents": "blue_1"}, {"other.agents": "blue_2"}] == [
        {"other.agents": point.factors["other.agents"]} for point in points[:2]
    ]
    assert ("hill", "lake") == (points[0].factors[FACTORS[0]], points[15].factors[FACTORS[0]])
    assert all(warning.severity == "warning" for warning in check_points(points))


def test_a_run_is_written_out(read: Read) -> None:
    """Each phase has its environments, agents with full ids, controller and configuration; requests are answered."""
    solo, other, both, end = phases(read(EXPERIMENT), 15)

    assert ["l"] * 4 == [phase["environments"][0]["environment"]["uid"] for phase in (solo, other, both, end)]
    assert [["Crimson"], ["Navy"], ["Crimson", "Navy"], ["Crimson", "Navy"]] == [
        [agent["name"] for agent in phase["agents"]] for phase in (solo, other, both, end)
    ]
    assert (["l.0", "l.1"], ["l.0"]) == (solo["agents"][0]["sensors"], solo["agents"][0]["actuators"])
    assert (["l.9"], ["l.1"]) == (both["agents"][1]["sensors"], both["agents"][1]["actuators"])
    assert [4, 4, 4, 1] == [phase["phase_config"]["episodes"] for phase in (solo, other, both, end)]
    assert ["vanilla"] * 4 == [phase["simulation"]["name"] for phase in (solo, other, both, end)]


def test_what_is_left_out_and_what_is_kept(read: Read) -> None:
    """A reward without a name is none, `load` by phase is that of the phase, other keys are carried."""
    solo, other, both, end = phases(read(EXPERIMENT), 4)

    assert "reward" not in solo["environments"][0]
    assert ("Crimson", {}) == (solo["agents"][0]["name"], solo["agents"][0]["load"])
    assert "load" not in both["agents"][0]
    assert end["agents"][0]["load"] is False
    assert 2 == solo["phase_config"]["evaluate_episodes"]
    assert "evaluate_episodes" not in end["phase_config"]
    assert "Blue" == other["agents"][0]["name"]


def test_a_forgotten_bracket_is_forgiven(read: Read) -> None:
    """A request without its closing bracket is read, with one warning at its place."""
    [warning] = read(EXPERIMENT).warnings

    line = EXPERIMENT[: EXPERIMENT.index('index=0"')].count("\n") + 1
    assert (line, "warning") == (warning.line, warning.severity)
    assert "bracket" in warning.message


def test_sets_of_ids_are_factors_too(read: Read) -> None:
    """Several sets of sensors of one agent are the factor `<phase>.sensors.<agent>`."""
    text = EXPERIMENT.replace(
        "sensors: {red_1: [low], red_2: [low]}\n", "sensors: {red_1: [low, high], red_2: [low]}\n", 1
    )
    experiment = read(text)

    assert "solo.sensors.red_1" in [factor.name for factor in experiment.factors]
    assert 32 == len(points_of(experiment))
    sensors = {tuple(phases(experiment, n)[0]["agents"][0]["sensors"]) for n in range(32)}
    assert {("h.0", "h.1"), ("h.8", "h.9"), ("l.0", "l.1"), ("l.9",)} == sensors


def test_max_runs_thins(read: Read) -> None:
    """Above `max_runs` the design is thinned; repetitions count; settings reach into the document."""
    experiment = read(EXPERIMENT, "max_runs=10", "repetitions=2", "definitions.phase_config.short.episodes=3")
    points = points_of(experiment)

    assert 10 == len(points)
    assert 5 == len({tuple(point.factors.values()) for point in points})
    assert {3, 4} == {phases(experiment, n)[0]["phase_config"]["episodes"] for n in range(10)}


FAULTY = [
    ("[hill], [lake]", "[hil], [lake]", "there is no definition `hil` of environments; did you mean `hill`?"),
    ("phase=0, index=0", "phase=7, index=0", "expected an earlier phase in $req"),
    ("phase=0, index=0", "phase=0, number=0", "expected `phase` and `index` in $req, found 'number=0'"),
    ("simulation: [plain]", "simulations: [plain]", "unknown key; did you mean `simulation`?"),
    ("simulation: [plain]", "simulation: [[plain]]", "expected the name of one definition"),
    ("- other:", "- solo:", "duplicate phase `solo`"),
    ("max_runs: -1", "max_runs: 0", "expected an integer >= 1, or -1 for none"),
    ("{red_1: [one], red_2: [one]}", "{red_3: [one]}", "there is no definition `red_3` of agents; did you mean"),
]


@pytest.mark.parametrize(("old", "new", "expected"), FAULTY)
def test_faults(faults: Faults, old: str, new: str, expected: str) -> None:
    """What names nothing is a fault at its place."""
    text = EXPERIMENT.replace(old, new, 1)
    line = EXPERIMENT[: EXPERIMENT.index(old)].count("\n") + 1

    [found] = [fault for fault in faults(text) if "bracket" not in fault]
    assert expected in found
    assert found.startswith(f"{line}:")


def test_an_entry_that_is_not_there(read: Read) -> None:
    """A request for an entry that the level has not is found when the level is chosen."""
    with pytest.raises(DocumentError, match="phase `solo` has 1 environments there, found the index 3"):
        points_of(read(EXPERIMENT.replace("index=0", "index=3", 1)))
