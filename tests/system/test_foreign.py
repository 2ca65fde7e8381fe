"""Programs of other languages in runs: equal results, attached, encrypted, and what is said when they fail."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from system.command import GANGLION, ganglion
from system.dealer import dealer
from system.languages import command_of, names, program_of
from system.results import Failed, Rows, fail, table, unnamed

from ganglion.supervisor.connection import find_connections, read_connection
from ganglion_conformance.recipes import Program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs are started and watched as on Linux")
WAIT_S = 60.0  # nothing here takes so long unless it is broken
DOCUMENT = """\
uid: swing
seed: 7
version: "0.1"
schedule:
  - act:
      environments:
        - environment: {uid: world, FORM}
      agents:
        - name: scout
          muscle: {name: random}
          objective: {name: aggregate_rewards}
          sensors: ["world.*"]
          actuators: ["world.*"]
      simulation:
        name: vanilla
        conditions: [{name: environment}]
      phase_config: {mode: test, worker: WORKERS, episodes: EPISODES}
run_config:
  condition: {name: vanilla}
recovery: {deadlines_s: {join: 20, update: 5}}
"""


@pytest.fixture(params=[*names(), *names("pipe")])
def program(request: pytest.FixtureRequest) -> Program:
    """Return the pendulum of each language whose tools are here."""
    return program_of(request.param, request.config)


# == real runs ========================================================================================================
def _document(folder: Path, form: str, workers: int = 1, episodes: int = 1) -> Path:
    path = folder / "swing.yml"
    text = DOCUMENT.replace("FORM", form).replace("WORKERS", str(workers)).replace("EPISODES", str(episodes))
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rows]:
    """Return folder and steps of a run with the Python plugin `pendulum`, two workers."""
    folder = tmp_path_factory.mktemp("reference")
    done = ganglion(folder, "-q", "run", str(_document(folder, "name: pendulum", 2, 1)), "--name", "reference")
    assert 0 == done.returncode, done.stderr
    return folder, unnamed(table(folder, "steps", "reference"))


def test_program_and_plugin_give_equal_results(program: Program, reference: tuple[Path, Rows], tmp_path: Path) -> None:
    """Two documents that differ in `name` and `command` only leave equal rows in every table."""
    folder, expected = reference
    name = "by-" + re.sub("[^a-z0-9]+", "-", program.argv[-1].lower()).strip("-")[-40:].strip("-")
    document = _document(tmp_path, command_of(program), 2, 1)
    done = ganglion(folder, "-q", "run", str(document), "--name", name)

    assert (0, "") == (done.returncode, done.stderr)
    assert 2 * 200 == len(expected)
    assert expected == unnamed(table(folder, "steps", name))
    assert 0 == ganglion(folder, "runs", "diff", "reference", name).returncode


def _attached(folder: Path, document: Path, program: Program, *options: str) -> tuple[int, str, int, str]:
    """Run a document that waits for `world`, and start a program by hand once it does; return how both ended.

    With `options` the run listens for other machines too, and the program gets the keys for that.
    """
    words = [GANGLION, "--results", str(folder / "results"), "--json", "run", str(document), "--name", "r"]
    words += options
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder) as command:
        assert command.stdout is not None
        waits = next((line for line in command.stdout if json.loads(line)["event"] == "waiting"), None)
        assert waits is not None, command.stderr.read()  # type: ignore[union-attr]
        found = [connection for _, connection in find_connections(folder / "results") if connection.run == "r"]
        place = {"GANGLION_ENDPOINT": found[0].tcp or "", "GANGLION_TOKEN": found[0].attach_token}
        if options:
            path = next(path for path, connection in find_connections(folder / "results") if connection.run == "r")
            remote = read_connection(path.with_name("remote.json"))
            keys = remote.keys("attach")
            assert keys is not None
            place = {**place, **keys.variables(), "GANGLION_ENDPOINT": remote.endpoint}
        variables = {**os.environ, **program.variables, **place, "GANGLION_NAME": "world"}
        with subprocess.Popen(program.argv, env=variables, stderr=subprocess.PIPE, text=True) as attached:
            _, said = command.communicate(timeout=4 * WAIT_S)
            _, words_left = attached.communicate(timeout=WAIT_S)
    return command.returncode, said, attached.returncode, words_left


@pytest.mark.long  # the default run has keys in test_languages.py, and who attaches below
@pytest.mark.parametrize("program", ["python", "c", "javascript"], indirect=True)
def test_attached_by_curve(program: Program, tmp_path: Path) -> None:
    """A client attaches with keys to an encrypted endpoint, as from another machine, and steps as it does here."""
    document = _document(tmp_path, "attach: true", 1, 1)
    ended, said, *left = _attached(tmp_path, document, program, "--bind", "tcp://127.0.0.1:0")

    assert (0, [0, ""]) == (ended, left), said
    assert 200 == len(table(tmp_path, "steps", "r"))


WORLD = dealer(
    "environment",
    'count = count + 1 if call == "environment.update" else 0',
    'answer = {"readings": [[count]], "rewards": [[count]] if count else [], "terminated": count == 5, "ticks": count}',
    'one = [{"id": "x", "space": {"type": "box", "shape": [], "dtype": "<f8", "low": 0, "high": 9}}]',
    'if call == "environment.start": answer = {**answer, "sensors": one, "actuators": one, "rewards": one}',
)


def test_twenty_lines_attach(tmp_path: Path) -> None:
    """Twenty lines with pyzmq are an environment: an integer is taken for a float, and skipped keys do no harm."""
    path = tmp_path / "dealer.py"
    path.write_text(WORLD)
    program = Program([sys.executable, str(path)])
    ended = _attached(tmp_path, _document(tmp_path, "attach: true", 1, 2), program)

    assert 20 == len(WORLD.splitlines())
    assert (0, "", 0, "") == ended
    rows = table(tmp_path, "steps", "r")
    assert [1, 2, 3, 4, 5] * 2 == [row["step"] for row in rows]
    assert [False, False, False, False, True] * 2 == [bool(row["terminated"]) for row in rows]


# == what is said when a program fails ================================================================================
def exits(code: str) -> str:
    """Return the form of a program of one line of Python."""
    return command_of(Program([sys.executable, "-c", code]))


FAILS = {  # uid -> what a document says, or what WORLD says otherwise; how the story begins, and what it has beside
    "broken": (exits("import sys; sys.exit('no port')"), " (worker 0) ended with exit status 1", "no port"),
    "silent": (exits("raise SystemExit(0)"), " (worker 0) ended with exit status 0", "its output: none"),
    "missing": ("command: [./nowhere]", " (worker ", "cannot start ./nowhere: No such file or directory"),
    "homeless": (
        "command: [./a], cwd: b",
        " (worker 0) could not be started: cannot start ./a: there is no folder ",
        "b",
    ),
    "outside": (
        ('"readings": [[count]]', '"readings": [[99 * count]]'),
        " (worker 0): ",
        "readings.x: expected a value of Box",
    ),
    "refusing": (
        ("[4, serial], answer", '[5, serial], {"kind": "author", "message": "too hot"}'),
        " (worker 0): ",
        "author: too hot",
    ),
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Failed:
    """Run all documents of this part by one command."""
    folder = tmp_path_factory.mktemp("failed")
    files = []
    for uid, (form, *_) in FAILS.items():
        if isinstance(form, tuple):
            assert form[0] in WORLD
            (folder / f"{uid}.py").write_text(WORLD.replace(*form))
            form = command_of(Program([sys.executable, str(folder / f"{uid}.py")]))
        text = _document(folder, form, 2 if uid == "missing" else 1).read_text()
        files.append(folder / f"{uid}.yml")
        files[-1].write_text(text.replace("uid: swing", f"uid: {uid}"))
    return fail(folder, files)


@pytest.mark.parametrize("uid", FAILS)
def test_a_program_that_fails_is_named(failed: Failed, uid: str) -> None:
    """Its run fails by its name, with status and last words, or what was wrong, without a word of our own machinery."""
    story, (_, begin, words) = failed.stories[uid], FAILS[uid]

    assert story[0].startswith(f"environment world{begin}")
    assert words in "\n".join(story)
    assert "Traceback" not in "\n".join(story)


# == several bodies ===================================================================================================
BODIES = """\
uid: flock
seed: 7
version: "0.1"
schedule:
  - act:
      environments:
        - {environment: {uid: world, FORM}, budget: {steps: 60}, episode_end: all, max_steps: 20}
      agents:
        - {name: scout, muscle: MUSCLE}
      bodies: {num: 3}
      simulation: {name: aeb}
      phase_config: {mode: test, worker: 2}
