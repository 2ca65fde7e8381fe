"""A dealer: a participant as a script of a few lines, with pyzmq and msgpack and without anything of ours."""

from __future__ import annotations

_SCRIPT = """\
import msgpack, os, sys, zmq
dealer = zmq.Context().socket(zmq.DEALER)
dealer.linger = 500
dealer.connect(os.environ["GANGLION_ENDPOINT"])
def send(to, head, body): dealer.send_multipart([to, msgpack.packb(head), msgpack.packb(body)])
who = {"name": os.environ["GANGLION_NAME"], "token": os.environ["GANGLION_TOKEN"]}
send(b"", [1, 1], {"version": 1, "role": "ROLE", **who})
verb, count = 0, 0
while verb != 10:
    source, head, body = dealer.recv_multipart()[:3]
    verb, serial, call = [*msgpack.unpackb(head), None][:3]
    ANSWER
    if verb == 3: send(source, [4, serial], answer)
    if verb == 5: raise SystemExit(msgpack.unpackb(body)["message"])
    if verb == 8: send(b"", [8, serial, "here"], {})
    if verb == 10: send(b"", [10, serial], {})
dealer.close()
"""


def dealer(role: str, *lines: str) -> str:
    """Return the script of a role; `lines` make `answer` from `call`, and count what they like in `count`."""
    return _SCRIPT.replace("ROLE", role).replace("ANSWER", "\n    ".join(lines))
