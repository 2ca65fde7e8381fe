from __future__ import annotations

from importlib.metadata import entry_points

from ganglion_toys.demo import DEMO


def test_is_found_by_its_name() -> None:
    """The registered document `demo` is a file of the package."""
    [point] = entry_points(group="ganglion.documents", name="demo")

    assert DEMO == point.load()
    assert DEMO.read_text(encoding="utf-8").splitlines()[4].startswith("uid: demo")
