"""Every program of another language: it keeps every clause of the protocol's paper, and it computes our bits."""

from __future__ import annotations

import re
import shlex
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from system.command import GANGLION, ganglion, variables
from system.languages import RECIPES, names, program_of

from ganglion.sdk import ActuatorInformation, Box, ResetRequest
from ganglion.wire.envelope import decode_head
from ganglion_conformance.bench import Bench, Order
from ganglion_conformance.drivers import ProgramDriver
from ganglion_conformance.environment import World
from ganglion_conformance.kit import cases_of, judge
from ganglion_conformance.recipes import foreign_folder
from ganglion_conformance.vectors import read
from ganglion_toys.pendulum import SEED_SHIFT, Pendulum

SEEDS = (0, 7, 3936898253221180)
STEPS = 200
VECTORS = {  # c, s, w and the reward, big-endian; also those of the reference
    (0, 0): "bfd2f3c265315f45 bfee90932a3878b6 3fe05bd66ce0b7ac",
    (0, 1): "bfd47d686939d7d0 bfee50d146ffc71c bfe02a318c633c78 c0055bcde2632505",
    (0, 200): "bfd713e2922cbdaf 3fedd8e1f4f58629 3fec1f921534d54f c006653419bd905c",
    (3936898253221180, 0): "bfba95c67b0c3d36 bfefd3b5199145ef 3fdf94852dbf290c",
}
PROMISED = {"c", "cpp", "csharp", "fortran", "go", "java", "javascript", "lua", "octave", "perl", "php", "python"}
PROMISED |= {"r", "ruby", "rust"}
SUM = "c08a8b750b1cb799"  # of the rewards of seed 0, added one after the other


def _torque(i: int) -> float:
    return ((7 * i) % 11) * 0.5 - 2.5


def _bits(*values: float) -> str:
    return " ".join(struct.pack(">d", value + 0.0).hex() for value in values)  # -0 is 0


def _ours(seed: int, again: bool = False) -> Iterator[tuple[float, ...]]:
    """Yield readings, and rewards behind them, of the plugin `pendulum`, from the reset on."""
    plugin = Pendulum()
    plugin.seed = 0 if again else seed << SEED_SHIFT
    begun = plugin.start_environment()
    if again:
        begun = plugin.reset(ResetRequest(1, seed << SEED_SHIFT))
    yield tuple(float(sensor.value) for sensor in begun.sensors_available)
    wide = Box(-9.0, 9.0, ())
    for i in range(STEPS):
        state = plugin.update([ActuatorInformation(_torque(i), wide, "torque")])
        yield (*(float(s.value) for s in state.sensor_information), float(state.rewards[0].value))


