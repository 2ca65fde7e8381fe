from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ganglion.cli.settings import Settings
from ganglion.errors import UsageError
from ganglion.limits import processes_per_run

GANGLION = str(Path(sys.executable).with_name("ganglion"))
Config = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, empty, in which settings are loaded without anything of this machine."""
    for name in [name for name in os.environ if name.startswith("GANGLION_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "ganglion").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(place: Path, user: str = "", project: str = "") -> None:
    """Write the file of the user and that of the working folder."""
    (place / "home" / "ganglion" / "config.yml").write_text(user)
    (place / ".ganglion.yml").write_text(project)


def test_the_later_one_wins_key_by_key(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """User, working folder, variables: each changes what it names; each setting knows its place."""
    write(
        place,
        user="results: ~/all\nstore: sqlite:///a.db\nallow: [one, two]\nprocesses_per_run: 300\n",
        project="# ours\nstore: sqlite:///b.db\nallow: [three]\nprocesses_per_run: 400\n",
    )
    monkeypatch.setenv("GANGLION_COMMANDS", "deny")
    monkeypatch.setenv("GANGLION_JOURNAL_BEGIN_BYTES", "4096")
    monkeypatch.setenv("GANGLION_STORE", "sqlite:///c.db")
    settings = Settings.load()

    assert (Path("~/all").expanduser(), "sqlite:///c.db", ("three",), "deny") == (
        settings.results, settings.store, settings.allow, settings.commands,
    )  # fmt: skip
    assert (400, 4096) == (settings.processes_per_run, settings.journal_begin_bytes)
    assert f"{place / 'home' / 'ganglion' / 'config.yml'}:1" == settings.origins["results"]


@pytest.mark.parametrize(
    ("name", "wanted"), [("COMMANDS", "one of allow, deny"), ("PROCESSES_PER_RUN", "an integer from 1 to 1000")]
)
def test_a_faulty_variable_is_named(place: Path, monkeypatch: pytest.MonkeyPatch, name: str, wanted: str) -> None:
    """What a variable says is checked like a file."""
    monkeypatch.setenv(f"GANGLION_{name}", "never")
    with pytest.raises(UsageError, match=f"variable GANGLION_{name}: expected {wanted}, found 'never'"):
        Settings.load()


def test_what_others_take_from_variables_is_handed_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes hear of packages, programs and numbers."""
    names = ("ALLOW", "BLOCK", "COMMANDS", "PROCESSES_PER_RUN", "JOURNAL_BEGIN_BYTES")
    for name in names:
        monkeypatch.setenv(f"GANGLION_{name}", "")
    write(place, project="allow: [one, two]\nblock: [sarsa]\ncommands: deny\nprocesses_per_run: 300\n")
    Settings.load().export_variables()

    assert ["one,two", "sarsa", "deny", "300", ""] == [os.environ[f"GANGLION_{name}"] for name in names]
    assert 300 == processes_per_run()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Return what carries out `ganglion config` in a folder, as a user would."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GANGLION_")}

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        known = {**ours, "XDG_CONFIG_HOME": str(tmp_path / "home"), **variables}
        return subprocess.run(
            [GANGLION, "config", *words], cwd=tmp_path, env=known, capture_output=True, text=True, check=False
        )

    return run


def test_each_value_is_shown_with_its_origin(config: Config, tmp_path: Path) -> None:
    """Built in, file, variable, option: the last one that says it; passwords are nobody's business."""
    (tmp_path / ".ganglion.yml").write_text(
        "store: postgresql://me:secret@host/db\nresults: here\nprocesses_per_run: 300\n"
    )
    shown = config("--results", "there", GANGLION_COMMANDS="deny")

    assert (0, "") == (shown.returncode, shown.stderr)
    assert [
        ["results", "there", "option --results"],
        ["store", "postgresql://me:***@host/db", ".ganglion.yml:1"],
        ["kernel", "-", "built in"],
        ["bind", "-", "built in"],
        ["cpus", "auto", "built in"],
        ["launcher", "-", "built in"],
        ["launchers", "-", "built in"],
        ["allow", "-", "built in"],
        ["block", "-", "built in"],
        ["commands", "deny", "variable GANGLION_COMMANDS"],
        ["readers", "owner", "built in"],
        ["processes_per_run", "300", ".ganglion.yml:3"],
        ["journal_begin_bytes", str(8 << 20), "built in"],
    ] == [line.split(maxsplit=2) for line in shown.stdout.splitlines()]
    tree = json.loads(config("--json").stdout)
    assert {"value": 300, "origin": ".ganglion.yml:3"} == tree["processes_per_run"]


def test_a_faulty_file_ends_every_command(config: Config, tmp_path: Path) -> None:
    """Nothing is done by half of the settings: exit status 2 and the fault with its line."""
    (tmp_path / ".ganglion.yml").write_text("proceses_per_run: 300\n")
    refused = config()

    assert (2, "") == (refused.returncode, refused.stdout)
    assert ".ganglion.yml:1:1: proceses_per_run: unknown key; did you mean `processes_per_run`?" in refused.stderr
