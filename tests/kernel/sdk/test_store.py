from __future__ import annotations

import subprocess
import sys

import pytest

from ganglion.sdk.store import Store, StoreReader, StoreWriter


@pytest.mark.parametrize(
    ("contract", "methods"),
    [
        (Store, {"writer", "reader", "remove"}),
        (StoreWriter, {"apply", "commit", "discard", "close"}),
        (StoreReader, {"tables", "columns", "count", "rows", "resolve", "query", "close"}),
    ],
)
def test_what_a_store_must_have(contract: type, methods: set[str]) -> None:
    """An incomplete store cannot be made."""
    assert methods == contract.__abstractmethods__
    with pytest.raises(TypeError):
        contract()


def test_the_contract_is_light() -> None:
    """Neither the contract of stores nor that of observers needs numpy."""
    script = "import sys, ganglion.sdk.store, ganglion.sdk.observer; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "False\n" == done.stdout
