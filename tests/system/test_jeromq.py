"""JeroMQ, which shares no line with libzmq, on the other side of the native front.

It is looked for where Maven and Debian put it; `GANGLION_JEROMQ` names another jar. Releases before 0.4 speak ZMTP 2.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from ganglion.broker.core import Broker
from ganglion.broker.link import Admission, Note
from ganglion.transport.exchange import Exchange
from ganglion.transport.native import NativeFront
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, encode_head
from ganglion.wire.envelope import encode as encode_envelope
from ganglion.wire.messages import Hello
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

PLACES = (".m2/repository/org/zeromq/jeromq/*/jeromq-*.jar", "usr/share/java/jeromq-*.jar")
TOKEN = "t" * 43
NAME = "run-1/environment/hill/0"
SIZES = (0, 1, 254, 255, 256, 65_535, 65_536, 1_000_000)
WAIT_S = 20.0

CLIENT = """
import org.zeromq.ZMQ;

public class Client {
    static byte[] bytes(String hex) {
        byte[] made = new byte[hex.length() / 2];
        for (int i = 0; i < made.length; i++) made[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        return made;
    }

    // Each argument behind the endpoint is a message: its frames in hexadecimal digits, with commas in between;
    // `#` and a number stands for a frame of so many bytes. After each, one message is awaited and printed.
    public static void main(String[] arguments) {
        ZMQ.Context context = ZMQ.context(1);
        ZMQ.Socket socket = context.socket(ZMQ.DEALER);
        socket.setLinger(0);
        socket.setReceiveTimeOut(5000);
        socket.connect(arguments[0]);
        for (int i = 1; i < arguments.length; i++) {
            String[] frames = arguments[i].split(",", -1);
            for (int j = 0; j < frames.length; j++) {
                boolean sized = frames[j].startsWith("#");
                byte[] frame = sized ? new byte[Integer.parseInt(frames[j].substring(1))] : bytes(frames[j]);
                if (j < frames.length - 1) socket.sendMore(frame); else socket.send(frame, 0);
            }
            byte[] first = socket.recv(0);
            if (first == null) { System.out.println("nothing"); break; }
            StringBuilder line = new StringBuilder().append(first.length);
            while (socket.hasReceiveMore()) line.append(' ').append(socket.recv(0).length);
            System.out.println(line);
        }
        socket.close();
        context.term();
    }
}
"""


def jar() -> Path | None:
    """Return the newest JeroMQ of this machine, None if there is none."""
    given = os.environ.get("GANGLION_JEROMQ")
    if given:
        return Path(given)
    found = [*Path.home().glob(PLACES[0]), *Path("/").glob(PLACES[1])]
    return max(found, key=version, default=None)


def version(path: Path) -> tuple[int, ...]:
    """Return the release that a jar's name tells."""
    found = re.search(r"jeromq-(\d+)\.(\d+)", path.name)
    return tuple(map(int, found.groups())) if found else (0, 0)


JAR = jar()
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the source of the client; skip where nothing carries it out."""
    if shutil.which("java") is None:
        pytest.skip("there is no java")
    if JAR is None:
        pytest.skip("there is no JeroMQ (GANGLION_JEROMQ, Maven, Debian)")
    path = tmp_path_factory.mktemp("java") / "Client.java"
    path.write_text(CLIENT)
    return path


def say(client: Path, endpoint: str, *messages: str) -> list[str]:
    """Return what the client prints: of each answer the sizes of its frames, or `nothing`."""
    done = subprocess.run(
        ["java", "-cp", str(JAR), str(client), endpoint, *messages], capture_output=True, text=True, timeout=120
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout.splitlines()


def hexed(*frames: bytes) -> str:
    """Return a message as the client takes it; a frame of zeros by its length."""
    return ",".join(f"#{len(f)}" if f and not any(f) else f.hex() for f in frames)


class Served:
    """Serve a native front on loopback in a thread."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.front, self.endpoint = asyncio.run_coroutine_threadsafe(self._open(), self.loop).result(WAIT_S)

    async def _open(self) -> tuple[NativeFront, str]:
        digest = hashlib.sha256(TOKEN.encode()).digest()
        broker = self.broker = Broker(digest, "0", os.getpid(), self.loop.time())
        broker.admit(Admission(NAME, Role.ENVIRONMENT, "run-1", digest, uid="hill", worker=0))
        front = NativeFront(Exchange(broker, self.notes.append, self.loop.time, self.loop.call_later))
        return front, await front.listen("tcp://127.0.0.1:0")

    def close(self) -> None:
        """End it."""

        async def end() -> None:
            self.front.close()

        asyncio.run_coroutine_threadsafe(end(), self.loop).result(WAIT_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(WAIT_S)
        self.loop.close()


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a native front."""
    made = Served()
    yield made
    made.close()


HELLO = encode_envelope(Envelope("", Head(Verb.HELLO, 1), codec_of(Hello).encode(Hello(1, "environment", NAME, TOKEN))))
ASKED = [[b"", encode_head(Head(Verb.CALL, 2 + i, "kernel.info")), b"", bytes(size)] for i, size in enumerate(SIZES)]


def test_the_client_speaks(client: Path) -> None:
    """A ROUTER of libzmq hears each message of the client as it was said: the test's own half is right."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        port = router.bind_to_random_port("tcp://127.0.0.1")
        router.rcvtimeo = int(WAIT_S * 1000)
        heard: list[list[bytes]] = []

        def answer() -> None:
            for _ in ASKED:
                identity, *frames = router.recv_multipart()
                heard.append(frames)
                router.send_multipart([identity, b"ab", b"c"])

        thread = threading.Thread(target=answer)
        thread.start()
        said = say(client, f"tcp://127.0.0.1:{port}", *(hexed(*frames) for frames in ASKED))
        thread.join(WAIT_S)

    assert ASKED == heard
    assert ["2 1"] * len(ASKED) == said


def test_what_is_asked_is_answered(served: Served) -> None:
    """A DEALER of libzmq gets an answer of three frames to each of the questions: so may another one expect it."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger, dealer.rcvtimeo = 0, int(WAIT_S * 1000)
        dealer.connect(served.endpoint)
        for frames in (HELLO, *ASKED):
            dealer.send_multipart(frames)
            assert 3 == len(dealer.recv_multipart())


def test_a_dealer_of_jeromq_joins_and_asks(client: Path, served: Served) -> None:
    """It is welcomed, and questions with frames of all sizes are answered."""
    if JAR is None or version(JAR) < (0, 4):
        pytest.skip("this JeroMQ speaks ZMTP 2")
    said = say(client, served.endpoint, hexed(*HELLO), *(hexed(*frames) for frames in ASKED))

    assert 1 + len(ASKED) == len(said)
    assert all(3 == len(line.split()) for line in said), said


def test_an_old_jeromq_gets_nothing(client: Path, served: Served) -> None:
    """Who speaks ZMTP 2 ends with our greeting, or we with his; however often he connects again, he is nobody."""
    if JAR is None or version(JAR) >= (0, 4):
        pytest.skip("this JeroMQ speaks ZMTP 3")
    said = say(client, served.endpoint, hexed(*HELLO))

    assert ["nothing"] == said
    assert {} == served.broker.joined
    assert "error" not in {note.level for note in served.notes}
