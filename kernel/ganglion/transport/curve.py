"""CURVE keys: pairs in Z85, and the three that a peer needs for a kernel on another machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ganglion.errors import UsageError

SECRETS = ("GANGLION_TOKEN", "GANGLION_SECRET_KEY")
"""Variables that a participant takes out of its environment once it has read them."""

_SERVER, _PUBLIC, _SECRET = "GANGLION_SERVER_KEY", "GANGLION_PUBLIC_KEY", "GANGLION_SECRET_KEY"
_KEY = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}\Z")  # 32 bytes in Z85


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Hold one pair of keys, each of 40 characters."""

    public: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """Hold what a peer needs: the key by which it knows the kernel, and a pair of its own that the kernel admits.

    Raises UsageError for what is no key, with its name and never its value.
    """

    server: str
    public: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        for name in ("server", "public", "secret"):
            check_key(getattr(self, name), f"the {name} key")

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> ClientKeys | None:
        """Return the keys that variables name, None if they name no server's; UsageError if one is missing."""
        if not variables.get(_SERVER):
            return None
        for name in (_PUBLIC, _SECRET):
            if not variables.get(name):
                raise UsageError(f"expected the variable {name} beside {_SERVER}, found nothing")
        return cls(variables[_SERVER], variables[_PUBLIC], variables[_SECRET])

    def variables(self) -> dict[str, str]:
        """Return the variables by which a program gets these keys."""
        return {_SERVER: self.server, _PUBLIC: self.public, _SECRET: self.secret}


def check_key(value: object, what: str) -> str:
    """Return a key if it is one, else raise UsageError."""
    if not isinstance(value, str) or not _KEY.match(value):
        found = f"{len(value)} characters" if isinstance(value, str) else type(value).__name__
        raise UsageError(f"{what}: expected a CURVE key of 40 characters in Z85, found {found}")
    return value


def new_pair() -> KeyPair:
    """Return a new pair of keys, from the system's random numbers; UsageError if libzmq was built without CURVE."""
    import zmq  # not before it is needed: a kernel that only this machine reaches has no libzmq

    try:
        public, secret = zmq.curve_keypair()
    except zmq.ZMQError as error:
        raise UsageError(
            f"libzmq {zmq.zmq_version()} was built without CURVE ({error}): expected pyzmq's own, as its wheel has it"
        ) from error
    return KeyPair(public.decode(), secret.decode())
