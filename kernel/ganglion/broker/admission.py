"""The register of names: which peers may join, decided by tokens that the supervisor announced."""

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
    """Return a name that is one; RemoteProtocolError says what it is instead."""
    try:
        return check_name(name)
    except GanglionError as error:
        raise RemoteProtocolError(str(error)) from error


def admission_of(request: Admit) -> Admission:
    """Return what the supervisor announces; RemoteProtocolError for a role or a name that cannot be."""
    if request.role not in Role.__members__.values() or request.role == Role.SUPERVISOR.value:
        raise RemoteProtocolError(f"admit.role: unknown role {request.role[:40]!r}")
    if request.name.startswith("@"):
        raise RemoteProtocolError(f"admit.name: {request.name[:80]!r} is the name of a topic")
    checked(request.name.removesuffix("*") or "x")
    known = {one.name: getattr(request, one.name) for one in fields(Admission)}
    return Admission(**{**known, "role": Role(request.role)})


class Strangers:
    """Remember the origins of wrong tokens: each origin is answered, and noted, once per second.

    More wrong ones of it are not worth a word; right ones are never kept waiting by them.
    """

    def __init__(self) -> None:
        self._answered_s: dict[str, float] = {}

    def may_answer(self, origin: str, now_s: float) -> bool:
        """Say whether a wrong token of `origin` is to be answered; if so, the next second begins."""
        answered_s = self._answered_s.get(origin)
        if answered_s is not None and now_s - answered_s < WRONG_TOKEN_SPAN_S:
            return False
        if len(self._answered_s) >= WRONG_TOKEN_ORIGINS:
            del self._answered_s[next(iter(self._answered_s))]  # the origin that was answered longest ago
        self._answered_s.pop(origin, None)
        self._answered_s[origin] = now_s
        return True


class Register:
    """Know the admitted names, and tell which of them a HELLO is entitled to."""

    def __init__(self, first: Iterable[Admission] = ()) -> None:
        self._by_name: dict[str, Admission] = {}
        self._by_token: dict[bytes, list[str]] = {}
        self._numbers: dict[str, int] = {}
        self._keys: dict[str, set[str]] = {}
        self._left: set[str] = set()  # names whose bearer said BYE: they are not awaited
        for admission in first:
            self.admit(admission)

    def admit(self, admission: Admission) -> None:
        """Take in a name, or its next incarnation; LimitExceeded when the register is full."""
        self.withdraw(admission.name)
        if len(self._by_name) >= ADMISSIONS:
            raise LimitExceeded(f"expected at most {ADMISSIONS} admitted names (admissions)")
        self._by_name[admission.name] = admission
        self._by_token.setdefault(admission.token_sha256, []).append(admission.name)
        if admission.curve_key:
            self._keys.setdefault(admission.curve_key, set()).add(admission.name)

    def knows_key(self, key: str) -> bool:
        """Say whether a connection from another machine may have this public key: the table of keys."""
        return key in self._keys

    def relays(self, key: str | None) -> bool:
        """Say whether a key is that of a relay, which joins the peers of its node."""
        return key is not None and any(self._by_name[name].role is Role.RELAY for name in self._keys.get(key, ()))

    def awaited(self, name: str) -> Admission | None:
        """Return the place of a peer that will come, again or for the first time; None if none is awaited."""
        admission = self._by_name.get(name)
        return admission if admission is not None and admission.returns and name not in self._left else None

    def came(self, name: str) -> None:
        """Record that a peer has joined under a name."""
        self._left.discard(name)

    def left(self, name: str) -> None:
        """Record that the bearer of a name has said BYE."""
        if name in self._by_name:
            self._left.add(name)

    def withdraw(self, name: str) -> None:
        """Forget a name; one that is not known is none of our business."""
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
        """Return the place that a HELLO may take; `taken` are the names that have joined, `key` is its connection's.

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
        places = [a for a in places if a.role.value == hello.role] or places  # an agent may be called as a world is
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
