from __future__ import annotations

import pytest

from ganglion_sweep.model import ExperimentForm, OldForm

FAULTY = [
    ("factor: {}", "12:1: unknown key; did you mean `factors`?"),
    ("repetitions: 0", "12:14: expected an integer >= 1, found the number 0"),
    ("seeds: [1, -1]", "12:8: expected a list of integers >= 0, not empty, found a list"),
    ("pairing: yes", "12:10: expected true or false, found the text 'yes'"),
    ("max_runs: -1", "12:11: expected an integer >= 1 or null, found the number -1"),
    ("samples: many", "12:10: expected an integer >= 1, found the text 'many'"),
    ("design: {nam: lhs}", "12:10: unknown key; did you mean `name`?"),
    ("factors: {a: {sets: x, levels: [1]}}", "12:15: unknown key; did you mean `set`?"),
    ("factors: {a: {set: x, levels: []}}", "12:31: expected a list of values, not empty, found a list"),
    ("factors: {a: {set: x, range: {low: 1}}}", "12:30: missing key `high`"),
    ("factors: {a: {set: x, range: {low: 1, high: .inf}}}", "12:45: expected a finite number, found the number inf"),
    ("factors: {a: {set: x, normal: {mean: 1, std: 0}}}", "12:46: expected a number > 0, found the number 0"),
    ("factors: {a: {set: [], levels: [1]}}", "12:20: expected a path or a list of paths, found a list"),
]


@pytest.mark.parametrize(("line", "expected"), FAULTY)
def test_form(faults: object, head: str, line: str, expected: str) -> None:
    """What has not the form of an experiment is a fault at its line and column."""
    assert callable(faults)
    assert [expected] == faults(f"{head}{line}\n")


def test_missing_keys(faults: object) -> None:
    """An experiment without a uid, a seed and a run says so, all at once."""
    assert callable(faults)
    assert [f"1:1: missing key `{key}`" for key in ("run", "seed", "uid")] == sorted(faults("x-a: 1\n"))


def test_every_key_is_described() -> None:
    """Each key of both forms says what it is: editors show it."""
    for form in (ExperimentForm, OldForm):
        assert [] == [name for name, field in form.model_fields.items() if not field.description]
