from __future__ import annotations

from pathlib import Path

from ganglion.supervisor.folder import _processor, differences, fingerprint


def test_an_installation_equals_itself() -> None:
    """Taken twice it is the same, and it names Python, processor, and packages with plugins."""
    one = fingerprint()

    assert [] == differences(one, fingerprint())
    assert {"ganglion", "python", "libc", "machine", "processor", "packages"} == set(one)
    assert {"numpy", "ganglion-toys"} <= set(one["packages"])


def test_each_difference_is_a_line() -> None:
    """What has another version, what is new and what is gone are named with then and now."""
    then = {"python": "3.11.2", "processor": "A", "packages": {"numpy": "2.0", "gone": "1"}}
    now = {"python": "3.12.0", "processor": "A", "packages": {"numpy": "2.1", "new": "3"}}

    assert [
        "python: 3.11.2 then, 3.12.0 now",
        "package numpy: 2.0 then, 2.1 now",
        "package gone: 1 then, none now",
        "package new: none then, 3 now",
    ] == differences(then, now)


def test_the_processor_is_read_where_it_is_told(tmp_path: Path) -> None:
    """The model's name is found; where there is no such file, or no such line, it is empty."""
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nmodel name\t: Fast One @ 3 GHz\nflags: x\n")

    assert "Fast One @ 3 GHz" == _processor(path)
    path.write_text("processor: 0\n")
    assert ["", ""] == [_processor(path), _processor(tmp_path / "none")]
