from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.document.marks import Source, compose
from ganglion.document.spelling import numbers
from ganglion.limits import INTEGER_MAX

Said = Callable[..., list[str]]


def places(text: str) -> list[str]:
    """Return where numbers are refused."""
    root, faults = compose(Source.of("a.yml", text), text)
    assert root is not None
    assert [] == faults
    return [fault.place.removeprefix("a.yml:") for fault in numbers(root)]


@given(st.integers(-(2**70), 2**70))
def test_bound(value: int) -> None:
    """Integers are refused from the first on that a double may not hold."""
    assert (["1:5"] if abs(value) > INTEGER_MAX else []) == places(f"a: [{value}]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seed: 99999999999999999999", []),
        ("x-any: [99999999999999999999]", []),
        ('a: "99999999999999999999"', []),
        ("a: 1e30", []),
        ("a: true", []),
        ("a: {seed: 99999999999999999999}", ["1:11"]),
        ("a: 0xFFFFFFFFFFFFFFFF", ["1:4"]),
        ("a: &x 99999999999999999999\nb: *x", ["1:4", "1:4"]),
    ],
)
def test_what_is_counted(text: str, expected: list[str]) -> None:
    """The seed of the run, text, floats and what is ignored may be of any size; nothing else."""
    assert expected == places(text)


def test_loader_refuses(faults_of: Said) -> None:
    """A parameter that no program of another language could read is a fault of the document, at its place."""
    text = (
        'uid: u\nseed: 99999999999999999999\nversion: "0.1"\nrun_config: {condition: max_episodes}\nschedule:\n'
        "  - one:\n      environments: [{environment: {uid: hill, name: dummy, params: {a: 99999999999999999999}}}]\n"
        "      agents: [{name: ada, muscle: dummy, sensors: [hill.0]}]\n      phase_config: {episodes: 1}\n"
    )

    message = "expected an integer of at most 9007199254740991, found a larger one; text may have any digits"
    path = "schedule.one.environments.hill.environment.params.a"
    assert [f"7:73: {path}: {message}"] == faults_of(text)
