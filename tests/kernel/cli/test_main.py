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

GANGLION = str(Path(sys.executable).with_name("ganglion"))
ASCII = {**os.environ, "PYTHONIOENCODING": "ascii"}


def test_help_lists_every_command_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    """The help names each command with one line, without importing the commands."""
    assert 0 == main(["--help"])

    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed and line in printed for name, (_, line) in COMMANDS.items())


def test_options_are_described_in_one_style() -> None:
    """Each option of each command, those of plugins too, has a help that begins in lower case and has no full stop."""
    odd, found = [], [([""], module.ganglion, click.Context(module.ganglion))]
    for path, command, context in found:
        options = [it for it in command.params if isinstance(it, click.Option) and it.name not in ("help", "version")]
        helps = [(it.opts[0], it.help or "") for it in options if not it.hidden]
        odd += [
            (path, option, text) for option, text in helps if text != text.rstrip(".") or text[:2].istitle() or not text
        ]
        if isinstance(command, click.Group):
            inner = {name: command.get_command(context, name) for name in command.list_commands(context)}
            found += [
                ([*path, name], one, click.Context(one, context)) for name, one in inner.items() if one is not None
            ]

    assert [] == odd


@pytest.mark.parametrize(
    ("error", "status"),
    [(UsageError("no"), 2), (StoreError("no"), 1), (KeyboardInterrupt(), 130), (click.Abort(), 130)],
)
def test_errors_become_exit_statuses(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is raised on purpose ends with its own exit status and one line, with -v with its traceback."""

    @click.command()
    def command() -> None:
        raise error

    monkeypatch.setattr(module, "_object", lambda path: command)

    assert status == main(["run"])
    assert ("" if status == 130 else "ganglion: no") == capsys.readouterr().err.strip()
    assert status == main(["-v", "run"])
    assert (status != 130) == ("Traceback" in capsys.readouterr().err)


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


def test_a_screen_that_knows_ascii_only_gets_all(tmp_path: Path) -> None:
    """What its encoding lacks is escaped as JSON has it: a program reads the same text, and no command fails."""
    database = tmp_path / "ganglion.db"
    make = f"from ganglion.cli.stores import *; store_class('sqlite://').writer('sqlite:///{database}', 'x').close()"
    subprocess.run([sys.executable, "-c", make], check=True)
    query = ["results", "--results", str(tmp_path), "--sql", "SELECT 'r\u00e9sultat \U0001f600' AS word", "--json"]
    done = subprocess.run([GANGLION, *query], env=ASCII, capture_output=True)

    assert done.stdout.isascii()
    assert [{"word": "r\u00e9sultat \U0001f600"}] == json.loads(done.stdout), done.stderr

    done = subprocess.run(
        [GANGLION, "config"], env={**ASCII, "GANGLION_RESULTS": "r\u00e9sultats"}, capture_output=True
    )
    assert (0, b"") == (done.returncode, done.stderr)
