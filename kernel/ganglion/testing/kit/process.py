"""Drivers for programs: a command that the kit starts, or one that somebody else starts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from ganglion.errors import LaunchError
from ganglion.testing.kit.peer import End, Peer, Place
from ganglion.transport.curve import new_pair
from ganglion.transport.single import CurveListener, Listener, NativeListener

__all__ = ["AttachedDriver", "ProgramDriver"]

_WORDS = 2000  # characters of what a program said last that are kept


class _ProgramPeer:
    """Be one process of a program."""

    def __init__(self, listener: Listener, process: subprocess.Popen[bytes] | None, errors: Any) -> None:
        self._listener = listener
        self._process = process
        self._errors = errors
        self.receive = listener.receive
        self.send = listener.send
        self.cut = listener.close

    def terminate(self) -> None:
        """Ask the system to end it, by SIGTERM."""
        if self._process is not None:
            self._process.terminate()

    def ended(self, span_s: float) -> End | None:
        """Return how it ended, None if it has not within `span_s`."""
        if self._process is None:
            return None
        try:
            status = self._process.wait(span_s)
        except subprocess.TimeoutExpired:
            return None
        self._errors.seek(0)
        return End(status, self._errors.read().decode(errors="backslashreplace")[-_WORDS:])

    def stop(self) -> None:
        """Leave nothing of it behind: what it has started goes with it."""
        self._listener.close()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._errors.close()


class ProgramDriver:
    """Start a command with the variables of its place, and listen for it."""

    program = True
    again = True

    def __init__(self, argv: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
        self._argv = list(argv)
        self._variables = dict(variables or {})
        self.what = os.path.basename(argv[-1] if len(argv) > 1 else argv[0])  # noqa: PTH119 - no path is meant

    def start(self, place: Place) -> Peer:
        """Start it; LaunchError if it cannot be."""
        listener, variables = _listen(place)
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the peer's `stop`
        ours = {k: v for k, v in os.environ.items() if not k.startswith("GANGLION_") or k == "GANGLION_AUDIT"}
        try:
            process = subprocess.Popen(
                self._argv,
                env={**ours, **self._variables, **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            listener.close()
            errors.close()
            raise LaunchError(f"{self._argv[0]}: {error.strerror or error}") from error
        return _ProgramPeer(listener, process, errors)


class AttachedDriver:
    """Wait for a program that somebody else starts; tell on standard error by which variables it finds us."""

    program = False
    again = False

    def __init__(self, uid: str) -> None:
        self.what = uid

    def start(self, place: Place) -> Peer:
        """Listen, and say where."""
        listener, variables = _listen(place)
        for name, value in variables.items():
            sys.stderr.write(f"{name}={value}\n")
        sys.stderr.write("waiting for a program that is started with these variables\n")
        sys.stderr.flush()
        return _ProgramPeer(listener, None, tempfile.TemporaryFile())


def _listen(place: Place) -> tuple[Listener, dict[str, str]]:
    """Return a listener, and the variables by which a peer finds its place at it."""
    variables = {
        "GANGLION_NAME": place.name,
        "GANGLION_TOKEN": place.token,
        "GANGLION_ROLE": place.role,
        "GANGLION_INCARNATION": "1",
        "GANGLION_RUN": "kit",
    }
    if place.silence_ms is not None:
        variables["GANGLION_SILENCE_MS"] = str(place.silence_ms)
    listener: Listener
    if place.curve:
        server, other, client = new_pair(), new_pair(), new_pair()
        listener = CurveListener(server)
        variables["GANGLION_SERVER_KEY"] = (server if place.curve == "right" else other).public
        variables["GANGLION_PUBLIC_KEY"] = client.public
        variables["GANGLION_SECRET_KEY"] = client.secret
    else:
        listener = NativeListener()
    return listener, {"GANGLION_ENDPOINT": listener.endpoint, **variables}
