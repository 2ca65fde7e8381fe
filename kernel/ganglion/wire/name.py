"""Names on the wire: how uids of documents become names of peers."""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum

from ganglion.errors import LocalProtocolError
from ganglion.limits import NAME_BYTES

KERNEL = ""  # the empty destination: broker and supervisor

_NAME = re.compile(r"@?[a-z0-9][a-z0-9._/-]{0,127}\Z")
_PARTICIPANT = re.compile(
    r"[^/]+/(?:(?P<alone>governor|store)"
    r"|(?P<driver>controller)/(?P<place>e?\d+)"
    r"|(?P<brain>brain|table)/(?P<agent>[^/]+)"
    r"|(?P<role>environment|muscle)/(?P<uid>[^/]+)/(?P<worker>e?\d+))\Z"
)
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789.-")
_PART_BYTES_MAX = 48  # three parts, role and run fit into NAME_BYTES


class Role(StrEnum):
    """Name the role of a peer, which decides its rights."""

    SUPERVISOR = "supervisor"
    OPERATOR = "operator"
    GOVERNOR = "governor"
    CONTROLLER = "controller"
    ENVIRONMENT = "environment"
    MUSCLE = "muscle"
    BRAIN = "brain"
    TABLE = "table"
    STORE = "store"
    OBSERVER = "observer"
    RELAY = "relay"


def safe(uid: str) -> str:
    """Return `uid` as one part of a wire name: different uids give different parts.

    Bytes (UTF-8) other than `a-z 0-9 . -` become `_` and two hexadecimal digits, as does a leading `.` or `-`. A name
    longer than 48 bytes is cut and gets `_-` and 16 digits of its SHA-256: no short name has `_-`.
    """
    data = uid.encode()
    text = "".join(chr(b) if b in _PLAIN and (i or b not in b".-") else f"_{b:02x}" for i, b in enumerate(data))
    if text.startswith("_"):
        text = "x" + text  # a name begins with a letter or digit; a plain leading x has no `_` after it
    elif text.startswith("x_"):
        text = "x_78" + text[1:]
    if len(text) > _PART_BYTES_MAX:
        text = text[: _PART_BYTES_MAX - 18] + "_-" + hashlib.sha256(data).hexdigest()[:16]
    return text


def peer_name(run: str, role: Role, uid: str | None = None, worker: int | None = None, evaluation: bool = False) -> str:
    """Return the wire name of a participant: `run/role[/uid][/worker]`; `e` marks an evaluation worker."""
    parts = [safe(run), role.value]
    if uid is not None:
        parts.append(safe(uid))
    if worker is not None:
        parts.append(f"e{worker}" if evaluation else str(worker))
    return check_name("/".join(parts))


def label(name: str) -> str:
    """Return a participant in words: `environment grid (worker 2)` for `run-1/environment/grid/2`.

    A name of another form is returned unchanged.
    """
    match = _PARTICIPANT.match(name)
    if match is None:
        return name or "the kernel"
    role = match["alone"] or match["driver"] or match["brain"] or match["role"]
    uid, worker = match["agent"] or match["uid"], match["place"] or match["worker"]
    text = role if uid is None else f"{role} {_plain(uid)}"
    if worker is None:
        return text
    kind = "evaluation worker" if worker.startswith("e") else "worker"
    return f"{text} ({kind} {worker.removeprefix('e')})"


def part_of(name: str) -> tuple[str | None, bool]:
    """Return the part of a participant's name that `safe` made, and whether the participant is of an evaluation worker.

    A name of another form has neither.
    """
    match = _PARTICIPANT.match(name)
    if match is None:
        return None, False
    return match["agent"] or match["uid"], (match["place"] or match["worker"] or "").startswith("e")


def _plain(part: str) -> str:
    """Return the uid from which `safe` made a part, unless the part was cut."""
    if part.startswith("x_"):
        part = part[1:]
    data = re.sub(rb"_([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), part.encode())
    return data.decode(errors="replace")


def topic(run: str, name: str) -> str:
    """Return the wire name of a topic of a run: `@run/name`; a TELL to it reaches its subscribers."""
    return check_name(f"@{safe(run)}/{name}")


def check_name(name: str) -> str:
    """Return `name` if it is valid on the wire; LocalProtocolError: it is not."""
    if len(name) > NAME_BYTES or not _NAME.match(name):
        raise LocalProtocolError(f"expected a name of 1 to {NAME_BYTES} of a-z 0-9 . _ / -, found {name[:200]!r}")
    return name
