from __future__ import annotations

from pathlib import Path

import pytest

from ganglion.cli.settings import Settings, options


def test_built_in_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without options and variables results lie in `results`."""
    for name in ("RESULTS", "STORE", "KERNEL"):
        monkeypatch.delenv(f"GANGLION_{name}", raising=False)

    settings = Settings()

    assert (Path("results"), None, None, 0, False, False) == (
        settings.results,
        settings.store,
        settings.kernel,
        settings.verbosity,
        settings.json,
        settings.plain,
    )


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables take the place of built-in values."""
    monkeypatch.setenv("GANGLION_RESULTS", "/r")
    monkeypatch.setenv("GANGLION_STORE", "sqlite:////s.db")
    monkeypatch.setenv("GANGLION_KERNEL", "/k.json")

    settings = Settings()

    assert (Path("/r"), "sqlite:////s.db", Path("/k.json")) == (
        settings.results,
        settings.store,
        settings.kernel,
    )


def test_options_are_new_ones_each_time() -> None:
    """Two commands share no option object."""
    first, second = options(hidden=True), options(hidden=True)

    assert [one.name for one in first] == [one.name for one in second]
    assert not any(one is other for one in first for other in second)
