"""Calls of the kernel: who is there, who may join, runs as an operator and a governor speak of them."""

from typing import Any

from ganglion.wire.messages.declaration import message
from ganglion.wire.messages.joining import Failure

__all__ = [
    "Admit",
    "Ended",
    "Gap",
    "Info",
    "Joined",
    "Need",
    "Overdue",
    "Peers",
    "RunRequest",
    "RunSignal",
    "Runs",
    "Signalled",
    "Submit",
    "Submitted",
    "Subscribe",
    "Watch",
    "Withdraw",
]


@message
class Info:
    """Describe the kernel."""

    version: str
    protocol: int
    pid: int
    peers: int
    uptime_s: float


@message
class Peers:
    """List who has joined: maps with name, role, run, incarnation, language, heard_ms, open_calls, queued_bytes."""

    peers: list[dict[str, Any]]


@message
class Watch:
    """Ask to be told when these peers join (`kernel.joined`) and when they are lost (LOST).

    Those that are there already are told at once.
    """

    peers: list[str]


@message
class Joined:
    """Tell a watcher that a peer has joined."""

    peer: str
    incarnation: int
    role: str
    content: str = "msgpack"
    language: str = ""


@message
class Subscribe:
    """Ask for a topic of a run; what the reader is too slow for is counted and announced."""

    topic: str


@message
class Admit:
    """Announce a name that may join, with its token's SHA-256 and its place; from the supervisor alone."""

    name: str
    role: str
    run: str
    token_sha256: bytes
    incarnation: int = 1
    uid: str | None = None  # agent or environment
    worker: int | None = None
    attach: str | None = None  # a name by which a program that somebody else starts asks for this place
    content: str = "msgpack"
    evaluation: bool = False  # of a worker that evaluates
    curve_key: str | None = None  # the public key that a connection from another machine must have
    returns: bool = False  # a successor will come if it is lost


@message
class Overdue:
    """Tell the supervisor that a peer has not answered a call within its deadline."""

    peer: str
    call: str
    waited_s: float


@message
class Withdraw:
    """Withdraw names: they may not join (again); those that have joined are disconnected.

    Who watches such a name, or reads such a topic, does so no more, and has room for others.
    """

    names: list[str]


@message
class Gap:
    """Tell the reader of a topic how many messages it was too slow for."""

    topic: str
    missed: int


@message
class Submit:
    """Ask the kernel to run a document, given as text.

    `overrides` are `path=value` settings. `folder` is where the paths of the document begin, for an operator on the
    kernel's machine: such a document may name modules and programs. One from another machine names plugins only.
    """

    document: str
    source: str = "<submitted>"
    folder: str = ""
    seed: int | None = None
    name: str | None = None
    overrides: list[str] | None = None


@message
class Submitted:
    """Give the id of the run that was begun."""

    run: str


@message
class RunRequest:
    """Name a run: its id, a document's uid, an unambiguous beginning, or `last`; empty for all."""

    run: str = ""
    now: bool = False
    reason: str = ""


@message
class Runs:
    """List runs or processes of the kernel as maps."""

    rows: list[dict[str, Any]]


@message
class RunSignal:
    """Ask for a flow signal as the operator: signal, scope and reason."""

    run: str
    signal: str
    phase: str | None = None
    worker: int | None = None
    reason: str = ""
    steps: int | None = None  # CONTINUE for so many boundaries, then PAUSE


@message
class Signalled:
    """Answer an operator's signal: accepted with the place where it acts, or refused with the reason.

    PAUSE, and CONTINUE for some steps, are answered when all workers that are meant stand; the text has a line for
    each.
    """

    accepted: bool
    text: str


@message
class Need:
    """Ask the supervisor for the processes of a phase; those that it does not need are ended."""

    run: str
    phase: int


@message
class Ended:
    """Tell the supervisor how a run ended."""

    run: str
    status: str  # finished, failed, interrupted
    reason: str
    exit_status: int
    failure: Failure | None = None
    peer: str | None = None  # whose failure it was
    heads: dict[str, Any] | None = None  # what protects its rows, from the store
