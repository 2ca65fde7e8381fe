"""The tree of errors, sorted by who can put them right; each has an exit status.

```text
GanglionError
├── UsageError               you: the command line or a call of the library
│   └── DocumentError        you: a run document, with file:line:column of each fault
├── PluginInvalid            its author: not found, of the wrong kind, wrong parameters
├── ContractBroken           its author: a check of `ganglion.testing` found a clause that is not kept
├── AuthorError              its author: a hook raised, or returned what it may not
│   └── SpaceError           its author: a value outside its space
│       ├── OutOfObservationSpaceError
│       ├── OutOfActionSpaceError
│       └── OutOfRewardSpaceError
├── ProtocolError            the wire
│   ├── LocalProtocolError   we: our own side broke the protocol
│   └── RemoteProtocolError  they: the other side broke the protocol
│       └── NotSetUp         they: asked before their set-up, as a successor may be
├── CallFailed               they: a peer answered ERROR
├── PeerLost                 operator: a process is gone
├── LimitExceeded            operator: a bound of `limits.py`
├── DiskError                operator: a file cannot be written
├── DeadlineExceeded         operator: a wait that ended without its answer
├── StoreError               operator: results cannot be written or read
│   ├── StoreDamaged         operator: what was written cannot be read back
│   ├── RunExists            operator: another results folder has begun a run of this id there
│   ├── StoreAbsent          operator: no run has written there yet
│   └── StoreUnavailable     operator: not now; the same may succeed later
├── Nondeterministic         its author: what was done again came out differently
└── LaunchError              operator: a process cannot be started, an address cannot be bound
```
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

_CURES = {
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "free some space there, or ask for a larger quota",
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "make it writable"),
}


class GanglionError(Exception):
    """The base of every error that Ganglion raises on purpose.

    `exit_status` is what a command ends with when nothing catches the error: 1 a run failed, 2 nothing was started.
    `kind` is the word that stands for the class in an ERROR message on the wire.
    """

    exit_status: ClassVar[int] = 1
    kind: ClassVar[str] = "failed"


class UsageError(GanglionError):
    """Report a command or a call that cannot be carried out as it was given."""

    exit_status = 2
    kind = "usage"


class DocumentError(UsageError):
    """Report all faults of a document at once.

    `faults` is the tuple of printable faults, each with its place; the text is one fault per line.
    """

    kind = "document"

    def __init__(self, message: str, faults: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class PluginInvalid(GanglionError):
    """Report a plugin that is missing, of the wrong kind, or called with parameters that it does not take.

    `plugin` is the name that was asked for, `distribution` is the one that ships it (`name version`, or None).
    """

    exit_status = 2
    kind = "plugin"

    def __init__(self, message: str, plugin: str = "", distribution: str | None = None) -> None:
        super().__init__(message)
        self.plugin = plugin
        self.distribution = distribution


class ContractBroken(GanglionError, AssertionError):
    """Report the clause of its contract that a class does not keep; raised by the checks of `ganglion.testing` only."""


class AuthorError(GanglionError):
    """Report a hook of a plugin that raised, or that returned what the contract does not allow."""

    kind = "author"


class SpaceError(AuthorError, TypeError):
    """Report a value that its space does not contain."""

    kind = "space"


class OutOfObservationSpaceError(SpaceError):
    """Report a reading outside the space of its sensor."""


class OutOfActionSpaceError(SpaceError):
    """Report a setpoint outside the space of its actuator."""


class OutOfRewardSpaceError(SpaceError):
    """Report a reward outside its declared space."""


class ProtocolError(GanglionError):
    """The base of both sides' breaches of the protocol."""

    kind = "protocol"


class LocalProtocolError(ProtocolError):
    """Report that our own side tried to say what the protocol does not allow; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """Report that the other side said what the protocol does not allow."""


class NotSetUp(RemoteProtocolError):
    """Report that a peer was asked before its set-up: it may be a successor of which the caller does not know."""

    kind = "not_set_up"


class CallFailed(GanglionError):
    """Report that a peer answered a CALL with ERROR.

    `remote_kind`, `where` and `remote_traceback` are what the peer said; `peer` is its name and `call` what was asked.
    `culprit` is the peer that is blamed: the one that answered, or one that it had asked in turn.
    """

    kind = "call_failed"

    def __init__(self, peer: str, call: str, error: Mapping[str, Any]) -> None:
        self.peer = peer
        self.call = call
        self.remote_kind = str(error.get("kind", "failed"))
        self.remote_message = str(error.get("message", "no reason given"))
        told = (error.get("where"), error.get("traceback"))
        self.where, self.remote_traceback = (it if isinstance(it, str) else None for it in told)
        blamed = (error.get("data") or {}).get("peer") if isinstance(error.get("data"), Mapping) else None
        self.culprit = str(blamed) if blamed else peer
        super().__init__(f"{peer} answered {call} with {self.remote_kind}: {self.remote_message}")


class PeerLost(GanglionError):
    """Report that a peer is gone; `peer` is its name, empty for one that never was; `reason` is what is known."""

    kind = "lost"

    def __init__(self, peer: str, reason: str) -> None:
        super().__init__(f"{peer} is gone: {reason}" if peer else reason)
        self.peer = peer
        self.reason = reason


class LimitExceeded(GanglionError):
    """Report that a bound of `limits.py` was reached; names the limit and its value."""

    kind = "limit"


class DiskError(GanglionError):
    """Report that a file cannot be written: its disk is full or read-only, a quota is used up, a right is missing."""

    kind = "disk"

    def __init__(self, path: Path, error: OSError) -> None:
        """Name a file, the cause, what is free at its place, and what to do."""
        cure = _CURES.get(error.errno or 0)
        then = f"; {cure}" if cure else ""
        super().__init__(f"{path}: cannot be written: {error.strerror or error} ({self.free(path.parent)}){then}")

    @staticmethod
    def free(folder: Path) -> str:
        """Return how much can be written at a place, in words."""
        try:
            found = os.statvfs(folder)
        except OSError as error:
            return f"{folder}: {error.strerror}"
        return f"{found.f_bavail * found.f_frsize / 2**20:.1f} MiB and {found.f_favail} files are free"


class DeadlineExceeded(GanglionError):
    """Report a wait that ended without its answer: from which peer, to what, since when.

    `peer` is the name of the peer that did not answer, empty where it was none of the bus.
    """

    kind = "deadline"

    def __init__(self, message: str, peer: str = "") -> None:
        super().__init__(message)
        self.peer = peer


class StoreError(GanglionError):
    """Report that results cannot be written or read."""

    kind = "store"


class StoreAbsent(StoreError):
    """Report that there is no store yet where one was looked for: the first run makes it."""


class StoreUnavailable(StoreError):
    """Report that results cannot be written at the moment: the disk is full, read-only, or out of reach."""


class StoreDamaged(StoreError):
    """Report that a database of results is damaged: what was written cannot be read back."""

    kind = "store_damaged"


class RunExists(StoreError):
    """Report that a store has a run of this id that another results folder began; no further try changes that."""

    exit_status = 2
    kind = "run_exists"


class Nondeterministic(GanglionError):
    """Report that something that was done again came out differently; names its position and what differs."""

    kind = "nondeterministic"


class LaunchError(GanglionError):
    """Report that a process cannot be started or an address cannot be bound."""

    kind = "launch"
