from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from ganglion.errors import AuthorError
from ganglion.peer import lines
from ganglion.peer.lines import Lines, LinesLoader
from ganglion.sdk import Environment, Muscle

Start = Callable[[str], Lines]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return what starts a program in Python; the handler of SIGTERM is put back afterwards."""
    before = signal.getsignal(signal.SIGTERM)
    yield lambda source: Lines([sys.executable, "-c", source])
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("NaN", "line 1 of its standard output: expected a JSON object, found b'NaN': NaN is no JSON"),
        ("[]", "line 1 of its standard output: expected a JSON object, found b'[]'"),
        ('{"error": "no water"}', "act: the program answered with the error 'no water'"),
        ("{", "line 1 of its standard output: expected a JSON object, found b'{': "),
    ],
)
def test_wrong_line_is_refused(start: Start, line: str, text: str) -> None:
    """What is no JSON object, and an error of the program, are told with line and text."""
    program = start(f"import sys\nfor _ in sys.stdin: print({line!r}, flush=True)")
    with pytest.raises(AuthorError) as caught:
        program.ask("act")
    program.end()

    assert str(caught.value).startswith(text)


def test_line_without_a_call_is_refused(start: Start) -> None:
    """Two lines for one call are refused with the next call."""
    program = start("import sys\nfor _ in sys.stdin: sys.stdout.write('{}\\n{\"a\": 1}\\n'); sys.stdout.flush()")
    assert {} == program.ask("act")
    with pytest.raises(AuthorError, match="line 2 of its standard output: expected no line before the call act"):
        program.ask("act")
    program.end()


def test_answer_has_a_deadline(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that never answers is told by name of the call."""
    monkeypatch.setattr(lines, "LINE_ANSWER_S", 0.0)
    program = start("import sys\nfor _ in sys.stdin: pass")
    with pytest.raises(AuthorError, match="act: expected one line within 0 s, found none"):
        program.ask("act")
    program.end()


def test_status_behind_the_end_is_told(start: Start) -> None:
    """A program that ends with a failure when its input ends is an error."""
    program = start("import sys\nsys.stdin.read()\nsys.exit(4)")
    with pytest.raises(AuthorError, match="expected exit status 0 after its standard input ended, found 4"):
        program.end()


def test_program_that_cannot_be_started_is_named() -> None:
    """A command that there is not is told with its name."""
    with pytest.raises(AuthorError, match=r"cannot start \./nowhere: No such file or directory"):
        Lines(["./nowhere"])


@pytest.mark.parametrize(("ending", "status"), [("sys.exit(5)", 5), ("os.abort()", -signal.SIGABRT), ("sys.exit()", 1)])
def test_process_ends_as_its_program(ending: str, status: int) -> None:
    """A program that ends too soon ends the process that speaks for it, with its status or by its signal."""
    child = f"import os, sys\nsys.stdin.readline()\n{ending}"
    source = f"import sys\nfrom ganglion.peer.lines import Lines\nLines([sys.executable, '-c', {child!r}]).ask('act')"
    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, timeout=60, check=False)

    assert status == ran.returncode


def test_loader_gives_the_class_of_the_role() -> None:
    """In place of environment and muscle there is the program; other classes are those that a document names."""
    loader = LinesLoader("", (), ["./tank"])

    assert issubclass(loader.load("environment", ""), Environment)
    assert issubclass(loader.load("muscle", ""), Muscle)
    assert "program ./tank" == loader.blame("muscle", "")
    assert "program" not in loader.blame("objective", "aggregate_rewards")
