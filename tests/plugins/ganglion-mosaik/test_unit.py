"""Units of FMI 2 and 3 as environments; skipped where fmpy or a C compiler is missing (`scripts/setup --with fmi`)."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from system.command import ganglion
from system.results import table

from ganglion.sdk import ResetRequest
from ganglion_mosaik.unit import UnitEnvironment

fmpy = pytest.importorskip("fmpy", reason="fmpy is not installed: scripts/setup --with fmi")
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

BOX = "Box(low=-1000.0, high=1000.0, shape=())"
SOURCE = Path(__file__).with_name("leaky.c")
# name, reference, (type of FMI 2, of FMI 3), causality, start value
VARIABLES = (
    ("x", 0, ("Real", "Float64"), "output", ""),
    ("u", 1, ("Real", "Float64"), "input", "0.0"),
    ("k", 2, ("Real", "Float64"), "parameter", "0.25"),
    ("gear", 3, ("Integer", "Int32"), "input", "1"),
    ("on", 4, ("Boolean", "Boolean"), "input", "true"),
    ("limit", 5, ("Real", "Float64"), "parameter", "100.0"),
    ("seed", 6, ("Integer", "Int32"), "parameter", "0"),
)
Make = Callable[..., Any]


def described(version: int, kind: str = "CoSimulation") -> str:
    """Return the description of the unit in FMI 2 or 3."""
    rows = []
    for name, reference, types, causality, start in VARIABLES:
        given = f' start="{start}"' if start else ""
        how = "continuous" if types[0] == "Real" and causality != "parameter" else "discrete"
        how = f'causality="{causality}" variability="{"tunable" if causality == "parameter" else how}"'
        if version == 2:
            said = f'name="{name}" valueReference="{reference}" {how}'
            rows.append(f"<ScalarVariable {said}><{types[0]}{given}/></ScalarVariable>")
        else:
            rows.append(f'<{types[1]} name="{name}" valueReference="{reference}" {how}{given}/>')
    if version == 3:
        rows.append(
            '<Float64 name="both" valueReference="7" causality="output"><Dimension start="2"/></Float64>'
            '<Float64 name="time" valueReference="9" causality="independent" variability="continuous"/>'
            '<String name="label" valueReference="8" causality="local"/>'
        )
    token = "guid" if version == 2 else "instantiationToken"
    steps = ' canHandleVariableCommunicationStepSize="true"' if kind == "CoSimulation" else ""
    output = '<Outputs><Unknown index="1"/></Outputs>' if version == 2 else '<Output valueReference="0"/>'
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><fmiModelDescription fmiVersion="{version}.0" modelName="leaky" '
        f'{token}="leaky"><{kind} modelIdentifier="leaky"{steps}/>'
        f'<DefaultExperiment startTime="0" stopTime="2" stepSize="0.1"/>'
        f"<ModelVariables>{''.join(rows)}</ModelVariables><ModelStructure>{output}</ModelStructure></fmiModelDescription>"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with leaky2.fmu and leaky3.fmu, compiled here; what they do not need is a stub."""
    folder = tmp_path_factory.mktemp("units")
    text = SOURCE.read_text()
    for version, place in ((2, "linux64"), (3, "x86_64-linux")):
        headers = Path(fmpy.__file__).parent / "c-code" / f"fmi{version}Functions.h"
        names = re.findall(rf"fmi{version}\w+TYPE\s+(fmi{version}\w+);", headers.read_text())
        stubs = "".join(f"int {name}(void) {{ return 3; }}\n" for name in names if f"{name}(" not in text)
        (folder / "leaky.c").write_text(text + stubs)
        command = ["cc", "-O0", "-w", "-shared", "-fPIC", f"-DFMI{version}", "leaky.c", "-o", "leaky.so"]
        subprocess.run(command, cwd=folder, check=True, timeout=60)
        with zipfile.ZipFile(folder / f"leaky{version}.fmu", "w") as unit:
            unit.writestr("modelDescription.xml", described(version))
            unit.write(folder / "leaky.so", f"binaries/{place}/leaky.so")
    with zipfile.ZipFile(folder / "exchange.fmu", "w") as unit:
        unit.writestr("modelDescription.xml", described(2, "ModelExchange"))
    (folder / "no.fmu").write_text("no unit")
    return folder


