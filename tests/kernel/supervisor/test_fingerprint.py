from __future__ import annotations

from pathlib import Path

from ganglion.supervisor.folder import _processor


def test_the_processor_is_read_where_it_is_told(tmp_path: Path) -> None:
    """The model's name is found; where there is no such file, or no such line, it is empty."""
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nmodel name\t: Fast One @ 3 GHz\nflags: x\n")

    assert "Fast One @ 3 GHz" == _processor(path)
    path.write_text("processor: 0\n")
    assert ["", ""] == [_processor(path), _processor(tmp_path / "none")]
