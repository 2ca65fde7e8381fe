from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.errors import StoreError
from ganglion.run.effect import cut_text, read_cut

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["run", "phase", "models", "rows"]), PLAIN))
def test_what_is_written_is_read(cut: dict[str, Any]) -> None:
    """A cut of plain values comes back as it was."""
    assert cut == read_cut(cut_text(cut), "here")


def test_every_damaged_byte_is_found() -> None:
    """Whatever byte of a value or a name is another, the file is named as damaged."""
    text = cut_text({"run": "farm-1", "phase": 3, "models": [[0, "ada", "/a"]]})
    for place, letter in enumerate(text):
        if letter.isalnum() or letter == "/":
            broken = text[:place] + chr(ord(letter) ^ 1) + text[place + 1 :]
            with pytest.raises(StoreError, match=r"cut x\.json: the file is damaged"):
                read_cut(broken, "x.json")


@pytest.mark.parametrize("text", ["", "[]", "3", "{}", '{"sha256": 1}', "[" * 100_000, cut_text({})[:-9]])
def test_what_is_no_cut_is_refused(text: str) -> None:
    """Text of any other kind is named as damaged, and nothing else is raised."""
    with pytest.raises(StoreError, match="the file is damaged"):
        read_cut(text, "x.json")
