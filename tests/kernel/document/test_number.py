from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ganglion.document.marks import Source, compose
from ganglion.document.spelling import numbers
from ganglion.limits import INTEGER_MAX


def places(text: str) -> list[str]:
    """Return where numbers are refused."""
    root, faults = compose(Source("a.yml", text), text)
    assert root is not None
    assert [] == faults
    return [fault.place.removeprefix("a.yml:") for fault in numbers(root)]


@given(st.integers(-(2**70), 2**70))
def test_bound(value: int) -> None:
    """Integers are refused from the first on that a double may not hold."""
    assert (["1:5"] if abs(value) > INTEGER_MAX else []) == places(f"a: [{value}]")
