"""The kit, its command, and new plugins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganglion.cli.main import main
from ganglion.errors import UsageError
from ganglion_conformance.bench import Order
from ganglion_conformance.case import Case, Report, Verdict
from ganglion_conformance.drivers import PluginDriver
from ganglion_conformance.kit import cases_of, judge

CASES = [case.name for case in cases_of("environment")]
OF_MUSCLES = [case.name for case in cases_of("muscle") if "environment" not in case.roles]
BROKEN = [*(("environment", name) for name in CASES), *(("muscle", name) for name in OF_MUSCLES)]
SKIPPED_BY = {  # who answers no ERROR cannot be asked of which kind it is, who cannot have bodies how they step
    "errors.unknown-call": ["errors.kind"],
    "bodies.declares": ["bodies.steps", "bodies.same-seed", "bodies.reset", "bodies.groups", "bodies.each"],
    "bodies.sets-up": ["bodies.decides", "bodies.completes"],
}
Maker = Callable[[str], Any]


@pytest.mark.parametrize(("role", "case"), BROKEN)
def test_broken_clause_fails_its_own_case_and_no_other(role: str, case: str, puppet: Maker, order: Order) -> None:
    """A peer that breaks exactly one clause fails exactly the case of that clause."""
    report = judge(puppet(case), replace(order, role=role))

    assert [case] == [v.case.name for v in report.verdicts if v.state == "fail"], report.lines()
    skipped = [v.case.name for v in report.verdicts if v.state == "skip"]
    assert case in ("join.declares", "join.sets-up") or skipped == SKIPPED_BY.get(case, [])
    assert report.conforms is not next(v.case.must for v in report.verdicts if v.case.name == case)


def test_only_names_cases_and_groups() -> None:
    """`only` takes names of cases and of groups, and refuses what is neither with the list of all."""
    assert ["repeat.reset"] == [case.name for case in cases_of("environment", ["repeat.reset"])]
    assert {"repeat", "beat"} == {case.group for case in cases_of("environment", ["beat", "repeat"])}
    with pytest.raises(UsageError, match=r"there is no case 'repeat\.dance' of environments: expected one of beat"):
        cases_of("environment", ["repeat.dance"])


def test_our_own_muscle_conforms() -> None:
    """The random muscle keeps every clause that a plugin can be asked."""
    report = judge(PluginDriver("random"), Order(role="muscle", plugin="random", steps=50, curve=False))
    skipped = {v.case.name for v in report.verdicts if v.state == "skip"}

    assert report.conforms, "\n".join(report.lines())
    assert {"brain.joins", "brain.thinks", "large.reading", "leave.sigterm"} <= skipped


def _case(name: str, must: bool = True) -> Case:
    return Case(name, "Errors", "It is so.", lambda bench: None, ("environment",), must)


def test_report_says_what_is_wrong_and_how_to_ask_again() -> None:
    """Each failure has its clause, its section and the command that asks it again; a should does not fail the peer."""
    verdicts = [
        Verdict(_case("join.one"), "ok"),
        Verdict(_case("join.two"), "fail", "expected 1, found 2"),
        Verdict(_case("join.three", must=False), "fail", "expected 3"),
        Verdict(_case("step.four"), "skip", "no float"),
    ]
    report = Report("a · c", verdicts, "ganglion env test --only {case} -- ./a", (10.4, 99.6, 7))

    assert [
        "a · c",
        "join 1/3",
        "FAIL join.two: expected 1, found 2",
        "     must be: It is so.",
        "     PROTOCOL.md, Errors · again: ganglion env test --only join.two -- ./a",
        "WARN join.three: expected 3",
        "     should be: It is so.",
        "     PROTOCOL.md, Errors · again: ganglion env test --only join.three -- ./a",
        "skip step.four: no float",
        "speed: median 10 us, p99 100 us over 7 round trips",
        "does not conform: 1 of 2 musts failed",
    ] == report.lines()
    assert (1, False) == (report.exit_status, report.conforms)
    assert ["ok", "fail", "fail", "skip"] == [row["state"] for row in report.to_map()["cases"]]


def test_plugin_is_judged_with_parameters(capfd: pytest.CaptureFixture[str]) -> None:
    """A name is a plugin, made with `--params`; `--json` prints the report as one map."""
    status = main(["--json", "env", "test", "dummy", "--params", '{"noise": 3}', "--only", "join.declares"])
    report = json.loads(capfd.readouterr().out)

    assert (1, False) == (status, report["conforms"])
    assert "noise" in report["cases"][0]["text"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "expected one of NAME, -- COMMAND..., --attach UID"),
        (["dummy", "--", "ls"], "expected one of NAME, -- COMMAND..., --attach UID"),
        (["dummy", "--params", "[]"], "--params: expected a map in JSON, found '[]'"),
        (["dummy", "--params", "{"], "--params: expected a map in JSON: "),
        (["dummy", "--only", "dance"], "there is no case 'dance' of environments"),
        (["dumy"], "there is no environment `dumy`; did you mean `dummy`?"),
        (["nowhere:World"], "there is no module 'nowhere' beside"),
        (["--", "./nowhere"], "./nowhere: No such file"),
    ],
)
def test_what_cannot_be_asked_is_refused(words: list[str], text: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Two targets, none, parameters that are no map, unknown names, and a missing program are exit status 2."""
    assert 2 == main(["env", "test", *words])
    assert text in capfd.readouterr().err


