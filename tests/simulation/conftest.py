from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
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


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Return what writes a module beside documents, which may name its classes; the run is in their folder."""
    written: list[str] = []

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text)
        written.append(name)
        monkeypatch.setenv("GANGLION_ALLOW", ",".join(written))

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield write
    for name in written:
        sys.modules.pop(name, None)
