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
