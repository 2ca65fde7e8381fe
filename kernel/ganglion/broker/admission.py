"""The register of admitted names: which peers may join, decided by the tokens that the supervisor announced."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import fields

from ganglion.broker.link import Admission
from ganglion.errors import GanglionError, LimitExceeded, RemoteProtocolError
from ganglion.limits import ADMISSIONS, TOKEN_BYTES, WRONG_TOKEN_ORIGINS, WRONG_TOKEN_SPAN_S
from ganglion.wire.messages import PROTOCOL_VERSION, Admit, Hello
from ganglion.wire.name import Role, check_name

_ATTACHING = {"environment": "an environment", "muscle": "a muscle"}


def checked(name: str) -> str:
    """Return a valid name; RemoteProtocolError says what is wrong with an invalid one."""
    try:
        return check_name(name)
    except GanglionError as error:
        raise RemoteProtocolError(str(error)) from error


def admission_of(request: Admit) -> Admission:
    """Return the admission that the supervisor announced; RemoteProtocolError for an invalid role or name."""
    if request.role not in Role.__members__.values() or request.role == Role.SUPERVISOR.value:
        raise RemoteProtocolError(f"admit.role: unknown role {request.role[:40]!r}")
    if request.name.startswith("@"):
        raise RemoteProtocolError(f"admit.name: {request.name[:80]!r} is the name of a topic")
    checked(request.name.removesuffix("*") or "x")
    known = {one.name: getattr(request, one.name) for one in fields(Admission)}
    return Admission(**{**known, "role": Role(request.role)})


class Strangers:
    """Limit the answers to wrong tokens: each origin gets one answer and one log entry per second.

    Further wrong tokens of an origin are ignored. Right tokens are never delayed.
    """

    def __init__(self) -> None:
        self._answered_s: dict[str, float] = {}

    def may_answer(self, origin: str, now_s: float) -> bool:
        """Return True if a wrong token of `origin` is to be answered; this begins the origin's next second."""
        answered_s = self._answered_s.get(origin)
        if answered_s is not None and now_s - answered_s < WRONG_TOKEN_SPAN_S:
            return False
        if len(self._answered_s) >= WRONG_TOKEN_ORIGINS:
            del self._answered_s[next(iter(self._answered_s))]  # the origin with the oldest answer
        self._answered_s.pop(origin, None)
        self._answered_s[origin] = now_s
        return True


class Register:
    """Hold the admitted names, and choose the one that a HELLO may take."""

    def __init__(self, first: Iterable[Admission] = ()) -> None:
        self._by_name: dict[str, Admission] = {}
        self._by_token: dict[bytes, list[str]] = {}
        self._numbers: dict[str, int] = {}
        self._keys: dict[str, set[str]] = {}
        self._left: set[str] = set()  # names whose peer sent BYE: they are not awaited
        for admission in first:
            self.admit(admission)

    def admit(self, admission: Admission) -> None:
        """Add a name, or its next incarnation; LimitExceeded when the register is full."""
        self.withdraw(admission.name)
        if len(self._by_name) >= ADMISSIONS:
            raise LimitExceeded(f"expected at most {ADMISSIONS} admitted names (admissions)")
        self._by_name[admission.name] = admission
        self._by_token.setdefault(admission.token_sha256, []).append(admission.name)
        if admission.curve_key:
            self._keys.setdefault(admission.curve_key, set()).add(admission.name)

    def knows_key(self, key: str) -> bool:
        """Return True if a connection from another machine may have this public key."""
        return key in self._keys

    def relays(self, key: str | None) -> bool:
        """Return True if the key belongs to a relay, through which the peers of its node join."""
        return key is not None and any(self._by_name[name].role is Role.RELAY for name in self._keys.get(key, ()))

    def awaited(self, name: str) -> Admission | None:
        """Return the admission of an absent peer that will return; None if the peer is not awaited."""
        admission = self._by_name.get(name)
        return admission if admission is not None and admission.returns and name not in self._left else None

    def came(self, name: str) -> None:
        """Record that a peer has joined under a name."""
        self._left.discard(name)

    def left(self, name: str) -> None:
        """Record that the peer of a name has sent BYE."""
        if name in self._by_name:
            self._left.add(name)

    def withdraw(self, name: str) -> None:
        """Remove a name; an unknown name is ignored."""
        old = self._by_name.pop(name, None)
        self._left.discard(name)
        if old is None:
            return
        names = self._by_token[old.token_sha256]
        names.remove(name)
        if not names:
            del self._by_token[old.token_sha256]
        if old.curve_key:
            self._keys[old.curve_key].discard(name)
            if not self._keys[old.curve_key]:
                del self._keys[old.curve_key]

    def entitled(self, hello: Hello, taken: Iterable[str], key: str | None = None) -> Admission:
        """Return the admission that a HELLO may take; `taken` are the joined names, `key` is the connection's key.

        Raises RemoteProtocolError with the reason: version, token, role, name, stale incarnation, no place left.
        """
        if hello.version != PROTOCOL_VERSION:
            raise RemoteProtocolError(f"version: this kernel speaks protocol {PROTOCOL_VERSION}, found {hello.version}")
        if len(hello.token) > TOKEN_BYTES:
            raise RemoteProtocolError(f"token: expected at most {TOKEN_BYTES} bytes, found {len(hello.token)}")
        names = self._by_token.get(hashlib.sha256(hello.token.encode()).digest())
        if not names:
            raise RemoteProtocolError("token: no participant is expected with it")
        known = [self._by_name[name] for name in names]
        if key is not None:
            relayed = self.relays(key)
            known = [one for one in known if one.curve_key == key or (relayed and one.curve_key is not None)]
            if not known:
                raise RemoteProtocolError("token: it is not for the key of this connection")
        admission = self._choose(hello, known, set(taken))
        if hello.role != admission.role.value:
            raise RemoteProtocolError(f"role: this token is for the role {admission.role.value}, found {hello.role!r}")
        if hello.incarnation and hello.incarnation < admission.incarnation:
            raise RemoteProtocolError(
                f"incarnation: {admission.name} is at {admission.incarnation}, found the stale {hello.incarnation}"
            )
        return admission

    def _choose(self, hello: Hello, admissions: list[Admission], taken: set[str]) -> Admission:
        for admission in admissions:
            if admission.name == hello.name and not admission.numbered:
                return admission
        places = [a for a in admissions if a.attach == hello.name]
        places = [a for a in places if a.role.value == hello.role] or places  # several roles may share a name
        for place in places:
            if place.name not in taken:
                return place
        if places:
            raise RemoteProtocolError(f"name: all {len(places)} places of {hello.name!r} are taken")
        for admission in admissions:
            if admission.numbered:
                return self._numbered(admission)
        awaited = sorted({a.attach for a in admissions if a.attach})
        hint = f"; awaited are: {', '.join(awaited)}" if awaited else ""
        if hello.role in _ATTACHING:
            what = f"{_ATTACHING[hello.role]} named {hello.name!r}"
            raise RemoteProtocolError(f"name: no run waits for {what}{hint}")
        raise RemoteProtocolError(f"name: this token does not admit {hello.name!r}{hint}")

    def _numbered(self, admission: Admission) -> Admission:
        number = self._numbers[admission.name] = self._numbers.get(admission.name, 0) + 1
        return Admission(admission.name[:-1] + str(number), admission.role, admission.run, admission.token_sha256)
