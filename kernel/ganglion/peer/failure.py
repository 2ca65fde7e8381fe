"""What is told of an exception: the body of an ERROR, with the author's part of the traceback."""

from __future__ import annotations

import sys
import traceback
from itertools import dropwhile

from ganglion.errors import AuthorError, CallFailed, DeadlineExceeded, GanglionError, PeerLost
from ganglion.wire.messages import Failure

_TEXT_CHARS_MAX = 4_000
_TRACEBACK_CHARS_MAX = 16_000
_BETWEEN = ("ganglion/peer/", "ganglion/sdk/construct.py", "/asyncio/")  # frames that lead to an author's hook


def hook_failed(error: Exception | SystemExit, where: str) -> AuthorError:
    """Return the error that stands for an exception of an author's hook; it keeps the exception as its cause."""
    wrapped = AuthorError(f"{type(error).__name__}: {error}")
    wrapped.add_note(where)
    wrapped.__cause__ = error
    return wrapped


def failure_of(error: BaseException) -> Failure:
    """Return the body of the ERROR that answers a call which raised `error`."""
    notes = getattr(error, "__notes__", [])
    where = "; ".join(notes) or None
    if isinstance(error, CallFailed):  # somebody behind us failed: hand on who it was and what it said
        culprit = {"peer": error.culprit}
        message, shown = error.remote_message[:_TEXT_CHARS_MAX], error.remote_traceback
        shown = None if shown is None else shown[-_TRACEBACK_CHARS_MAX:]
        return Failure(error.remote_kind, message, error.where, shown, data=culprit)
    text = str(error)[:_TEXT_CHARS_MAX]
    if isinstance(error, AuthorError) and isinstance(error.__cause__, Exception | SystemExit):
        return Failure(error.kind, text, where, _traceback(error.__cause__))
    if isinstance(error, PeerLost | DeadlineExceeded):
        return Failure(error.kind, text, where, data={"peer": error.peer})
    if isinstance(error, AuthorError):
        return Failure(error.kind, text, where, _traceback(error))
    if isinstance(error, GanglionError):
        return Failure(error.kind, text, where)
    return Failure("internal", f"{type(error).__name__}: {text}", where, _traceback(error))


def is_loss(error: GanglionError) -> bool:
    """Say whether a call failed because its callee is not there any more."""
    return isinstance(error, PeerLost) or is_unreachable(error)


def is_unreachable(error: GanglionError) -> bool:
    """Say whether a call failed because the broker has not met its callee."""
    return isinstance(error, CallFailed) and error.remote_kind == "unreachable"


def wrong_answer(peer: str, call: str, error: GanglionError) -> CallFailed:
    """Return the error that blames a peer for an answer which cannot be taken."""
    return CallFailed(peer, call, {"kind": error.kind, "message": f"its answer to {call}: {error}"})


def show_failure(error: BaseException, failure: Failure) -> None:
    """Print what went wrong where the supervisor keeps a process's last words.

    What somebody else answered, or failed to answer, is his to print.
    """
    if isinstance(error, CallFailed | DeadlineExceeded | PeerLost):
        return
    text = failure.traceback or f"{type(error).__name__}: {failure.message}\n"
    sys.stderr.write(f"{text}{failure.where}\n" if failure.where else text)
    sys.stderr.flush()


def _traceback(error: BaseException) -> str:
    """Return the traceback from the first frame that is neither ours nor that of the loop of async hooks."""
    frames = list(traceback.extract_tb(error.__traceback__))
    shown = list(dropwhile(_between, frames)) or frames
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(shown)]
    told = traceback.TracebackException(type(error), error, None)
    if isinstance(error, AuthorError):
        told.__notes__ = None  # they are `where`
    lines += told.format_exception_only()
    return "".join(lines)[-_TRACEBACK_CHARS_MAX:]


def _between(frame: traceback.FrameSummary) -> bool:
    path = frame.filename.replace("\\", "/")
    return any(part in path for part in _BETWEEN)