"""
PYTHON = Path(__file__).parents[2] / "plugins" / "foreign" / "python"


def _program(name: str) -> str:
    return f"command: {json.dumps([sys.executable, str(PYTHON / name)])}"


def test_a_program_acts_for_several_bodies(tmp_path: Path) -> None:
    """A muscle in another language acts for three bodies in each of two workers."""
    document = tmp_path / "flock.yml"
    document.write_text(BODIES.replace("FORM", "name: cartpole").replace("MUSCLE", f"{{{_program('actor.py')}}}"))
    done = ganglion(tmp_path, "-q", "run", str(document), "--name", "one")
    assert (0, "") == (done.returncode, done.stderr)
    rows = table(tmp_path, "actions", "one")

    assert {"0", "1", "2"} == {str(row["body"]) for row in rows}
    assert {0, 1} == {row["worker"] for row in rows}
    assert all(row["objective"] == sum(row["rewards"].values()) for row in rows)


@pytest.mark.parametrize("step", [7, *(pytest.param(step, marks=pytest.mark.long) for step in (1, 20))])
def test_a_lost_program_of_a_phase_with_bodies_is_led(tmp_path: Path, step: int) -> None:
    """An environment that dies in its second episode is started anew, led to where it stood, and nobody can tell."""
    source = (PYTHON / "pendulum.py").read_text()
    line = "        if verb == CALL and frames != asked:"
    assert 1 == source.count(line)
    first = "resets = 0\nhello = {"
    changed = source.replace("hello = {", first, 1).replace(
        line,
        '        resets += call == "environment.reset"\n'
        f'        if os.environ["GANGLION_INCARNATION"] == "1" and resets and pendulum.steps == {step}:\n'
        f"            os._exit(9)\n{line}",
    )
    document = tmp_path / "flock.yml"
    for name, text in (("whole", source), ("lost", changed)):
        (tmp_path / f"{name}.py").write_text(text)
        form = f"command: {json.dumps([sys.executable, str(tmp_path / f'{name}.py')])}"
        document.write_text(BODIES.replace("FORM", form).replace("MUSCLE", "random").replace("num: 3", "num: 1"))
        done = ganglion(tmp_path, "-q", "run", str(document), "--name", name)
        assert 0 == done.returncode, done.stdout + done.stderr

    assert {2} == {row["incarnation"] for row in table(tmp_path, "incidents", "lost") if row["kind"] == "restarted"}
    assert 2 * 60 == len(table(tmp_path, "steps", "lost"))
    assert 0 == ganglion(tmp_path, "runs", "diff", "whole", "lost").returncode


KNOWS_ONE = [
    ("name: cartpole", f"{{{_program('one.py')}}}", "agent scout has 3 bodies, its program knows of one"),
    ('command: ["cat"], speaks: lines', "random", "a program that speaks lines has one body, environment world 3"),
]


def test_a_program_that_knows_one_body_is_refused(tmp_path: Path) -> None:
    """Where the document gives it three, the run ends before the first step, and names environment or agent."""
    source = (PYTHON / "actor.py").read_text()
    (tmp_path / "one.py").write_text(
        source.replace('{"bodies": len(body["bodies"])} if body.get("bodies") else {}', "{}")
    )
    files = []
    for number, (form, muscle, _) in enumerate(KNOWS_ONE):
        muscle = muscle.replace(str(PYTHON / "one.py"), str(tmp_path / "one.py"))
        files.append(tmp_path / f"flock-{number}.yml")
        text = BODIES.replace("uid: flock", f"uid: flock-{number}")
        files[-1].write_text(text.replace("FORM", form).replace("MUSCLE", muscle))
    failed = fail(tmp_path, files)

    for number, (_, _, text) in enumerate(KNOWS_ONE):
        assert text in "\n".join(failed.stories[f"flock-{number}"])
        assert [] == table(tmp_path, "steps", f"flock-{number}-1")
