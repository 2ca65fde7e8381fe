from __future__ import annotations

import json
from pathlib import Path

import pytest

from ganglion.cli.main import main


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
