from __future__ import annotations

import pytest

from ganglion.errors import AuthorError
from ganglion.sdk.information import Statistics


def test_a_key_given_twice_raises_unless_allowed() -> None:
    """A second value is refused and the first stays; with `allow_overwrite` it replaces it."""
    statistics = Statistics()
    statistics.add_statistics("loss", 1)
    with pytest.raises(AuthorError, match="'loss'"):
        statistics.add_statistics("loss", 2)
    statistics.add_statistics("other", 3)
    statistics.add_statistics("other", 4, allow_overwrite=True)

    assert {"loss": 1.0, "other": 4.0} == statistics.pop_statistics()


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (3, 1.0, "statistics: expected a text as key, found 3"),
        ("loss", "high", "statistics 'loss': expected a number, found 'high'"),
        ("loss", None, "statistics 'loss': expected a number, found None"),
        ("loss", [1, 2], r"statistics 'loss': expected a number, found \[1, 2\]"),
    ],
)
def test_what_cannot_be_noted_is_refused(key: object, value: object, text: str) -> None:
    """Keys are texts and values numbers; what is neither is named, and nothing is noted."""
    statistics = Statistics()
    with pytest.raises(AuthorError, match=text):
        statistics.add_statistics(key, value)  # type: ignore[arg-type]

    assert {} == statistics.pop_statistics()
