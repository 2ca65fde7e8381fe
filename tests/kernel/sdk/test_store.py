from __future__ import annotations

import subprocess
import sys

import pytest

from ganglion.sdk.store import Store, StoreReader, StoreWriter


class _Closed:
    """Stand in for the abstract parts of both contracts; count how often it is closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("contract", [StoreWriter, StoreReader])
def test_a_context_closes(contract: type) -> None:
    """A writer or reader used as a context manager is closed at its end, also after an error."""
    names = contract.__abstractmethods__ - {"close"}
    opened = type("Opened", (_Closed, contract), dict.fromkeys(names))()
    with pytest.raises(KeyError), opened:
        raise KeyError

    assert 1 == opened.closed
    assert opened is opened.__enter__()


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
