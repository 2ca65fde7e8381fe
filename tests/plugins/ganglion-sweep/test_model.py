from __future__ import annotations

from ganglion_sweep.model import ExperimentForm, OldForm


def test_missing_keys(faults: object) -> None:
    """An experiment without a uid, a seed and a run says so, all at once."""
    assert callable(faults)
    assert [f"1:1: missing key `{key}`" for key in ("run", "seed", "uid")] == sorted(faults("x-a: 1\n"))


def test_every_key_is_described() -> None:
    """Each key of both forms says what it is: editors show it."""
    for form in (ExperimentForm, OldForm):
        assert [] == [name for name, field in form.model_fields.items() if not field.description]
