"""Documents of experiments, and those of arsenAI."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from ganglion.cli.extension import DocumentError, Node, Source
from ganglion_sweep.experiment import CANDIDATES_MAX, RUNS_MAX, Experiment, bounded, read_experiment
from ganglion_sweep.point import check_points, points_of
from ganglion_sweep.schema import schema

Faults = Callable[..., list[str]]
Read = Callable[..., Experiment]

MAX = 'schedule.train.environments."net.1".params.max_iter'
LHS = "design: lhs\nsamples: 4\n"


def test_a_level_sets_several_things(read: Read, head: str) -> None:
    """Levels that are maps path -> value need no `set`; entries are named by phase, uid, agent or index."""
    text = f"""{head}
factors:
  size:
    levels:
      - {{'{MAX}': 3, schedule.0.agents.ada.sensors.0: net.1.1}}
      - {{'{MAX}': 9, schedule.train.agents.0.sensors.0: net.1.2, run_config.conditions.0.name: max_episodes}}
"""
    experiment = read(text)
    root, faults = experiment.assemble([experiment.factors[0].level(1.0)])

    assert [] == faults
    assert ["net.1.2"] == root.plain()["schedule"][0]["train"]["agents"][0]["sensors"]
    assert "max_episodes" == root.plain()["run_config"]["conditions"][0]["name"]


def test_the_run_document_may_be_a_file(read: Read, faults: Faults, grid: str, tmp_path: Path) -> None:
    """A path of a run document is relative to the experiment; its own paths are relative to itself."""
    folder = tmp_path / "runs"
    folder.mkdir()
    head, run = grid.split("run:\n")[0], grid.split("run:\n")[1].split("factors:")[0]
    (folder / "base.yml").write_text("\n".join(line[2:] for line in run.split("\n")))
    factors = "factors:" + grid.split("factors:")[1]

    assert str(folder) == read(f"{head}run: runs/base.yml\n{factors}").folder
    assert [f"5:6: there is no file {tmp_path}/nowhere.yml"] == faults(f"{head}run: nowhere.yml\n{factors}")
    (folder / "base.yml").write_text("a: [")
    assert ["1:5: not YAML"] == [fault[:13] for fault in faults(f"{head}run: runs/base.yml\n{factors}")]


@pytest.mark.parametrize("setting", ["nonsense", "a..b=1", "uid=[", "run.schedule.tran.x=1", "factors.lenght.set=a"])
def test_settings_that_lead_nowhere(faults: Faults, grid: str, setting: str) -> None:
    """A setting that cannot be put in is a fault of the option."""
    assert 1 == len(faults(grid, setting))


FAULTY = [
    (f"factors: {{a: {{set: {MAX.replace('train', 'trian')}, levels: [1]}}}}", ["12:20: schedule.trian"]),
    (
        "factors: {a: {set: schedule.train.agents.eve.name, levels: [1]}}",
        ["12:20: schedule.train.agents.eve.name: the"],
    ),
    ("factors: {a: {set: uid, levels: [1]}}", ["12:20: `uid` of a run is given by the experiment"]),
    ("factors: {a: {set: x, levels: [1, 2, 1]}}", ["12:38: the level of line 12 comes twice"]),
    ("factors: {a: {set: x}}", ["12:11: expected one of `levels`, `range`, `normal`, found none"]),
    ("factors: {a: {levels: [1]}}", ["12:24: expected a map path -> value, or `set`"]),
    ("factors: {a: {set: x, range: {low: 2, high: 1, points: 3}}}", ["12:45: expected more than `low`"]),
    ("factors: {a: {set: x, range: {low: 0, high: 1, log: true, points: 3}}}", ["12:36: expected a number > 0"]),
    ("factors: {a: {set: x, range: {low: 0.5, high: 1, int: true, points: 3}}}", ["12:36: expected a whole number"]),
    ("factors: {a: {set: x, range: {low: 0, high: 1}}}", ["12:30: missing key `points`"]),
    ("factors: {a: {set: x, normal: {mean: 0, std: 1}}}", ["12:23: a full design needs levels"]),
    ("factors: {a: {range: {low: 0, high: 1, points: 2}}}", ["12:14: missing key `set`"]),
    ("factors: {row: {set: x, levels: [1]}}", ["12:11: expected another name than run, row, repetition, seed"]),
    ("factors: {a: {set: x, levels: [1]}, b: {set: x, levels: [2]}}", ["12:37: the factor `a` sets x too"]),
    ("design: ccd", ["12:9: a sampled design needs factors, found none"]),
    (
        "design: lhss\nfactors: {a: {set: x, levels: [1]}}\nsamples: 2",
        ["12:9: there is no design `lhss`; did you mean `lhs`?"],
    ),
    ("design: lhs\nsamples: 2", ["12:9: a sampled design needs factors"]),
    ("design: lhs\nfactors: {a: {set: x, levels: [1]}}", ["12:1: missing key `samples`"]),
    ("samples: 2", ["12:1: `samples` is for sampled designs"]),
    ("repetitions: 2\nseeds: [1, 2]", ["13:1: `seeds` stands instead of `repetitions`"]),
    ("seeds: [1, 2, 1]", ["12:15: the seed 1 comes twice"]),
    ("repetitions: 5\nmax_runs: 4", ["13:1: `max_runs` is 4, and one point alone has 5 repetitions"]),
    (f"factors: {{a: {{set: x, levels: [1]}}}}\n{LHS}max_runs: 3", ["15:1: `max_runs` is 3, found 4 points times 1"]),
    ("rows: [{a: 1}]", ["12:1: `rows` is for the design `list`, not `full`"]),
    ("design: list", ["12:1: missing key `rows`"]),
    (
        "design: list\nrows: [{a: 1}, {b: 2}, {a: 1}]\nfactors: {a: {set: x}}",
        ["13:16: missing factor `a`", "13:17: there is no factor `b`"],
    ),
    ("design: list\nrows: [{a: 1}, {a: 1}]\nfactors: {a: {set: x}}", ["13:16: the point of line 13 comes twice"]),
    (
        "design: list\nrows: [{a: 3}]\nfactors: {a: {set: x, levels: [1, 2]}}",
        ["13:12: expected one of the levels of `a`"],
    ),
]


@pytest.mark.parametrize(("text", "expected"), FAULTY)
def test_faults(faults: Faults, head: str, text: str, expected: list[str]) -> None:
    """What cannot be meant is a fault at its place, and nothing that merely follows from it is one."""
    found = faults(f"{head}{text}\n")

    assert len(expected) == len(found), found
    assert all(fault.startswith(start) for fault, start in zip(found, expected, strict=True)), found


def test_all_faults_come_together(faults: Faults, head: str) -> None:
    """Faults of several factors, the design and the run document are told at once."""
    text = head.replace("episodes", "episods") + "factors: {a: {set: x, levels: []}}\nrepetitions: 0\n"

    assert ["10:37", "12:31", "13:14"] == [fault.rpartition(": ")[0].split(": ")[0] for fault in faults(text)]


def test_pairing_beside_seeds_is_warned_of(read: Read, head: str) -> None:
    """Given seeds are given: `pairing: false` changes nothing then, and that is said."""
    [warning] = read(f"{head}seeds: [3, 4]\npairing: false\n").warnings

    assert (13, "warning") == (warning.line, warning.severity)


def test_bounds() -> None:
    """A full design is thinned above `max_runs`; everything else above a bound is a fault."""
    mark = Node("x", Source("x", inline=True))

    assert [] == bounded(mark, "full", 100, 3, 30)
    assert [] == bounded(mark, "lhs", 10, 3, 30)
    assert 1 == len(bounded(mark, "lhs", 11, 3, 30))
    assert 1 == len(bounded(mark, "lhs", RUNS_MAX, 2, None))
    assert [] == bounded(mark, "full", RUNS_MAX * 2, 1, 10)
    assert 1 == len(bounded(mark, "full", CANDIDATES_MAX + 1, 1, 10))


def test_what_is_no_document(tmp_path: Path) -> None:
    """A file that is not there, no map, or a document of one run, is a fault with its name."""
    (tmp_path / "list.yml").write_text("[1]")
    (tmp_path / "run.yml").write_text("uid: u\nschedule: []\n")
    run = r"run\.yml:2:1: .*this is one run, no experiment"
    for name, said in (("none.yml", "cannot be read"), ("list.yml", "expected a map"), ("run.yml", run)):
        with pytest.raises(DocumentError, match=said):
            read_experiment(str(tmp_path / name))


def test_documents_pass_or_fail_as_by_the_reader(grid: str, head: str) -> None:
    """What the reader takes passes the schema; a misspelt key, a wrong type and a missing one do not."""
    validator = Draft202012Validator(schema({}))
    sampled = f"{head}factors: {{a: {{set: x, range: {{low: 1, high: 2}}}}}}\ndesign: {{name: lhs}}\nsamples: 3\n"

    def takes(text: str) -> bool:
        return bool(validator.is_valid(yaml.safe_load(text)))

    assert all(map(takes, (grid, sampled, grid.split("run:")[0] + "run: base.yml\n", f"{grid}design: lhs\nx-a: 1\n")))
    wrong = (f"{grid}repetition: 2\n", f"{grid}repetitions: 0\n", f"{grid}seeds: []\n", grid.replace("uid: grid\n", ""))
    assert not any(map(takes, (*wrong, grid.replace("levels", "level"), grid.replace("phase_config", "phase_confg"))))


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


UNMEANT = [
    ("[hill], [lake]", "[hil], [lake]", "there is no definition `hil` of environments; did you mean `hill`?"),
    ("phase=0, index=0", "phase=7, index=0", "expected an earlier phase in $req"),
    ("phase=0, index=0", "phase=0, number=0", "expected `phase` and `index` in $req, found 'number=0'"),
    ("simulation: [plain]", "simulations: [plain]", "unknown key; did you mean `simulation`?"),
    ("simulation: [plain]", "simulation: [[plain]]", "expected the name of one definition"),
    ("- other:", "- solo:", "duplicate phase `solo`"),
    ("max_runs: -1", "max_runs: 0", "expected an integer >= 1, or -1 for none"),
    ("{red_1: [one], red_2: [one]}", "{red_3: [one]}", "there is no definition `red_3` of agents; did you mean"),
]


@pytest.mark.parametrize(("old", "new", "expected"), UNMEANT)
def test_faults_of_arsenai(faults: Faults, old: str, new: str, expected: str) -> None:
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
