"""Authors' code: classes loaded by name, hooks called so that errors name their object, or are tolerated."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

import numpy as np

from ganglion import registry
from ganglion.errors import AuthorError, CallFailed, DeadlineExceeded, GanglionError, PeerLost
from ganglion.sdk.part import construct
from ganglion.sdk.seed import derive, generator_from_words, integer_from_words
from ganglion.wire.messages import Failure, RunEvent
from ganglion.wire.name import topic

if TYPE_CHECKING:
    from ganglion.peer.participant import Participant


@dataclass(frozen=True, slots=True)
class Loader:
    """Load classes as the document of this run may name them: by entry point, or import path from allowed packages."""

    folder: str
    allow: tuple[str, ...]

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Loader:
        """Return the loader that the variables of a process describe."""
        allow = tuple(name for name in variables.get("GANGLION_ALLOW", "").split(",") if name)
        return cls(variables.get("GANGLION_FOLDER", ""), allow)

    def load(self, kind: str, name: str) -> type[Any]:
        """Return the class; PluginInvalid says what is wrong and whose it is."""
        found: type[Any] = registry.load(kind, name, folder=self.folder, allow=self.allow)
        return found

    def make(
        self,
        kind: str,
        plugin: Mapping[str, Any],
        attributes: Mapping[str, Any],
        params: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return a new object of the class that `plugin` names."""
        cls = self.load(kind, str(plugin["name"]))
        chosen = dict(plugin.get("params") or {}) if params is None else dict(params)
        offered = {"uid": attributes.get("uid", ""), "seed": attributes.get("seed", 0), "broker_uri": ""}
        return construct(cls, chosen, offered, {**attributes, "params": chosen})

    def blame(self, kind: str, name: str) -> str:
        """Return whose class it is, for error messages: `class Grid of ganglion-grid 0.3`."""
        cls = self.load(kind, name)
        distribution = registry.distribution_of(cls)
        return f"class {cls.__qualname__}" + (f" of {distribution}" if distribution else "")


_TEXT_CHARS_MAX = 4_000
_TRACEBACK_CHARS_MAX = 16_000
_BETWEEN = ("ganglion/peer/", "ganglion/sdk/part.py", "/asyncio/")  # frames that lead to an author's hook


def hook_failed(error: BaseException, where: str) -> AuthorError:
    """Return the error that stands for an exception of an author's hook; it keeps the exception as its cause."""
    wrapped = AuthorError(f"{type(error).__name__}: {error}")
    wrapped.add_note(where)
    wrapped.__cause__ = error
    return wrapped


def failure_of(error: BaseException) -> Failure:
    """Return the body of the ERROR that answers a call which raised `error`."""
    notes = getattr(error, "__notes__", [])
    where = "; ".join(notes) or None
    if isinstance(error, CallFailed):  # another peer failed: hand on which one, and its error
        culprit = {"peer": error.culprit}
        message, shown = error.remote_message[:_TEXT_CHARS_MAX], error.remote_traceback
        shown = None if shown is None else shown[-_TRACEBACK_CHARS_MAX:]
        return Failure(error.remote_kind, message, error.where, shown, data=culprit)
    text = str(error)[:_TEXT_CHARS_MAX]
    if isinstance(error, PeerLost | DeadlineExceeded):
        return Failure(error.kind, text, where, data={"peer": error.peer})
    if isinstance(error, AuthorError):
        cause = error.__cause__
        raised = error if cause is None else cause
        return Failure(error.kind, text, where, _traceback(raised))
    if isinstance(error, GanglionError):
        return Failure(error.kind, text, where)
    return Failure("internal", f"{type(error).__name__}: {text}", where, _traceback(error))


def is_loss(error: GanglionError) -> bool:
    """Return whether a call failed because its callee is lost."""
    return isinstance(error, PeerLost) or is_unreachable(error)


def is_unreachable(error: GanglionError) -> bool:
    """Return whether a call failed because the broker does not know its callee."""
    return isinstance(error, CallFailed) and error.remote_kind == "unreachable"


def wrong_answer(peer: str, call: str, error: GanglionError) -> CallFailed:
    """Return the error that names a peer whose reply is invalid."""
    return CallFailed(peer, call, {"kind": error.kind, "message": f"its answer to {call}: {error}"})


def show_failure(error: BaseException) -> Failure:
    """Print a failure to the output that the supervisor keeps, and return it.

    The error of another peer is printed by that peer.
    """
    failure = failure_of(error)
    if not isinstance(error, CallFailed | DeadlineExceeded | PeerLost):
        text = failure.traceback or f"{type(error).__name__}: {failure.message}\n"
        sys.stderr.write(f"{text}{failure.where}\n" if failure.where else text)
        sys.stderr.flush()
    return failure


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


EXCUSED = "excused"
"""The event that a process tells of itself: how many errors of authors it has tolerated."""
_REASON_CHARACTERS = 500


class Tolerated(Exception):
    """A hook raised, which is tolerated: there is no result."""


def continues(plugin: Mapping[str, Any] | None) -> bool:
    """Return whether the document tolerates exceptions of a plugin."""
    return plugin is not None and plugin.get("on_error") == "continue"


