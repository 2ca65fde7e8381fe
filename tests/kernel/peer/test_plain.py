from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgpack
import numpy as np
import pytest

from ganglion.limits import WORLD_STATE_VALUES
from ganglion.peer.values import plain


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(1.5), 1.5),
        (np.bool_(True), True),
        (np.array(3), 3),
        (np.array([[1, 2], [3, 4]], dtype=np.uint8), [[1, 2], [3, 4]]),
        ((1, (2, 3)), [1, [2, 3]]),
        (MappingProxyType({"a": np.array([True])}), {"a": [True]}),
        (datetime(2030, 1, 2, tzinfo=UTC), "2030-01-02T00:00:00+00:00"),
        (np.str_("a"), "a"),
    ],
)
def test_arrays_and_times_become_plain(value: Any, expected: Any) -> None:
    """Arrays and their numbers become lists and numbers, tuples lists, times text; all can be sent."""
    assert expected == plain(value)
    assert expected == msgpack.unpackb(msgpack.packb(plain(value)))


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (object(), TypeError, "found object"),
        ({"a": {3: 4}}, TypeError, "text as keys of a map, found int"),
        ([b"x"], TypeError, "found bytes"),
        (2**53, ValueError, "expected integers of at most 9007199254740991"),
        (np.zeros(WORLD_STATE_VALUES), ValueError, "limit world_state_values"),
        ("x" * 8 * WORLD_STATE_VALUES, ValueError, "limit world_state_values"),
        ({"x" * 8 * WORLD_STATE_VALUES: 1}, ValueError, "limit world_state_values"),
        (np.array([1j]), TypeError, "found complex"),
    ],
)
def test_what_cannot_be_sent_is_refused(value: Any, error: type[Exception], text: str) -> None:
    """Objects, keys that are no text, large integers, and more than a message holds are refused in words."""
    with pytest.raises(error, match=text):
        plain(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, {"b": object()}]}, r"^state\.a\[1\]\.b: expected numbers"),
        ({"a": {"b": {3: 4}}}, r"^state\.a\.b: expected text as keys"),
        ([2**60], r"^state\[0\]: expected integers"),
        ([0] * (WORLD_STATE_VALUES + 1), "^state: expected at most"),
    ],
)
def test_the_path_is_named(value: Any, text: str) -> None:
    """A message begins with where the first part lies that cannot be sent."""
    with pytest.raises((TypeError, ValueError), match=text):
        plain(value, "state")


def test_depth_is_bounded() -> None:
    """A value that holds itself ends in a refusal, not in a recursion."""
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(ValueError, match="levels"):
        plain(endless)
