from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the warm parent works on Linux")


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
