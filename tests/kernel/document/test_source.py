from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ganglion.document.marks import Source

TEXTS = st.lists(st.sampled_from(["", "a", "b\r", "ä c"]), min_size=1, max_size=60).map("\n".join)


@given(TEXTS, st.lists(st.integers(0, 70), max_size=8))
def test_lines_are_those_of_the_text(text: str, numbers: list[int]) -> None:
    """Each line is that of the text without its end, in whatever order they are asked for."""
    source = Source("a.yml", text)
    lines = [line.rstrip("\r") for line in text.split("\n")]

    assert len(lines) == len(source.lines)
    assert [lines[n] if n < len(lines) else "" for n in numbers] == [source.line(n) for n in numbers]
