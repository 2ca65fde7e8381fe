"""Link: messages of JSON over a socket of this machine, each behind its length; a simulator as object or as program."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Link", "Object", "Program", "local_folder", "opened"]

MESSAGE_BYTES = 64 * 2**20  # a bound for what a program may say in one message
_FOLDER = "GANGLION_FOLDER"  # of the document, in the processes of a run; empty where it came over the network
_QUICKACK: int | None = getattr(socket, "TCP_QUICKACK", None)  # Linux
_REQUEST, _SUCCESS, _FAILURE = 0, 1, 2
Call = tuple[Any, ...]  # a hook of a simulator and its arguments


class Link:
    """Say and hear values of JSON over a connected socket, as mosaik does: four bytes of length, then the text.

    Args:
        connection: Is closed with the link.
        whose: Stands in errors.
        span_s: How long an answer may take.
    """

    def __init__(self, connection: socket.socket, whose: str, span_s: float) -> None:
        self._socket, self._whose = connection, whose
        self.span_s = span_s
        self._heard = bytearray()
        connection.settimeout(span_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def say(self, *values: Any) -> None:
        """Send values, all at once."""
        said = [json.dumps(value).encode() for value in values]
        self._socket.sendall(b"".join(part for data in said for part in (len(data).to_bytes(4, "big"), data)))

    def hear(self) -> Any:
        """Return the next value.

        Raises:
            ConnectionError: The other side has gone, or says more than MESSAGE_BYTES.
            TimeoutError: Nothing came in time.
        """
        try:
            length = int.from_bytes(self._exactly(4), "big")
            if length > MESSAGE_BYTES:
                raise ConnectionError(f"{self._whose}: expected at most {MESSAGE_BYTES} bytes, found {length}")
            return json.loads(self._exactly(length))
        except TimeoutError as error:
            raise TimeoutError(f"{self._whose} has not answered for {self.span_s:g} s") from error

    def _exactly(self, count: int) -> bytes:
        heard = self._heard
        while len(heard) < count:
            if _QUICKACK is not None:  # a program that sends two answers holds the second one back until this
                self._socket.setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)
            part = self._socket.recv(2**16)
            if not part:
                raise ConnectionError(f"{self._whose} has closed its connection")
            heard += part
        found = bytes(heard[:count])
        del heard[:count]
        return found

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class Object:
    """Ask a simulator that is a class of Python, in this process."""

    def __init__(self, path: str) -> None:
        module, colon, name = path.partition(":")
        if not colon:
            raise ValueError(f"simulator.python: expected `module:Class`, found {path!r}")
        self._simulator = getattr(importlib.import_module(module), name)()
        self.whose = f"simulator {path}"

    def ask(self, hook: str, *arguments: Any, **named: Any) -> Any:
        """Return what a method of it returns.

        Raises:
            TypeError: It asks mosaik something, which is not there.
        """
        found = getattr(self._simulator, hook)(*arguments, **named)
        if inspect.isgenerator(found) or inspect.iscoroutine(found):
            found.close()
            raise TypeError(f"{self.whose}: {hook} asks mosaik for something, and there is no scenario")
        return found

    def ask_all(self, *calls: Call) -> list[Any]:
        """Return what several methods of it return, called one after the other."""
        return [self.ask(hook, *arguments) for hook, *arguments in calls]

    def close(self) -> None:
        """Let it clean up."""
        self._simulator.finalize()


class Program:
    """Ask a simulator that is a program of any language: it is started, connects back, and is stopped with this.

    Args:
        command: With `%(addr)s` for host and port, `%(python)s` for this interpreter.
        folder: Where it is started; None is here.
        span_s: How long it may take to connect, and to answer.
    """

    def __init__(self, command: str, folder: str | None = None, span_s: float = 60.0) -> None:
        self.whose = f"simulator {command!r}"
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(span_s)
            host, port = server.getsockname()
            words = shlex.split(command % {"addr": f"{host}:{port}", "python": shlex.quote(sys.executable)})
            self._process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL)
            try:
                connection, _ = server.accept()
            except TimeoutError as error:
                self._stop()
                raise TimeoutError(f"{self.whose} has not connected within {span_s:g} s") from error
        self._link, self._number = Link(connection, self.whose, span_s), 0

    def ask(self, hook: str, *arguments: Any, **named: Any) -> Any:
        """Return what it answers.

        Raises:
            RuntimeError: It says that it failed, with its words.
        """
        return self._answers([[hook, list(arguments), named]])[0]

    def ask_all(self, *calls: Call) -> list[Any]:
        """Return what it answers to several requests, which are sent together: it answers one after the other.

        Raises:
            RuntimeError: It says that it failed in one of them, with its words.
        """
        return self._answers([[hook, arguments, {}] for hook, *arguments in calls])

    def _answers(self, asked: Sequence[list[Any]]) -> list[Any]:
        first = self._number + 1
        self._number += len(asked)
        self._link.say(*([_REQUEST, number, content] for number, content in enumerate(asked, first)))
        found: list[Any] = []
        while len(found) < len(asked):
            kind, number, content = self._link.hear()
            if kind == _REQUEST:
                why = f"{content[0]} is not answered here: there is no scenario"
                self._link.say([_FAILURE, number, ["NotImplementedError", why]])
            elif kind == _FAILURE:
                hook = asked[len(found)][0]
                raise RuntimeError(f"{self.whose}: {hook}: {', '.join(map(str, content[:2]))}")
            elif number == first + len(found):
                found.append(content)
        return found

    def close(self) -> None:
        """Tell it to stop, and see to it."""
        with contextlib.suppress(OSError):  # it has gone already
            self._link.say([_REQUEST, self._number + 1, ["stop", [], {}]])
        self._link.close()
        self._stop()

    def _stop(self) -> None:
        for stop in (None, self._process.terminate, self._process.kill):
            if stop is not None:
                stop()
            try:
                self._process.wait(timeout=5.0)
                return
            except subprocess.TimeoutExpired:
                continue


def local_folder() -> str | None:
    """Return the folder of a run's document, None where there is no run.

    Raises:
        ValueError: The document came over the network, or programs are denied: it starts none.
    """
    folder = os.environ.get(_FOLDER)
    if folder == "" or os.environ.get("GANGLION_COMMANDS") == "deny":
        raise ValueError("simulator: a document that came over the network starts none, nor one where that is denied")
    return folder


def opened(simulator: Mapping[str, Any], span_s: float) -> Object | Program:
    """Return a simulator by what a document says: `{python: "module:Class"}` or `{cmd: "...", cwd: ...}`.

    Raises:
        ValueError: It says neither, or both, or anything else.
    """
    folder = local_folder()
    if folder and folder not in sys.path:
        sys.path.append(folder)  # behind everything else, as for modules that a document names
    unknown = sorted(simulator.keys() - {"python", "cmd", "cwd"})
    if unknown or ("python" in simulator) == ("cmd" in simulator):
        raise ValueError(
            f"simulator: expected one of python and cmd (with cwd), found {', '.join(simulator) or 'none'}"
        )
    if "python" in simulator:
        return Object(str(simulator["python"]))
    return Program(str(simulator["cmd"]), simulator.get("cwd", folder), span_s)
