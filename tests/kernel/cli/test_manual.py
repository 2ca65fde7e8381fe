from __future__ import annotations

import pytest

from ganglion.cli.plugins import manual
from ganglion.registry import Entry


def entry(value: str) -> Entry:
    """Return a plugin that lies there."""
    return Entry("p", "muscle", "d", "1", value)


@pytest.mark.parametrize(
    "value", ["no_such_module:Thing", "json:Thing", "json.no:Thing", "sys:Thing", "json.decoder.no:Thing"]
)
def test_where_there_is_no_source_there_is_no_manual(value: str) -> None:
    """A module or class that is not there, or is not written in Python, has none."""
    assert manual(entry(value)) is None
