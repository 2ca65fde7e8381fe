"""The secrets of one kernel: its tokens and keys, made when it starts and worth nothing when it has ended."""

from __future__ import annotations

import hashlib
import json
import secrets
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ganglion.supervisor.connection import REMOTE, RIGHTS, Connection
from ganglion.supervisor.runs import Member
from ganglion.transport.curve import KeyPair, new_pair
from ganglion.transport.endpoint import Endpoint, parse_endpoint
from ganglion.wire.codec import Content, codec_of
from ganglion.wire.messages import Admit
from ganglion.wire.name import Role

_EVERYWHERE = ("*", "0.0.0.0", "::")  # noqa: S104 - compared, not bound
_MANY = (("operator/*", Role.OPERATOR, "operator"), ("observer/*", Role.OBSERVER, "observer"))


class Access:
    """Make and hold the tokens of a kernel, and its keys if other machines may reach it.

    There is a pair for the kernel and one for each right; a right's pair is what a program on another machine shows
    that the kernel lets it speak at all, and its token what it may then say.
    """

    def __init__(self, remote: bool = False) -> None:
        self.supervisor_token = secrets.token_urlsafe(32)
        self.tokens = {right: secrets.token_urlsafe(32) for right in RIGHTS}
        self.server: KeyPair | None = new_pair() if remote else None
        self.keys: dict[str, KeyPair] = {right: new_pair() for right in RIGHTS} if remote else {}

    def order(
        self,
        endpoints: Sequence[str],
        remote: Sequence[str],
        listening: Sequence[int] = (),
        admissions: Sequence[Admit] = (),
    ) -> bytes:
        """Return what the broker is told before it serves.

        `listening` are the descriptors that it inherits for `endpoints`, `admissions` who may join from the beginning.
        """
        order: dict[str, object] = {
            "endpoints": list(endpoints),
            "supervisor_token_sha256": _sha256(self.supervisor_token).hex(),
        }
        if listening:
            order["listening"] = list(listening)
        if admissions:
            codec = codec_of(Admit)
            order["admissions"] = [json.loads(codec.encode(admit, Content.JSON)) for admit in admissions]
        if self.server is not None:
            order |= {"remote": list(remote), "secret_key": self.server.secret}
        return json.dumps(order).encode()

    def admissions(self) -> list[Admit]:
        """Return what lets operators and observers in, and what makes the token of those who attach a known one."""
        many = [
            Admit(name, role.value, "", _sha256(self.tokens[right]), curve_key=self._public(right))
            for name, role, right in _MANY
        ]
        return [*many, Admit("attach", Role.ENVIRONMENT.value, "", _sha256(self.tokens["attach"]))]

    def admission(self, member: Member) -> Admit:
        """Return what lets a member of a run in."""
        return member.admission(self.tokens["attach"], self._public("attach"))

    def local(self, connection: Connection) -> Connection:
        """Return a connection with the tokens in it, for those on this machine."""
        named = {f"{right}_token": token for right, token in self.tokens.items()}
        return replace(connection, **named)  # type: ignore[arg-type]

    def remote(self, connection: Connection, bound: str) -> Connection:
        """Return a connection for those on other machines: where the kernel is from there, its key, and theirs."""
        assert self.server is not None
        pairs = {right: {"public_key": p.public, "secret_key": p.secret} for right, p in self.keys.items()}
        curve = {"server_key": self.server.public, **pairs}
        return replace(self.local(connection), endpoint=advertised(bound), tcp=None, curve=curve)

    def _public(self, right: str) -> str | None:
        return self.keys[right].public if self.keys else None


def advertised(bound: str) -> str:
    """Return an endpoint as others name it: one that listens at all addresses by the name of this machine."""
    endpoint = parse_endpoint(bound)
    if endpoint.host not in _EVERYWHERE:
        return bound
    return str(Endpoint(host=socket.gethostname(), port=endpoint.port))


def remote_path(local: Path) -> Path:
    """Return where the connection file for other machines belongs: beside the one for this machine."""
    return local.with_name(REMOTE)


def _sha256(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
