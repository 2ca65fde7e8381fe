from __future__ import annotations

import os
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ganglion.limits import LOG_LINE_BYTES
from ganglion.supervisor import output
from ganglion.supervisor.output import Output, printable


def _read(data: bytes, path: Path | None = None) -> Output:
    """Return an output that has read `data` to its end."""
    read, write = os.pipe()
    out = Output(read, path)
    for start in range(0, len(data), 4096):
        os.write(write, data[start : start + 4096])
        out.read()
    os.close(write)
    out.close()
    return out


def test_long_line_is_cut_and_counted() -> None:
    """A line beyond the limit is cut; what is cut is counted."""
    out = _read(b"x" * (3 * LOG_LINE_BYTES) + b"\nend\n")

    assert all(len(line) <= LOG_LINE_BYTES for line in out.lines)
    assert "end" == out.lines[-1]


def test_files_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full file is put aside; there are so many, each of whole lines, and the newest lines are kept."""
    monkeypatch.setattr(output, "LOG_FILE_BYTES", 100)
    (tmp_path / "target").write_text("mine")
    (tmp_path / "x.out.1").symlink_to(tmp_path / "target")
    _read(b"".join(b"line %05d\n" % i for i in range(50)), tmp_path / "x.out")
    files = [tmp_path / name for name in ("x.out.2", "x.out.1", "x.out")]

    assert {*files, tmp_path / "target"} == set(tmp_path.iterdir())
    assert all(path.stat().st_size <= 100 for path in files)
    assert [f"line {i:05}" for i in range(27, 50)] == [line for path in files for line in path.read_text().splitlines()]
    assert "mine" == (tmp_path / "target").read_text()


def test_output_has_a_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes faster is not kept, how much that was is said as soon as there is room; the last words are known."""
    monkeypatch.setattr(output, "OUTPUT_BYTES_PER_S", 100)
    now = [0.0]
    read, write = os.pipe()
    out = Output(read, tmp_path / "x.out", lambda: now[0])
    for _ in range(2):
        os.write(write, b"012345678\n" * 50 + b"last\n")
        out.read()
        assert "last" == out.lines[-1]
        now[0] += 10.0
    os.write(write, b"calm\n")
    os.close(write)
    out.close()
    lines = (tmp_path / "x.out").read_text().splitlines()

    assert [*["012345678"] * 10, "... 405 bytes were not kept"] * 2 + ["calm"] == lines
    assert 810 == out.dropped_bytes


def test_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    """A planted link does not lead the output into another file; the last lines are there all the same."""
    (tmp_path / "target").write_text("mine")
    (tmp_path / "x.out").symlink_to(tmp_path / "target")
    out = _read(b"theirs\n", tmp_path / "x.out")

    assert "mine" == (tmp_path / "target").read_text()
    assert ["theirs"] == list(out.lines)


@given(st.binary(max_size=300))
def test_any_bytes_can_be_shown(data: bytes) -> None:
    """Whatever a process prints, its lines hold printable characters and tabs only."""
    assert all(printable(line) == line for line in _read(data).lines)