class ToleratedErrors:
    """Keep the tolerated errors of one host until they are reported; log each, and publish their number."""

    def __init__(self, participant: Callable[[], Participant | None], run: str) -> None:
        self._participant, self._run = participant, run
        self.due: list[dict[str, Any]] = []
        """Those that were not told yet: `issuer`, `hook` and `reason`, as the store gets them."""
        self._count = 0

    def take(self, issuer: str, hook: str, error: AuthorError) -> None:
        """Keep an error of a hook; raise it again if it is not its author's."""
        cause = error.__cause__
        if isinstance(cause, GanglionError) and not isinstance(cause, AuthorError):
            raise error
        if isinstance(cause, SystemExit | KeyboardInterrupt):  # which is no mistake in a step
            raise error
        failure = failure_of(error)
        reason = (str(error) if cause is not None else f"{type(error).__name__}: {error}")[:_REASON_CHARACTERS]
        self.due.append({"issuer": issuer, "hook": hook, "reason": reason})
        self._count += 1
        participant = self._participant()
        if participant is None or participant.playing:  # a predecessor has said so
            return
        where = failure.where or ""
        if participant.on_tolerated is not None:
            said = {"message": reason, "where": where, "traceback": failure.traceback}
            participant.on_tolerated({"issuer": issuer, "hook": hook, **said})
        else:
            sys.stderr.write(f"{failure.traceback or reason}\ntolerated: {where}\n")
            sys.stderr.flush()
        news = RunEvent(EXCUSED, {"count": self._count}, time.time())
        participant.tell(topic(self._run, "events"), "event", news)

    def pop(self) -> list[dict[str, Any]] | None:
        """Return the errors that are not reported yet, None if there are none."""
        due, self.due = self.due, []
        return due or None


class Hooks:
    """Call the hooks of one object.

    `where` says whose they are (`environment grid (worker 1), class Grid of ganglion-grid 0.3`); `step` is added to
    it when it is not None. With `tolerated_errors` what they raise is tolerated, in the name of `issuer`:
    `tolerate` calls as the object itself does, and raises Tolerated then.
    """

    def __init__(self, where: str, tolerated_errors: ToleratedErrors | None = None, issuer: str = "") -> None:
        self.where = where
        self.tolerated_errors, self.issuer = tolerated_errors, issuer
        # Of one whose errors are not tolerated they are the same, and cost the same.
        self.tolerate: Callable[..., Any] = self if tolerated_errors is None else self._tolerate
        self.step: int | None = None
        self.hook = ""
        """The one that was called last."""
        self._runner: asyncio.Runner | None = None

    @classmethod
    def of(
        cls,
        loader: Loader,
        kind: str,
        plugin: Mapping[str, Any],
        where: str,
        tolerated_errors: ToleratedErrors | None = None,
        issuer: str = "",
    ) -> Hooks:
        """Return the hooks of an object of the class that `plugin` names; it says whether errors are tolerated."""
        blame = loader.blame(kind, str(plugin["name"]))
        return cls(f"{where}, {blame}", tolerated_errors if continues(plugin) else None, issuer)

    def __call__(self, hook: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return what the hook returns; raises AuthorError for whatever it raises, an exit included."""
        self.hook = hook
        try:
            result = function(*args)
            return self._wait(result) if hasattr(result, "__await__") else result
        except AuthorError as error:
            error.add_note(self._place(hook))
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
                raise  # Ctrl-C at `ganglion attach`; where the signal is ignored, the author has raised it
            raise hook_failed(error, self._place(hook)) from error

    def excused(self, instead: Any, hook: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return what the hook returns, or `instead` if it raises a tolerated error."""
        try:
            return self.tolerate(hook, function, *args)
        except Tolerated:
            return instead

    def _tolerate(self, hook: str, function: Callable[..., Any], *args: Any) -> Any:
        """Return what the hook returns; raises Tolerated for a tolerated error."""
        assert self.tolerated_errors is not None
        try:
            return self(hook, function, *args)
        except AuthorError as error:
            self.tolerated_errors.take(self.issuer, hook, error)
            raise Tolerated from error

    def blame(self, hook: str, error: Exception) -> AuthorError:
        """Return the AuthorError for an exception of a hook that another object called."""
        if isinstance(error, AuthorError):
            error.add_note(self._place(hook))
            return error
        return hook_failed(error, self._place(hook))

    def _wait(self, awaitable: Any) -> Any:
        if self._runner is None:
            self._runner = asyncio.Runner()

        async def wait() -> Any:
            return await awaitable

        return self._runner.run(wait())

    @property
    def place(self) -> str:
        """The place of the newest call: whose object, the step, the hook."""
        return self._place(self.hook)

    def _place(self, hook: str) -> str:
        step = "" if self.step is None else f", step {self.step}"
        return f"{self.where}{step}, hook {hook}"

    def close(self) -> None:
        """End the loop of the async hooks, if there is one."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Add the name of a body to errors."""
    try:
        yield
    except GanglionError as error:
        error.add_note(f"body {name}")
        raise


def identity(words: bytes) -> dict[str, Any]:
    """Return the attributes `seed` and `rng` of an object that owns this stream."""
    return {"seed": integer_from_words(words), "rng": generator_from_words(words)}


def seed_process(words: bytes) -> None:
    """Seed `random` and numpy's global generator from an object's stream."""
    random.seed(derive(words, "random"))
    np.random.seed(np.frombuffer(derive(words, "numpy"), dtype="<u4"))  # noqa: NPY002 - authors may use it
