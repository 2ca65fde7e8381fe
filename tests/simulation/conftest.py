from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all simulated runs of a session share: making a store takes longer than most runs."""
    return tmp_path_factory.mktemp("simulation")


@pytest.fixture(autouse=True)
def _allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let documents name our classes by import path."""
    monkeypatch.setenv("GANGLION_ALLOW", "simulation")
