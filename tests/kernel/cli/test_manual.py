from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ganglion import registry
from ganglion.cli.plugins import manual
from ganglion.registry import Entry


def entry(value: str) -> Entry:
    """Return a plugin that lies there."""
    return Entry("p", "muscle", "d", "1", value)


def test_shipped_plugins_say_what_they_take() -> None:
    """The class of every environment, muscle, brain, objective, condition and filter of ours has a manual."""
    groups = ("environment", "muscle", "brain", "objective", "condition", "filter", "controller")
    ours = [one for group in groups for one in registry.entries(group) if one.distribution.startswith("ganglion-")]

    assert len(ours) > 20
    assert [] == [one.value for one in ours if not manual(one)]


def test_nothing_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is read, also within packages, whose code does not run."""
    inner = tmp_path / "manual_of_mine" / "inner"
    inner.mkdir(parents=True)
    for place in (inner.parent, inner):
        (place / "__init__.py").write_text("raise RuntimeError('it was imported')\n")
    (inner / "thing.py").write_text('class Thing:\n    """Do it.\n\n    Params:\n        n: How often.\n    """\n')
    monkeypatch.syspath_prepend(str(tmp_path))

    assert "Do it.\n\nParams:\n    n: How often." == manual(entry("manual_of_mine.inner.thing:Thing"))
    assert "manual_of_mine" not in sys.modules


@pytest.mark.parametrize(
    "value", ["no_such_module:Thing", "json:Thing", "json.no:Thing", "sys:Thing", "json.decoder.no:Thing"]
)
def test_where_there_is_no_source_there_is_no_manual(value: str) -> None:
    """A module or class that is not there, or is not written in Python, has none."""
    assert manual(entry(value)) is None