def _theirs(world: World, begun: dict[str, Any]) -> Iterator[tuple[float, ...]]:
    yield tuple(begun["readings"][0])
    for i in range(STEPS):
        fields = world.update([_torque(i)]).fields
        yield (*fields["readings"][0], *fields["rewards"][0])
        assert (i == STEPS - 1, False, i + 1) == (
            fields.get("truncated", False),
            fields.get("terminated", False),
            fields.get("ticks", i + 1),
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_plugin_has_the_bits_of_the_reference(seed: int) -> None:
    """The Python pendulum agrees with the numbers that every other language is held to."""
    rows = list(_ours(seed))
    total = 0.0
    for row in rows[1:]:
        total += row[3]

    for (of, step), bits in VECTORS.items():
        assert of != seed or bits == _bits(*rows[step])
    assert seed != 0 or _bits(total) == SUM
    assert rows == list(_ours(seed, again=True))


@pytest.mark.parametrize("name", names(None, mark=pytest.mark.slow))
def test_program_keeps_every_clause(name: str, request: pytest.FixtureRequest) -> None:
    """A program is asked every clause by the kit, CURVE where its recipe says so."""
    program = program_of(name, request.config)
    kind = RECIPES[name].role
    role = "muscle" if kind in ("muscle", "actor") else "environment"
    steps = 500 if role == "muscle" else 2_000  # each decision is two round trips, one of them with a brain of ours
    more = {"brain": False} if kind == "actor" else {}
    order = Order(role=role, curve=RECIPES[name].curve, steps=steps, more=more)
    report = judge(ProgramDriver(program.argv, program.variables), order)
    lines = "\n".join(report.lines())

    assert report.conforms, lines
    skipped = {v.case.name for v in report.verdicts if v.state == "skip"}
    allowed = {"state.goes-on"} | (set() if RECIPES[name].curve else {"secure.right-key", "secure.wrong-key"})
    if role == "muscle":
        allowed.add("act.masks")  # the programs of this kind have a Box, which no mask is about
    if kind not in ("bodies", "actor"):
        allowed |= {case.name for case in cases_of(role, ["bodies"])}
    if kind == "actor":
        allowed |= {case.name for case in cases_of(role, ["brain"])}
    assert skipped <= allowed, lines


@pytest.mark.parametrize("name", names(mark=pytest.mark.slow))
def test_program_has_the_bits_of_the_plugin(name: str, request: pytest.FixtureRequest) -> None:
    """200 steps of three seeds are those of the Python pendulum to the last bit, after a start and after a reset."""
    program = program_of(name, request.config)
    with Bench(ProgramDriver(program.argv, program.variables), Order()) as bench:
        world = World(bench, bench.session())
        for seed in SEEDS:
            started = [_bits(*row) for row in _theirs(world, world.start(seed).fields)]
            again = [_bits(*row) for row in _theirs(world, world.reset(seed).fields)]

            assert [_bits(*row) for row in _ours(seed)] == started
            assert started == again


@pytest.mark.parametrize("name", names(mark=pytest.mark.slow))
def test_program_refuses_the_vectors(name: str, request: pytest.FixtureRequest) -> None:
    """What the vectors say that an environment must refuse is answered by ERROR, and disturbs no step."""
    program = program_of(name, request.config)
    with Bench(ProgramDriver(program.argv, program.variables), Order()) as bench:
        world = World.begun(bench)
        for i, row in enumerate(row for row in read("refused") if row["by"] == "environment"):
            _, head, body = (bytes.fromhex(frame) for frame in row["frames"])
            answer = world.session.ask(decode_head(head).call, body)

            assert answer.failed, row["name"]
            assert i + 1 == world.update().fields.get("ticks", i + 1), row["name"]


# == how long they are ===============================================================================================
LINES = {"pipe": 25, "both": 60}
BOTH = {"javascript", "perl", "php", "python", "ruby"}
"""Languages with libraries for ZeroMQ and MessagePack that build and read nested values."""
LONGER = {"c": 147, "cpp": 98, "csharp": 261, "erlang": 144, "fortran": 144, "go": 175, "java": 208, "lua": 104}
LONGER |= {
    "ocaml": 153,
    "octave": 231,
    "r": 193,
    "rust": 210,
    "c-muscle": 434,
    "javascript-bodies": 81,
    "python-actor": 60,
}
"""What others have beside, since their language lacks a library, or reads and builds values of one type at a time."""
COMMENTS = {".py": "#", ".rb": "#", ".pl": "#", ".R": "#", ".sh": "#", ".m": "%", ".lua": "--", ".f90": "!"}
COMMENTS |= {".escript": "%", ".ml": "(*"} | dict.fromkeys(
    (".php", ".js", ".c", ".cpp", ".go", ".rs", ".java", ".cs"), "//"
)


def _lines(path: Path) -> int:
    """Count the lines of code of a file: neither blank nor a comment alone; a docstring is a comment."""
    text = path.read_text(encoding="utf-8")
    block = r'^\s*(""".*?""")\s*$' if path.suffix == ".py" else r"^\s*/\*.*?\*/\s*$"
    if path.suffix in (".ml", ".py") or COMMENTS[path.suffix] == "//":
        block = r"^\s*\(\*.*?\*\)\s*$" if path.suffix == ".ml" else block
        text = re.sub(block, "", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line.strip() for line in text.splitlines()]
    return sum(bool(line) and not line.startswith(COMMENTS[path.suffix]) for line in lines)


@pytest.mark.parametrize("name", RECIPES)
def test_program_is_short(name: str) -> None:
    """A program has no more lines of code than the paper says, and the others no more than they have today."""
    recipe = RECIPES[name]
    most = LINES["both"] if name in BOTH else LINES.get(recipe.role) or LONGER[name]
    assert _lines(recipe.sources[0]) <= most


@pytest.mark.parametrize("name", ["counter.sh", "counter.ml", "counter.escript", "follow.js"])
def test_program_of_the_pipe_is_short(name: str) -> None:
    """Those of the tests keep the bound of the pipe, too."""
    assert _lines(Path(__file__).parents[1] / "documents" / name) <= LINES["pipe"]


# == as a beginning for others ========================================================================================


@pytest.mark.parametrize("name", [one for one in names(usual=()) if one.values != ("python",)])
def test_skeleton_keeps_every_clause(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What `ganglion new environment --lang` writes is built by its own script, and conforms as it stands."""
    program_of(name, request.config)  # skips with what is lacking; the skeleton is built anew
    made = ganglion(tmp_path, "new", "environment", "tank", "--lang", name)
    assert 0 == made.returncode, made.stderr
    folder = tmp_path / "tank"
    built = subprocess.run(["sh", "build.sh"], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert 0 == built.returncode, built.stdout + built.stderr
    (line,) = [row for row in (folder / "README.md").read_text().splitlines() if "ganglion env test -- " in row]
    words = shlex.split(line.partition(" env ")[2])
    asked = subprocess.run(
        [GANGLION, "env", *words], cwd=folder, env=variables(), capture_output=True, text=True, timeout=300, check=False
    )

    assert 0 == asked.returncode, asked.stdout + asked.stderr
    assert "conforms: " in asked.stdout
    assert 0 == ganglion(folder, "check", "run.yml").returncode


def test_every_language_that_is_promised_has_its_program() -> None:
    """Fifteen languages have a pendulum, each in a folder of its own, and the README has the reference's numbers."""
    programs = {recipe.sources[0].parent.name for recipe in RECIPES.values() if recipe.role == "environment"}
    readme = (foreign_folder() / "README.md").read_text()

    assert PROMISED <= programs
    assert [] == [bits for bits in (*VECTORS.values(), SUM) if bits not in readme]
