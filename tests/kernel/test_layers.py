from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from importlinter import cli

ROOT = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


@pytest.mark.parametrize("contract", [contract["id"] for contract in CONTRACTS])
def test_contract_is_kept(contract: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every contract on imports in pyproject.toml is kept by the kernel."""
    monkeypatch.chdir(ROOT)

    status = cli.lint_imports(config_filename="pyproject.toml", limit_to_contracts=(contract,))

    assert cli.EXIT_STATUS_SUCCESS == status, capsys.readouterr().out


def test_every_room_has_its_place() -> None:
    """The layer contract is exhaustive and names exactly the rooms and modules that there are."""
    layers = next(contract for contract in CONTRACTS if contract["type"] == "layers")
    named = {name.strip() for layer in layers["layers"] for name in layer.split("|")}
    kernel = ROOT / "kernel" / "ganglion"
    there = {path.stem for path in kernel.glob("*.py")} - {"__init__"}
    there |= {path.parent.name for path in kernel.glob("*/__init__.py")}

    assert layers["exhaustive"] is True
    assert there == named
