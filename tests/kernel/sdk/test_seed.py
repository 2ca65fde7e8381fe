from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.sdk.seed import derive, generator_from_words, integer_from_words, key, stream, words

PATHS = st.lists(st.one_of(st.text(max_size=8), st.integers()), max_size=4)
SEEDS = st.integers(0, 2**200)


@given(SEEDS, PATHS)
def test_words_stand_for_the_stream(seed: int, path: list[str | int]) -> None:
    """A generator made of the words draws, bit for bit, what one made of the stream draws."""
    ours = generator_from_words(words(seed, path))
    numpys = np.random.default_rng(stream(seed, path))

    assert numpys.bit_generator.state == ours.bit_generator.state
    assert numpys.random(4).tolist() == ours.random(4).tolist()


@given(SEEDS, PATHS)
def test_the_integer_is_that_of_the_stream(seed: int, path: list[str | int]) -> None:
    """One integer is the first word without its lowest bit: in [0, 2**63)."""
    expected = int(stream(seed, path).generate_state(1, np.uint64)[0]) >> 1

    assert expected == integer_from_words(words(seed, path)) < 2**63


@given(PATHS, PATHS)
def test_other_paths_have_other_keys(a: list[str | int], b: list[str | int]) -> None:
    """Four words per component; a text and an integer that look alike are two components."""
    assert (a == b) is (key(a) == key(b))
    assert 4 * len(a) == len(key(a))
    assert key(["1"]) != key([1])


def test_a_generator_can_spawn() -> None:
    """Authors may spawn children as from any generator; equal words give equal children."""
    first, second = (generator_from_words(words(1, ())).spawn(2) for _ in range(2))

    assert [rng.random() for rng in first] == [rng.random() for rng in second]


@pytest.mark.parametrize("wrong", [b"", bytes(31), bytes(33)])
def test_words_have_32_bytes(wrong: bytes) -> None:
    """Anything else is refused and not stretched."""
    for function in (generator_from_words, integer_from_words, derive):
        with pytest.raises(ValueError, match="32 bytes"):
            function(wrong)


@pytest.mark.parametrize("component", [True, 1.0, None, b"a"])
def test_paths_consist_of_texts_and_integers(component: object) -> None:
    """Other components have no defined key."""
    with pytest.raises(TypeError):
        key([component])  # type: ignore[list-item]
