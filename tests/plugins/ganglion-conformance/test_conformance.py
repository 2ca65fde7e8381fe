from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ganglion.cli.main import main

PENDULUM = Path(__file__).parents[3] / "plugins" / "foreign" / "python" / "pendulum.py"


def test_program_is_judged(capfd: pytest.CaptureFixture[str]) -> None:
    """A command behind `--` is started and judged; the report says what it is."""
    status = main(["env", "test", "--only", "repeat", "--only", "join.hello", "--", sys.executable, str(PENDULUM)])
    lines = capfd.readouterr().out.splitlines()

    assert 0 == status
    assert "pendulum.py · python · protocol 1" == lines[0]
    assert ["join 1/1  repeat 4/4", "conforms: 5 musts"] == lines[1:]


def test_failure_says_how_to_ask_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A clause that is not kept makes exit status 1, and its line can be typed in again."""
    program = tmp_path / "broken pendulum.py"
    program.write_text(PENDULUM.read_text().replace('"here"', '"there"'))
    status = main(["env", "test", "--only", "beat", "--", sys.executable, str(program)])
    said = capfd.readouterr().out

    assert 1 == status
    assert "FAIL beat.here: BEAT: expected [8, .., 'here'], found verb 8, call 'there'" in said
    assert f"again: ganglion env test --only beat.here -- {sys.executable} '{program}'" in said
    assert "does not conform: 1 of 1 must failed" in said


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
        (["--", "./nowhere"], "./nowhere: No such file"),
    ],
)
def test_what_cannot_be_asked_is_refused(words: list[str], text: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Two targets, none, parameters that are no map, an unknown case and a missing program are exit status 2."""
    assert 2 == main(["env", "test", *words])
    assert text in capfd.readouterr().err


def test_program_that_never_joins_is_told_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    """What ends without HELLO fails one case, with its last words, and is asked no other."""
    status = main(["env", "test", "--", sys.executable, "-c", "import sys; sys.exit('no port')"])
    said = capfd.readouterr().out

    assert 1 == status
    assert "heard nothing (exit status 1; its last words: no port)" in said
    assert "does not conform: 1 of 1 must failed" in said


@pytest.mark.parametrize(("group", "name"), [("env", "pendulum"), ("muscle", "random")])
def test_installed_ones_are_listed(group: str, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """`list` names the plugins that can be judged."""
    assert 0 == main(["--json", group, "list"])
    assert name in [row["name"] for row in json.loads(capfd.readouterr().out)]


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
