from __future__ import annotations

from ganglion.document.fault import Fault, gathered, nearest, report, settle, summary

LINE = "      worker: one"


def fault(line: int = 9, column: int = 15, severity: str = "error", message: str = "wrong", text: str = LINE) -> Fault:
    """Return a fault in farm.yml."""
    return Fault(severity, "farm.yml", line, column, "a.worker", message, text, 3)  # type: ignore[arg-type]


def test_error_is_printed_with_line_and_carets() -> None:
    """An error shows its place, path, message, the line as it stands, and carets below the value."""
    printed = str(fault())

    assert "farm.yml:9:15: a.worker: wrong\n      worker: one\n              ^^^" == printed


def test_warning_is_one_line() -> None:
    """A warning shows place and message on one line."""
    assert "farm.yml:9:15: warning: wrong" == str(fault(severity="warning"))


def test_option_has_no_line() -> None:
    """A fault of an option shows the option in place of file, line and column."""
    assert "--set a=1: a: wrong" == str(Fault("error", "--set a=1", 0, 0, "a", "wrong", "a=1"))


def test_control_characters_do_not_reach_the_terminal() -> None:
    """Characters that could steer a terminal are shown as replacement characters, in message and line."""
    printed = str(fault(message="found '\x1b[2J'", text="a: \x1b[31mred"))

    assert "\x1b" not in printed
    assert "a: �[31mred" in printed


def test_long_line_is_cut() -> None:
    """A line that would fill the screen is cut, and what lies beyond is named by its column only."""
    assert len(str(fault(text="x" * 1000)).splitlines()[1]) == 160
    assert 1 == len(str(fault(column=900, text="x" * 1000)).splitlines())


def test_settle_orders_and_removes_repeats() -> None:
    """Faults come in order of place, each once, options last."""
    option = Fault("error", "--set a=1", 0, 0, "", "wrong")

    assert [fault(2), fault(9), option] == settle([option, fault(9), fault(2), fault(9)])


def test_summary_counts() -> None:
    """The last line counts errors and warnings, with the right plural."""
    assert "2 errors, 1 warning" == summary([fault(), fault(2), fault(severity="warning")])
    assert "1 error" == summary([fault()])
    assert "no faults" == summary([])
    assert "1 error" == report([fault()]).splitlines()[-1]


def test_nearest() -> None:
    """A name that is like a known one comes with it, another one with nothing."""
    assert "; did you mean `environments`?" == nearest("environmets", ["agents", "environments"])
    assert "" == nearest("foo", ["agents", "environments"])


def test_json_has_stable_keys() -> None:
    """As JSON a fault has severity, file, line, column, path and message."""
    expected = {
        "severity": "error",
        "file": "farm.yml",
        "line": 9,
        "column": 15,
        "path": "a.worker",
        "message": "wrong",
    }

    assert expected == fault().to_map()


def test_notes_are_gathered_into_one() -> None:
    """Notes of a document are one text with a line for each, none is none; a note alone says that it is one."""
    notes = [Fault("note", "run.yml", line, 7, "x", f"`a{line}` is `b\x1b`") for line in (3, 5)]

    assert "run.yml:3:7: note: `a3` is `b�`" == str(notes[0])
    assert gathered(notes).splitlines() == [
        "run.yml: note: 2 names and keys of another project, read as ours:",
        "  run.yml:3:7: `a3` is `b�`",
        "  run.yml:5:7: `a5` is `b�`",
    ]
    assert "" == gathered([])
