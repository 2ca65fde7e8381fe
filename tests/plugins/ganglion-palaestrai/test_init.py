from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import ganglion_palaestrai

MODULES = ("agent", "environment", "experiment", "simulation", "types")


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_a_module_is_in_the_package(module: str) -> None:
    """What a module exports can be imported from the package, and is the same object."""
    loaded = importlib.import_module(f"ganglion_palaestrai.{module}")

    assert sorted(loaded.__all__) == sorted(ganglion_palaestrai._EXPORTS[module])
    assert all(getattr(ganglion_palaestrai, name) is getattr(loaded, name) for name in loaded.__all__)
    assert set(loaded.__all__) <= set(dir(ganglion_palaestrai))


def test_a_name_that_there_is_not() -> None:
    """An unknown name is an attribute error, as of any module."""
    with pytest.raises(AttributeError, match="no attribute 'AgentConductor'"):
        ganglion_palaestrai.AgentConductor  # noqa: B018


def test_the_table_costs_nothing() -> None:
    """Reading the table of names imports neither numpy nor the contract."""
    script = "import sys; from ganglion_palaestrai.names import ALIASES; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert set() == {"numpy", "ganglion"} & {name.partition(".")[0] for name in done.stdout.split()}