@pytest.fixture
def tank(folder: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Yield a function that makes an environment of the unit, which is shut down behind the test."""
    monkeypatch.setenv("GANGLION_FOLDER", str(folder))
    usual = {
        "unit": "leaky2.fmu",
        "sensors": {"x": BOX},
        "actuators": {"u": BOX, "gear": "Discrete(4)", "on": "Discrete(2)"},
        "rewards": {"x": BOX},
        "start_values": {"k": 0.5},
    }
    made: list[Any] = []

    def one(**params: Any) -> Any:
        made.append(make(UnitEnvironment, **{**usual, **params}))
        return made[-1]

    yield one
    for environment in made:
        environment.shutdown()


def play(environment: Any, push: float = 3.0) -> list[float]:
    """Return the levels of an episode in which one push is set in each step, in the second gear."""
    baseline = environment.start_environment()
    found, state = [baseline.sensors_available[0].value], None
    for it in baseline.actuators_available:
        it.value = {"u": push, "gear": 2, "on": 1}[it.uid]
    while state is None or not (state.truncated or state.terminated):
        state = environment.update(baseline.actuators_available)
        found.append(state.sensor_information[0].value)
    return found


@pytest.mark.parametrize("version", [2, 3])
def test_a_unit_is_played_as_fmpy_simulates_it(tank: Make, folder: Path, version: int) -> None:
    """Each step is one of the unit's own with the values that are set: all levels equal those of `simulate_fmu`."""
    environment = tank(unit=f"leaky{version}.fmu")
    found = play(environment)

    names = [("time", float), ("u", float), ("gear", int), ("on", bool)]
    signals = np.array([(0.0, 3.0, 2, True), (2.0, 3.0, 2, True)], dtype=names)
    theirs = fmpy.simulate_fmu(
        str(folder / f"leaky{version}.fmu"), output_interval=0.1, start_values={"k": 0.5}, input=signals, output=["x"]
    )

    assert found == theirs["x"].tolist()
    assert len(found) == 21


@pytest.mark.parametrize("version", [2, 3])
def test_a_reset_begins_the_same_episode_again(tank: Make, version: int) -> None:
    """The level, the parameters of the document and the seed are those of the first episode; ticks count from 0."""
    environment = tank(unit=f"leaky{version}.fmu", seed_as="seed", sensors={"x": BOX, "seed": BOX}, step_size=1.0)
    first = play(environment)

    again = environment.reset(ResetRequest(1, 77))
    stepped = environment.update(again.actuators_available)

    assert [it.value for it in again.sensors_available] == [first[0], 77]
    assert again.simtime.simtime_ticks == 0
    assert (stepped.simtime.simtime_ticks, stepped.sensor_information[0].value) == (1, 0.25)


def test_arrays_are_one_reading(tank: Make) -> None:
    """A variable of FMI 3 with a dimension is a box of that shape."""
    box = "Box(low=-9.0, high=9.0, shape=(2,))"

    environment = tank(unit="leaky3.fmu", sensors={"both": box}, start_date="2030-01-01T00:00:00+00:00")
    environment.start_environment()
    state = environment.update([])

    assert state.sensor_information[0].value.tolist() == [0.475, 0.0]
    assert state.simtime.simtime_timestamp.isoformat() == "2030-01-01T00:00:00.100000+00:00"


@pytest.mark.parametrize("version", [2, 3])
def test_a_unit_ends_an_episode(tank: Make, version: int) -> None:
    """Where a unit asks to be ended the episode is terminated, before its time."""
    found = play(tank(unit=f"leaky{version}.fmu", start_values={"limit": 1.0}), push=-3.0)

    assert len(found) == 4
    assert found[-1] < -1.0


@pytest.mark.parametrize("version", [2, 3])
def test_a_step_that_a_unit_refuses_is_named(tank: Make, version: int) -> None:
    """The error says which step of which unit, and what the unit said."""
    with pytest.raises(RuntimeError, match=r"step of 0.1 s at 0.1 s is refused: .*(error).*the tank is full"):
        play(tank(unit=f"leaky{version}.fmu", start_values={"limit": 1.2}))


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"unit": "away.fmu"}, "unit away.fmu: there is no file"),
        ({"unit": "no.fmu"}, "unit no.fmu: expected an FMU"),
        ({"unit": "exchange.fmu"}, "expected a unit for co-simulation, found one for model exchange alone"),
        ({"sensors": {"y": BOX}}, "there is no variable 'y'; expected x, u, k, gear, on, limit, seed"),
        ({"actuators": {"v": BOX}}, "there is no variable 'v'; expected u, gear, on"),
        ({"actuators": {"x": BOX}}, "x is no input but output; expected u, gear, on"),
        ({"start_values": {"kk": 1}}, "there is no variable 'kk'"),
        ({"unit": "leaky3.fmu", "sensors": {"label": BOX}}, "label is a String"),
        ({"unit": "leaky3.fmu", "sensors": {"both": BOX}}, "both has 2 numbers, found"),
        ({"step_size": 0.0}, "expected a step_size > 0"),
        ({"stop_time": -1.0}, "a stop_time after 0, found 0.1 and -1"),
        ({"step_size": 3.0}, "expected a step_size within 2 s, found 3"),
        ({"start_values": {"k": "much"}}, "cannot be initialised: .*much"),
    ],
)
def test_what_is_wrong_is_named(tank: Make, params: dict[str, Any], said: str) -> None:
    """Files, kinds of units, variables, spaces, times and values that do not fit are told, with what would."""
    with pytest.raises((ValueError, OSError, RuntimeError), match=said):
        tank(**params).start_environment()


RUN = """\
uid: tank
seed: 3
version: "0.1"
schedule:
  - act:
      environments:
        - environment:
            uid: world
            name: fmi
            params:
              unit: leaky2.fmu
              sensors: {{x: "{box}"}}
              actuators: {{u: "Box(low=-1.0, high=1.0, shape=())"}}
      agents: [{{name: hand, muscle: random, sensors: [world.*], actuators: [world.*]}}]
      phase_config: {{mode: test, episodes: 2}}
run_config: {{condition: vanilla}}
"""


@pytest.mark.long
def test_a_run_steps_a_unit(folder: Path) -> None:
    """What agents of a run set is what the unit computes with, step by step, in each episode anew."""
    (folder / "run.yml").write_text(RUN.format(box=BOX))
    assert ganglion(folder, "run", "-q", "run.yml", span_s=300.0).returncode == 0
    rows = table(folder, "steps")

    assert [row["episode"] for row in rows] == [0] * 20 + [1] * 20
    for episode in (0, 1):
        pushes = [row["setpoints"]["world.u"] for row in rows if row["episode"] == episode]
        signals = np.array([(0.1 * i, push) for i, push in enumerate(pushes)], dtype=[("time", float), ("u", float)])
        level, levels = 0.5, []
        for push in signals["u"]:
            level += 0.1 * (push - 0.25 * level)
            levels.append(level)
        found = [row["sensors"]["world.x"] for row in rows if row["episode"] == episode]
        assert found == pytest.approx(levels, rel=1e-12)
