"""The warm parent: imports the modules that every participant needs, and forks participants in milliseconds.

The warm parent is a process of its own, started with `python -m ganglion.supervisor.launch.warm`. It has no bus socket,
no loop, no thread and no lock, so that a fork copies nothing that could hang. Orders are msgpack messages over a socket
pair, with the descriptors of the new process attached.

The warm parent forks twice. The intermediate process ends at once, so that the new process becomes a child of the
supervisor (which adopts orphans) and survives the warm parent. The parent-death signal is set only after that, because
it applies to the current parent. Then the parent is checked once more, because it may have ended in between.

Works on Linux; elsewhere participants are started by exec.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import random
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgpack

from ganglion import registry
from ganglion.errors import LaunchError
from ganglion.supervisor.launch.system import become, die_with_parent, name_process

Entry = Callable[[dict[str, str]], int]
IMPORT = "import"
ORDER_BYTES = 64 * 1024  # variables of one process; documents travel through its standard input
_FDS = 3  # standard input, output (both streams), descriptors of one order at most
_REPARENT_S = 2.0  # the intermediate process ends within a fraction of a millisecond


def main(arguments: Sequence[str]) -> int:
    """Serve orders; arguments: socket, supervisor's pid, `word=module:function` per entry, modules to import."""
    channel, supervisor = socket.socket(fileno=int(arguments[0])), int(arguments[1])
    die_with_parent()
    if os.getppid() != supervisor:
        return 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()  # a sixth of the import time, without effect; enabled again in the forked processes
    name_process("ganglion-warm")
    entries: dict[str, Entry] = {}
    for argument in arguments[2:]:
        word, equals, place = argument.partition("=")
        if equals:
            module, _, name = place.partition(":")
            entries[word] = getattr(importlib.import_module(module), name)
        else:
            importlib.import_module(argument)
    registry.entries("environment")  # the table of plugins is read once, not by each process
    _warm_up([])
    channel.send(msgpack.packb([0, os.getpid()]))
    serve(channel, entries, supervisor)
    sys.stdout.flush()
    os._exit(0)  # the usual teardown of all imported modules takes as long as a phase


def _warm_up(modules: Sequence[str]) -> None:
    """Import modules, and verify that a fork copies nothing that could hang; LaunchError if a thread was started."""
    for module in modules:
        importlib.import_module(module)
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - names of threads, not paths
    if threads != 1:
        raise LaunchError(f"expected one thread after the imports of the warm parent, found {threads}")
    gc.freeze()  # a collection in a child would otherwise copy every page that it reads


def serve(channel: socket.socket, entries: dict[str, Entry], supervisor: int) -> None:
    """Answer orders `[number, word, variables, name, user, mask]` by `[number, pid]` or `[number, 0, reason]`.

    `["import", modules]` has no answer; a module that cannot be imported, or starts a thread, ends the process.
    """
    while True:
        data, fds, _, _ = socket.recv_fds(channel, ORDER_BYTES, _FDS)
        if not data:
            return
        number, word, *rest = msgpack.unpackb(data)
        if number == IMPORT:
            _warm_up(word)
            continue
        go = -1
        try:
            if word not in entries:
                raise LaunchError(f"expected an entry of {sorted(entries)}, found {word!r}")
            pid, go = fork_twice(functools.partial(_begin, channel, fds, supervisor, entries[word], *rest))
            answer: list[Any] = [number, pid]
        except (OSError, LaunchError) as error:
            answer = [number, 0, str(error)]
        for fd in fds:
            os.close(fd)
        channel.send(msgpack.packb(answer))
        if go >= 0:
            with contextlib.suppress(BrokenPipeError):  # the process was killed; the supervisor detects its end
                os.write(go, b"g")
            os.close(go)


def fork_twice(begin: Callable[[], NoReturn]) -> tuple[int, int]:
    """Return the pid of a new grandchild, and the descriptor whose first byte starts `begin` there; OSError if none."""
    read, write = os.pipe()
    wait, go = os.pipe()
    middle = os.fork()
    if middle == 0:
        os.close(go)
        _fork_again(read, write, wait, begin)
    os.close(write)
    os.close(wait)
    text = os.read(read, 32)
    os.close(read)
    os.waitpid(middle, 0)
    if not text:
        os.close(go)
        raise OSError("the second fork failed: too many processes, or too little memory")
    return int(text), go


def _fork_again(read: int, write: int, wait: int, begin: Callable[[], NoReturn]) -> NoReturn:
    middle = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os._exit(1)
    if pid:
        os.write(write, str(pid).encode())
        os._exit(0)
    os.close(read)
    os.close(write)
    until_s = time.monotonic() + _REPARENT_S
    while os.getppid() == middle:
        if time.monotonic() > until_s:
            os._exit(1)
        time.sleep(0.0001)
    if not os.read(wait, 1):
        os.kill(os.getpid(), signal.SIGKILL)  # an exit status would be taken for one of its program
    os.close(wait)
    try:
        begin()
    except BaseException:  # noqa: BLE001 - no error may produce a second warm parent
        traceback.print_exc()
    finally:
        os._exit(1)


def _begin(
    channel: socket.socket,
    fds: list[int],
    supervisor: int,
    entry: Entry,
    variables: dict[str, str],
    name: str,
    user: Sequence[Any] | None,
    mask: int | None,
) -> NoReturn:
    if mask is not None:
        os.umask(mask)
    if user is not None:
        become(*user)  # first: the rest would not survive the change of user
    die_with_parent()
    if os.getppid() != supervisor:
        os._exit(1)  # the supervisor has ended, or cannot adopt: this process would not be watched
    os.setsid()
    channel.close()
    for target, fd in enumerate([fds[0], fds[1], fds[1]]):
        os.dup2(fd, target)
    for fd in fds:
        if fd > 2:
            os.close(fd)
    for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    name_process(name)
    gc.enable()
    random.seed()  # otherwise every process would continue with the same state of the random generator
    enter(entry, variables)


def enter(entry: Entry, variables: dict[str, str]) -> NoReturn:
    """Run the entry of a new process and end it with its status; an uncaught error is printed to stderr."""
    status = 1
    # New streams: the old ones keep state of the warm parent's descriptors.
    sys.stdout, sys.stderr = (
        open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        for fd in (1, 2)
    )
    try:
        status = entry(variables)
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:  # noqa: BLE001 - the outermost frame of the process: an error is reported here or never
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # the reader has closed the pipe
                stream.flush()
        os._exit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
