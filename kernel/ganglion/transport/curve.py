"""CURVE keys: pairs in Z85, and the three keys that a peer needs for a kernel on another machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ganglion.errors import UsageError

SECRETS = ("GANGLION_TOKEN", "GANGLION_SECRET_KEY")
"""Variables that a participant removes from its environment after reading them."""

_SERVER, _PUBLIC, _SECRET = "GANGLION_SERVER_KEY", "GANGLION_PUBLIC_KEY", "GANGLION_SECRET_KEY"
_KEY = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}\Z")  # 32 bytes in Z85


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Hold one pair of keys, each of 40 characters."""

    public: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """Hold the keys of a peer: the server key that authenticates the kernel, and the peer's own pair.

    Raises UsageError for an invalid key; the message has the key's name and never its value.
    """

    server: str
    public: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        for name in ("server", "public", "secret"):
            check_key(getattr(self, name), f"the {name} key")

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> ClientKeys | None:
        """Return the keys from environment variables, None without a server key; UsageError if another is missing."""
        if not variables.get(_SERVER):
            return None
        for name in (_PUBLIC, _SECRET):
            if not variables.get(name):
                raise UsageError(f"expected the variable {name} beside {_SERVER}, found nothing")
        return cls(variables[_SERVER], variables[_PUBLIC], variables[_SECRET])

    def variables(self) -> dict[str, str]:
        """Return the variables that pass these keys to a program."""
        return {_SERVER: self.server, _PUBLIC: self.public, _SECRET: self.secret}


def check_key(value: object, what: str) -> str:
    """Return a valid key; raise UsageError for an invalid one."""
    if not isinstance(value, str) or not _KEY.match(value):
        found = f"{len(value)} characters" if isinstance(value, str) else type(value).__name__
        raise UsageError(f"{what}: expected a CURVE key of 40 characters in Z85, found {found}")
    return value


def new_pair() -> KeyPair:
    """Return a new random pair of keys; UsageError if libzmq was built without CURVE."""
    import zmq  # imported only here: a kernel without other machines does not load libzmq

    try:
        public, secret = zmq.curve_keypair()
    except zmq.ZMQError as error:
        raise UsageError(
            f"libzmq {zmq.zmq_version()} was built without CURVE ({error}): expected pyzmq's own, as its wheel has it"
        ) from error
    return KeyPair(public.decode(), secret.decode())
