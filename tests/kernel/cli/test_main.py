from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ganglion.cli import main as module
from ganglion.cli.main import COMMANDS, main
from ganglion.cli.settings import Settings
from ganglion.errors import StoreError, UsageError

ROOT = Path(__file__).parents[3]


def test_help_lists_every_command_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    """The help names each command with one line, without importing the commands."""
    assert 0 == main(["--help"])

    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed and line in printed for name, (_, line) in COMMANDS.items())


def test_help_imports_click_only() -> None:
    """A process that prints the help has imported click and nothing heavy."""
    script = "import sys; from ganglion.cli.main import main; main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    tops = {name.partition(".")[0] for name in done.stdout.split("\n")[-2].split()}
    assert not {"yaml", "pydantic", "rich", "numpy", "zmq", "msgpack", "structlog", "uvloop", "asyncio"} & tops


def test_misspelt_commands_and_options_are_answered(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt command or option is exit 2 and comes with the nearest right one."""
    assert (2, 2) == (main(["chekc"]), main(["check", "--stric", "x"]))

    printed = capsys.readouterr().err
    assert "there is no command `chekc`; did you mean `check`?" in printed
    assert "--strict" in printed


@pytest.mark.parametrize("error", [UsageError("no"), StoreError("no")])
def test_errors_become_exit_statuses(
    error: UsageError | StoreError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is raised on purpose ends with its own exit status and one line, with -v with its traceback."""

    @click.command()
    def command() -> None:
        raise error

    monkeypatch.setattr(module, "_object", lambda path: command)

    assert error.exit_status == main(["run"])
    assert "ganglion: no\n" == capsys.readouterr().err
    assert error.exit_status == main(["-v", "run"])
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_interruption_is_130(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted command ends with 130."""

    @click.command()
    def command() -> None:
        raise error

    monkeypatch.setattr(module, "_object", lambda path: command)

    assert 130 == main(["run"])


def test_options_before_and_after_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options of every command are taken on both sides of its name, also of a command within a command."""
    seen: list[Settings] = []

    @click.group(invoke_without_command=True)
    @click.pass_obj
    def command(settings: Settings) -> None:
        seen.append(settings)

    @command.command("inner")
    @click.option("--json", "own", is_flag=True)
    def inner(own: bool) -> None:
        assert own

    monkeypatch.setattr(module, "_object", lambda path: command)

    assert 0 == main(["--results", "a", "-v", "run", "-v", "--json", "--store", "x:y"])
    assert 0 == main(["-q", "run", "--plain", "--kernel", "f"])
    assert 0 == main(["run", "inner", "--json", "--results", "b"])
    first, second, third = seen
    assert (Path("a"), 2, True, "x:y", False) == (first.results, first.verbosity, first.json, first.store, first.plain)
    assert (-1, True, Path("f"), None) == (second.verbosity, second.plain, second.kernel, second.store)
    assert (Path("b"), False) == (third.results, third.json)


def test_reader_that_leaves_is_no_traceback() -> None:
    """A pipe that is closed early ends the command quietly, with a status of its own kind."""
    script = "import sys; from ganglion.cli.main import main; sys.exit(main(['schema']))"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()

    assert (1, b"") == (process.wait(), said)


@pytest.mark.parametrize("words", [["config"], ["plugins"], ["--help"], ["graph", "DOCUMENT"]])
def test_a_screen_that_knows_ascii_only_gets_all(words: list[str], tmp_path: Path) -> None:
    """What its encoding lacks is shown by its number; no command ends with a traceback."""
    (tmp_path / "wo\u0308rld.yml").write_text((ROOT / "tests" / "documents" / "dummy.yml").read_text())
    given = ["wo\u0308rld.yml" if word == "DOCUMENT" else word for word in words]
    more = {**os.environ, "PYTHONIOENCODING": "ascii", "GANGLION_RESULTS": "r\u00e9sultats"}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ganglion")), *given], cwd=tmp_path, env=more, capture_output=True
    )

    assert b"Traceback" not in done.stderr
    assert done.returncode == 0


def test_json_on_a_screen_that_knows_ascii_only_is_json(tmp_path: Path) -> None:
    """What its encoding lacks is escaped as JSON has it: a program reads the same text."""
    database = tmp_path / "ganglion.db"
    make = f"from ganglion.cli.stores import *; store_class('sqlite://').writer('sqlite:///{database}', 'x').close()"
    subprocess.run([sys.executable, "-c", make], check=True)
    query = ["results", "--results", str(tmp_path), "--sql", "SELECT 'r\u00e9sultat \U0001f600' AS word", "--json"]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ganglion")), *query],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
    )

    assert done.stdout.isascii()
    assert [{"word": "r\u00e9sultat \U0001f600"}] == json.loads(done.stdout), done.stderr
