from __future__ import annotations

from pathlib import Path

from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan
from ganglion.supervisor.check import FAULTS, PLAN, VARIABLE, main, read_faults, write_plan

DUMMY = PluginPlan("dummy")


def _plan(environment: PluginPlan) -> Plan:
    agent = AgentPlan("ada", DUMMY, DUMMY, DUMMY, ["grid.*"], ["grid.*"])
    phase = PhasePlan(0, "train", [EnvironmentPlan("grid", environment)], [agent], PluginPlan("vanilla"), [], [])
    return Plan("x", "x", "1", [phase], source="x.yml")


def test_faults_come_back_with_their_place(tmp_path: Path) -> None:
    """What only the class can tell is found, with the line of the document; the files go away."""
    write_plan(tmp_path, _plan(PluginPlan("no_such_thing", at="x.yml:3:5: $.environment.name")).to_map())
    assert 0 == main({VARIABLE: str(tmp_path)})
    faults = read_faults(tmp_path)

    assert faults is not None
    [fault] = faults
    assert ("x.yml", 3, 5) == (fault["file"], fault["line"], fault["column"])
    assert "no_such_thing" in fault["message"]
    assert [] == list(tmp_path.iterdir())


def test_silence_is_told_from_no_faults(tmp_path: Path) -> None:
    """A check that found nothing has answered; one that died has not."""
    write_plan(tmp_path, _plan(DUMMY).to_map())
    main({VARIABLE: str(tmp_path)})

    assert [] == read_faults(tmp_path)
    (tmp_path / PLAN).write_text("left")
    assert read_faults(tmp_path) is None
    assert not (tmp_path / FAULTS).exists()
