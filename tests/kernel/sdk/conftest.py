from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from ganglion.sdk import Box, Dict, Discrete, Mask, MultiBinary, MultiDiscrete, Ragged, Space, Tuple

# Registered by type, so that test modules, which cannot import each other, write `st.from_type(Box)`.

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SHAPES = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
INT64 = np.iinfo(np.int64)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    """Draw boxes of all dtypes, shapes and kinds of bounds: closed, open, shared by all elements or not."""
    dtype = np.dtype(draw(st.sampled_from(FLOATS + INTEGERS)))
    shape = draw(SHAPES)
    if dtype.kind == "f":
        elements: Any = st.floats(width=8 * dtype.itemsize, allow_nan=False)
    else:
        limits = np.iinfo(dtype)
        elements = st.integers(int(limits.min), int(limits.max))
    whole = draw(st.booleans())
    first, second = (
        np.asarray(draw(elements) if whole else draw(npst.arrays(dtype, shape, elements=elements)), dtype)
        for _ in range(2)
    )
    low, high = np.minimum(first, second), np.maximum(first, second)
    if dtype.kind == "f":
        low, high = np.where(low == np.inf, 0, low), np.where(high == -np.inf, 0, high)
        low, high = np.minimum(low, high), np.maximum(low, high)
    return Box(low.astype(dtype), high.astype(dtype), shape, dtype)


@st.composite
def discretes(draw: st.DrawFn) -> Discrete:
    """Draw ranges of integers, to both ends of 64 bits."""
    start = draw(st.integers(INT64.min, INT64.max))
    return Discrete(draw(st.integers(1, min(INT64.max, INT64.max - start + 1))), start)


@st.composite
def multi_discretes(draw: st.DrawFn) -> MultiDiscrete:
    """Draw arrays of ranges with a start of their own or a common one."""
    shape = draw(npst.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3))
    counts = draw(npst.arrays(np.int64, shape, elements=st.integers(1, 2**40)))
    starts = st.integers(-(2**60), 2**60)
    return MultiDiscrete(counts, draw(st.one_of(starts, npst.arrays(np.int64, shape, elements=starts))))


multi_binaries = st.one_of(st.integers(0, 5), npst.array_shapes(min_dims=0, max_dims=3)).map(MultiBinary)
masks = st.builds(Mask, st.integers(1, 5), st.text(max_size=6))
raggeds = boxes().filter(lambda box: box.shape != ()).map(Ragged)
leaves = st.one_of(boxes(), discretes(), multi_discretes(), multi_binaries, masks, raggeds)
spaces = st.recursive(
    leaves,
    lambda parts: st.one_of(
        st.lists(parts, max_size=3).map(Tuple), st.dictionaries(st.text(max_size=6), parts, max_size=3).map(Dict)
    ),
    max_leaves=5,
)

st.register_type_strategy(Box, boxes())
st.register_type_strategy(Discrete, discretes())
st.register_type_strategy(MultiDiscrete, multi_discretes())
st.register_type_strategy(MultiBinary, multi_binaries)
st.register_type_strategy(Mask, masks)
st.register_type_strategy(Ragged, raggeds)
st.register_type_strategy(Space, spaces)
