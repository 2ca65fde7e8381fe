from __future__ import annotations

import pytest

from ganglion.errors import UsageError
from ganglion.transport.curve import SECRETS, ClientKeys, check_key, new_pair


def test_pairs_are_new() -> None:
    """No two pairs share a key, and each key is one."""
    pairs = [new_pair() for _ in range(3)]
    keys = {key for pair in pairs for key in (pair.public, pair.secret)}

    assert 6 == len(keys)
    assert keys == {check_key(key, "key") for key in keys}


def test_secrets_are_not_printed() -> None:
    """The texts of pairs and of a client's keys show no secret key."""
    pair = new_pair()
    keys = ClientKeys(new_pair().public, pair.public, pair.secret)

    assert pair.secret not in repr(pair) + repr(keys) + str(keys)


def test_keys_go_by_variables() -> None:
    """What a program is given by variables are the keys that it finds in them; without a server's there are none."""
    pair = new_pair()
    keys = ClientKeys(new_pair().public, pair.public, pair.secret)

    assert keys == ClientKeys.of(keys.variables())
    assert ClientKeys.of({}) is None
    assert [name for name, value in keys.variables().items() if value == pair.secret] == [SECRETS[1]]


@pytest.mark.parametrize("name", ["GANGLION_SERVER_KEY", "GANGLION_PUBLIC_KEY", "GANGLION_SECRET_KEY"])
@pytest.mark.parametrize("value", ["x" * 39, "x" * 41, "x" * 39 + "'", "x" * 40 + "\n", "ä" * 40])
def test_a_broken_key_is_refused(name: str, value: str) -> None:
    """What is no key is refused by its name, and never shown."""
    pair = new_pair()
    keys = ClientKeys(new_pair().public, pair.public, pair.secret)
    with pytest.raises(UsageError, match="expected a CURVE key") as refusal:
        ClientKeys.of({**keys.variables(), name: value})

    assert value not in str(refusal.value)


@pytest.mark.parametrize("name", ["GANGLION_PUBLIC_KEY", "GANGLION_SECRET_KEY"])
def test_a_missing_key_is_named(name: str) -> None:
    """A server's key without a pair of one's own is a fault that names the variable."""
    variables = ClientKeys(new_pair().public, *(lambda p: (p.public, p.secret))(new_pair())).variables()
    del variables[name]
    with pytest.raises(UsageError, match=name):
        ClientKeys.of(variables)


@pytest.mark.parametrize("value", [None, 3, b"x" * 40, ["x" * 40]])
def test_a_key_is_a_text(value: object) -> None:
    """A value of another type is no key."""
    with pytest.raises(UsageError, match="found"):
        check_key(value, "server")