def test_languages_are_looked_for_by_their_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What a language needs and this machine lacks is named by its command, and fails nothing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "gcc").write_text("#!/bin/sh\n")
    (tmp_path / "gcc").chmod(0o755)
    status = main(["env", "languages"])
    lines = {line.split()[0]: line.split(None, 1)[1] for line in capfd.readouterr().out.splitlines()}

    assert 0 == status
    assert "JavaScript: no node" == lines["javascript"]
    assert "no gcc" not in lines["c"]


BIN = Path(sys.executable).parent
New = Callable[..., tuple[int, str, str]]


@pytest.fixture
def new(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> New:
    """Return what carries out `ganglion new` in an empty folder: exit status, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        status = main(["new", *words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["planet", "tank"], "expected one of environment, muscle, brain, objective, plugin, found 'planet'"),
        (["muscel", "tank"], "did you mean `muscle`?"),
        (["muscle", "My Tank"], "expected small letters, digits and single hyphens, as in `my-tank`"),
        (["muscle", "../tank"], "expected small letters, digits and single hyphens, as in `my-tank`"),
        (["muscle", "json"], "there is a Python package `json` already"),
        (["muscle", "class"], "there is a Python package `class` already"),
        (["plugin", "tests"], "`tests` is the folder of the distribution's tests"),
        (["brain", "dummy"], "there is a brain `dummy` of ganglion-toys"),
        (["environment", "tank", "--lang", "cobol"], "--lang: expected one of"),
        (["brain", "tank", "--lang", "c"], "there are skeletons of environments only, found 'brain'"),
    ],
)
def test_a_wrong_wish_writes_nothing(new: New, tmp_path: Path, words: list[str], sentence: str) -> None:
    """A kind, name or language that cannot be is refused with what can be, and the folder stays empty."""
    status, _, said = new(*words)

    assert 2 == status
    assert sentence in said
    assert [] == list(tmp_path.iterdir())


def test_what_is_there_is_not_overwritten(new: New, tmp_path: Path) -> None:
    """A folder that holds something stays as it is; an empty one is taken."""
    (tmp_path / "tank").mkdir()
    assert 0 == new("muscle", "tank")[0]
    (tmp_path / "tank/tank/muscle.py").write_text("mine")
    status, _, said = new("muscle", "tank")

    assert 2 == status
    assert "tank is there already; nothing was written" in said
    assert "mine" == (tmp_path / "tank/tank/muscle.py").read_text()


def test_what_comes_next_can_be_pasted(new: New) -> None:
    """Folders with blanks and brackets are quoted for the shell."""
    _, said, _ = new("muscle", "tank", "--into", "odd folder (1)")

    assert "next: pip install -e 'odd folder (1)' · ganglion run 'odd folder (1)/run.yml' · odd" in said


@pytest.mark.long
def test_installed_it_is_there_by_its_name(new: New, tmp_path: Path) -> None:
    """What pip has installed is listed, runs by its name, learns, and passes the tests that came with it."""
    new("plugin", "my-tank")
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-build-isolation", "--target", "there"]
    subprocess.run([*pip, "./my-tank"], cwd=tmp_path, check=True, timeout=60)
    variables = {**os.environ, "PYTHONPATH": str(tmp_path / "there")}

    def call(*words: str) -> str:
        done = subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=100)
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    ganglion = str(BIN / "ganglion")
    listed = json.loads(call(ganglion, "--json", "plugins", "my-tank"))
    checked = call(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "my-tank/tests")
    changed = "--set", "schedule.train.phase_config.episodes=4"
    call(ganglion, "run", "-q", "my-tank/run.yml", *changed)
    rows = call(ganglion, "results", "episodes", "last", "--columns", "mode,steps").splitlines()

    assert ["environment", "muscle", "brain", "objective"] == [row["group"] for row in listed]
    assert "5 passed" in checked
    assert 7 == len(rows)
