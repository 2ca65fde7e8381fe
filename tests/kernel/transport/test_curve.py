from __future__ import annotations

import pytest

from ganglion.errors import UsageError
from ganglion.transport.curve import ClientKeys, new_pair


@pytest.mark.parametrize("name", ["GANGLION_PUBLIC_KEY", "GANGLION_SECRET_KEY"])
def test_a_missing_key_is_named(name: str) -> None:
    """A server's key without a pair of one's own is a fault that names the variable."""
    variables = ClientKeys(new_pair().public, *(lambda p: (p.public, p.secret))(new_pair())).variables()
    del variables[name]
    with pytest.raises(UsageError, match=name):
        ClientKeys.of(variables)
