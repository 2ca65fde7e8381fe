from __future__ import annotations

import subprocess
import sys

import pytest

import ganglion.sdk


def test_every_public_name_is_there() -> None:
    """What `__all__` promises can be had, and is the object of its module."""
    assert sorted(ganglion.sdk.__all__) == dir(ganglion.sdk)
    for name in ganglion.sdk.__all__:
        assert getattr(ganglion.sdk, name) is not None


def test_unknown_names_are_refused() -> None:
    """A misspelt name fails as in any module."""
    with pytest.raises(AttributeError, match="Musle"):
        _ = ganglion.sdk.Musle  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "statement",
    [
        "import ganglion.sdk",
        "from ganglion.sdk import Signal, Mode, SimTime",
        "from ganglion.sdk import Controller, TerminationCondition, EpisodeView, PhaseView",
        "from ganglion.sdk import check_parameters, construct",
        "from ganglion.sdk import Observer, Store, StoreReader, StoreWriter",
    ],
)
def test_flow_needs_no_numpy(statement: str) -> None:
    """Processes that route, watch and decide import their part of the contract without numpy."""
    code = f"import sys; {statement}; sys.exit('numpy' in sys.modules)"

    assert subprocess.run([sys.executable, "-W", "error", "-c", code]).returncode == 0


def test_the_contract_needs_numpy_and_nothing_else() -> None:
    """With every module of the contract loaded, no third package but numpy is."""
    code = (
        "import sys, ganglion.sdk as sdk; before = set(sys.modules);"
        "[getattr(sdk, name) for name in sdk.__all__];"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "ours = {'ganglion', 'numpy'} | {name for name in tops if 'cython' in name};"  # numpy's own runtime
        "print(sorted(tops - set(sys.stdlib_module_names) - ours));"
        "sys.exit('asyncio' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)

    assert (0, "[]", "") == (found.returncode, found.stdout.strip(), found.stderr)
