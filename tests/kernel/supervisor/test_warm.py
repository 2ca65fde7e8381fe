from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import msgpack
import pytest

from ganglion.supervisor.linux import adopt_orphans

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the warm parent works on Linux")


@pytest.fixture
def channel(standin: Path) -> object:
    """Yield our end of the socket of a warm parent that knows the stand-in."""
    adopt_orphans()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    argv = [sys.executable, "-m", "ganglion.supervisor.warm", str(theirs.fileno()), str(os.getpid())]
    with subprocess.Popen([*argv, "msgpack", "peer=standin:main"], pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        ours.settimeout(10)
        assert [0, process.pid] == msgpack.unpackb(ours.recv(1024))
        yield ours
        ours.close()
        assert 0 == process.wait(timeout=10)


def _order(channel: socket.socket, number: int, word: str, variables: dict[str, str]) -> tuple[list[object], str]:
    """Give an order; return the answer and what the new process printed to its end."""
    read, write = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    socket.send_fds(channel, [msgpack.packb([number, word, variables, "x", None, None])], [null, write])
    os.close(null)
    os.close(write)
    answer = msgpack.unpackb(channel.recv(1024))
    with os.fdopen(read) as output:
        return answer, output.read()


def test_order_makes_a_process(channel: socket.socket) -> None:
    """An order is answered with its number and the new process, which is ours to wait for."""
    answer, output = _order(channel, 7, "peer", {"STATUS": "3"})
    number, pid = answer
    assert isinstance(pid, int)
    _, status = os.waitpid(pid, 0)

    assert (7, 3) == (number, os.waitstatus_to_exitcode(status))
    assert "variables ['STATUS']\n" == output


def test_error_that_nothing_caught_is_printed(channel: socket.socket) -> None:
    """A participant that raises ends with 1 and its traceback on its own output, not on the warm parent's."""
    (_, pid), output = _order(channel, 1, "peer", {"WHAT": "raise"})
    assert isinstance(pid, int)
    _, status = os.waitpid(pid, 0)

    assert 1 == os.waitstatus_to_exitcode(status)
    assert output.endswith("RuntimeError: boom\n")


_KILLING = """
import os, signal, socket
import msgpack
from ganglion.supervisor.linux import adopt_orphans
from ganglion.supervisor.warm import serve

class Killing(socket.socket):
    def send(self, data):
        number, pid = msgpack.unpackb(data)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return super().send(data)

adopt_orphans()
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
null = os.open(os.devnull, os.O_RDWR)
for number in (1, 2):
    socket.send_fds(ours, [msgpack.packb([number, "peer", {}, "x", None, None])], [null, null])
ours.shutdown(socket.SHUT_WR)
serve(Killing(fileno=theirs.detach()), {"peer": lambda variables: 0}, os.getpid())
print([msgpack.unpackb(ours.recv(1024))[0] for _ in range(2)])
"""


def test_a_process_killed_before_it_begins_leaves_the_warm_parent_alone() -> None:
    """Who is killed in the moment of the answer harms nobody: the next order is carried out."""
    done = subprocess.run([sys.executable, "-c", _KILLING], capture_output=True, text=True, timeout=30)

    assert ("[1, 2]\n", "") == (done.stdout, done.stderr)


def test_unknown_word_starts_nothing(channel: socket.socket) -> None:
    """An order names an entry that the warm parent was started with; anything else is refused with the reason."""
    answer, output = _order(channel, 2, "subprocess:run", {})

    assert ([2, 0, "expected an entry of ['peer'], found 'subprocess:run'"], "") == (answer, output)
