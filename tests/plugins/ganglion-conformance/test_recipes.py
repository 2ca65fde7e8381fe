"""Programs in other languages: built by recipes, started and heard."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zmq

from ganglion.errors import DocumentError, LaunchError, PeerLost
from ganglion.transport.curve import new_pair
from ganglion_conformance.drivers import AttachedDriver, CurveListener, NativeListener, Place, ProgramDriver
from ganglion_conformance.new import foreign_skeleton
from ganglion_conformance.recipes import Probe, Program, Recipe, build, lacking, read_recipes, recipe_table

RIGHT = """\
one:
  language: One
  packages: gcc
  probe: [{try: "true", lacks: gcc}]
  build: cc pendulum.c
  run: ["{folder}/a.out"]
  auth: tested
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a recipe and its source."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "pendulum.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "recipes.yml").write_text(RIGHT)
    return tmp_path


def test_recipe_is_read(folder: Path) -> None:
    """A recipe has its own files as sources, and the usual role."""
    recipe = read_recipes(folder)["one"]

    assert ("One", "environment", True) == (recipe.language, recipe.role, recipe.curve)
    assert ["pendulum.c"] == [source.name for source in recipe.sources]
    assert "| One | `one/` | `gcc` | `cc pendulum.c` | `./a.out` | tested |" in recipe_table({"one": recipe})


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("  auth: tested\n", "", ":2:3: auth: Field required"),
        ("auth: tested", "auth: maybe", ":7:9: auth: Input should be 'tested', 'library' or 'token'"),
        ("  build:", "  bulid:", "bulid: Extra inputs are not permitted"),
        ("try:", "tyr:", "probe.0.try: Field required"),
        ('["{folder}/a.out"]', "a.out", ":6:8: run: Input should be a valid tuple"),
        ("  auth:", "  uses: [../two/x.c]\n  auth:", "expected the file"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, old: str, new: str, text: str) -> None:
    """A faulty recipe is refused with the place of its fault."""
    (folder / "recipes.yml").write_text(RIGHT.replace(old, new))

    with pytest.raises(DocumentError) as caught:
        read_recipes(folder)
    assert text in str(caught.value)
    assert "recipes.yml:" in str(caught.value)


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """Return a recipe for a program in the language of the shell."""
    source = tmp_path / "hello.sh"
    source.write_text("cat $1 words\n")
    words = {"language": "Shell", "packages": "dash", "run": ("sh", "{folder}/hello.sh"), "auth": "token"}
    return Recipe(name="shell", probe=(Probe(line="true", lacks="sh"),), sources=(source,), **words)


def changed(recipe: Recipe, **fields: Any) -> Recipe:
    """Return a recipe with other fields."""
    return recipe.model_copy(update=fields)


def test_what_lacks_is_the_first_probe_that_fails(recipe: Recipe) -> None:
    """A probe that fails names what is missing; commands that there are not are no error of ours."""
    assert lacking(recipe) is None
    more = Probe(line="no-such-command --version", lacks="no-such (its package)"), Probe(line="false", lacks="x")

    assert "Shell: no no-such (its package)" == lacking(changed(recipe, probe=(*recipe.probe, *more)))


def test_program_is_built_once(recipe: Recipe, tmp_path: Path) -> None:
    """Sources, extra files and what was fetched are together when it is built, and it is not built again."""
    recipe = changed(
        recipe,
        run=(*recipe.run, "{fetched}/got"),
        fetch="echo fetched > got",
        files={"deep/extra": "extra\n"},
        build='cat deep/extra "$GANGLION_FETCHED/got" > words; mkdir -p ../count; mktemp ../count/XXXXXX',
        variables={"HERE": "{folder}"},
    )
    made = [build(recipe, tmp_path / "cache") for _ in range(2)]
    assert isinstance(made[0], Program)
    folder = Path(made[0].variables["HERE"])
    said = subprocess.run(made[0].argv, cwd=folder, capture_output=True, text=True, check=True).stdout

    assert made[0] == made[1]
    assert "fetched\nextra\nfetched\n" == said
    assert 1 == len(list((tmp_path / "cache" / "count").iterdir()))


def test_failing_build_is_an_error_and_leaves_nothing(recipe: Recipe, tmp_path: Path) -> None:
    """A build that fails raises with the compiler's words; the next attempt is not fooled by its remains."""
    broken = changed(recipe, build="echo line 7: no semicolon; exit 3")
    for _ in range(2):
        with pytest.raises(LaunchError, match="line 7: no semicolon"):
            build(broken, tmp_path / "cache")

    assert [] == list((tmp_path / "cache").iterdir())


def test_what_cannot_be_fetched_is_said(recipe: Recipe, tmp_path: Path) -> None:
    """Who cannot fetch skips: the answer is a sentence, no program."""
    found = build(changed(recipe, fetch="echo no network; false"), tmp_path / "cache")

    assert "Shell: `echo no network; false` failed: no network" == found


def test_a_program_is_built_from_copies(tmp_path: Path) -> None:
    """The build of a program in another language follows its recipe: files, what is fetched, the build, the command."""
    source = tmp_path / "pendulum.x"
    source.write_text("#!/bin/sh\necho it runs, with $(cat kept)\n")
    recipe = Recipe(
        name="x",
        language="X",
        packages="x-tools",
        probe=(Probe(line="true", lacks="x"),),
        run=("sh", "{folder}/pendulum"),
        auth="token",
        sources=(source,),
        fetch="cat settings > kept",
        build='cp "$GANGLION_FETCHED/kept" . && cp pendulum.x pendulum',
        files={"settings": "a word\n"},
    )
    for path, text in foreign_skeleton(recipe, "mine").items():
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / path).write_text(text)
    for _ in range(2):  # it can be built again
        subprocess.run(["sh", "mine/build.sh"], cwd=tmp_path, check=True, timeout=30)
    said = subprocess.run(["sh", "pendulum"], cwd=tmp_path / "mine/build", capture_output=True, text=True)

    assert 'command: ["sh", "build/pendulum"]' in (tmp_path / "mine/run.yml").read_text()
    assert "it runs, with a word\n" == said.stdout


PLACE = Place("environment", "kit/environment/a/0", "token")
HELLO = """\
import os, sys, zmq
dealer = zmq.Context().socket(zmq.DEALER)
dealer.linger = 500
for name in ("SERVER", "PUBLIC", "SECRET"):
    if f"GANGLION_{name}_KEY" in os.environ:
        setattr(dealer, f"curve_{name.lower()}key", os.environ[f"GANGLION_{name}_KEY"].encode())
dealer.connect(os.environ["GANGLION_ENDPOINT"])
dealer.send_multipart([b"", os.environ["GANGLION_NAME"].encode(), os.environ.get("GANGLION_SILENCE_MS", "").encode()])
frames = dealer.recv_multipart() if dealer.poll(2000) else []
sys.stderr.write(f"heard {len(frames)} frames\\n")
dealer.close()
sys.exit(7)
"""


@pytest.mark.parametrize("curve", ["", "right"])
def test_program_is_heard_and_told(curve: str) -> None:
    """A program finds its place in variables, over CURVE too; its end, status and words are known."""
    place = Place(PLACE.role, PLACE.name, PLACE.token, curve, 1234)
    peer = ProgramDriver([sys.executable, "-c", HELLO]).start(place)
    try:
        assert [b"", PLACE.name.encode(), b"1234"] == peer.receive(20.0)
        peer.send([b"a", bytes(100_000), b""])
        end = peer.ended(20.0)

        assert end is not None
        assert (7, "heard 3 frames\n") == (end.status, end.words)
    finally:
        peer.stop()


def test_program_that_cannot_be_started_is_named() -> None:
    """What is no program is an error of its own."""
    with pytest.raises(LaunchError, match=r"\./nowhere: No such file"):
        ProgramDriver(["./nowhere"]).start(PLACE)


def test_attached_program_is_told_where_to_go(capsys: pytest.CaptureFixture[str]) -> None:
    """The variables of the place are printed, and a client that takes them is heard."""
    peer = AttachedDriver("world").start(PLACE)
    try:
        said = dict(line.split("=", 1) for line in capsys.readouterr().err.splitlines() if "=" in line)

        assert (PLACE.name, PLACE.token) == (said["GANGLION_NAME"], said["GANGLION_TOKEN"])
        assert said["GANGLION_ENDPOINT"].startswith("tcp://127.0.0.1:")
        assert peer.ended(0.0) is None
    finally:
        peer.stop()


@pytest.fixture
def dealer() -> zmq.Socket[bytes]:
    """Return a DEALER of libzmq."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as made:
        made.linger = 0
        yield made


def test_who_waits_for_the_whole_greeting_gets_it() -> None:
    """A client that says nothing before it has heard 64 bytes is greeted."""
    listener = NativeListener()
    host, port = listener.endpoint.removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port))) as client:
        assert listener.receive(0.5) is None
        client.settimeout(10.0)
        greeting = b""
        while len(greeting) < 64:
            greeting += client.recv(64)

    assert 64 == len(greeting)
    listener.close()


def test_other_socket_type_is_no_peer(dealer: zmq.Socket[bytes]) -> None:
    """A publisher is never heard."""
    listener = NativeListener()
    with dealer.context.socket(zmq.PUB) as publisher, contextlib.suppress(PeerLost):
        publisher.linger = 0
        publisher.connect(listener.endpoint)
        publisher.send_multipart([b"", b"hello"])

        assert listener.receive(0.3) is None
    listener.close()


def test_curve_lets_in_who_knows_the_key(dealer: zmq.Socket[bytes]) -> None:
    """A client with the server's public key is heard and told, another one is not."""
    server, client, other = new_pair(), new_pair(), new_pair()
    listener = CurveListener(server)
    dealer.curve_publickey, dealer.curve_secretkey = client.public.encode(), client.secret.encode()
    dealer.curve_serverkey = server.public.encode()
    dealer.connect(listener.endpoint)
    dealer.send_multipart([b"", b"in"])
    assert [b"", b"in"] == listener.receive(10.0)
    listener.send([b"back"])
    assert [b"back"] == dealer.recv_multipart()

    with dealer.context.socket(zmq.DEALER) as stranger:
        stranger.linger = 0
        stranger.curve_publickey, stranger.curve_secretkey = client.public.encode(), client.secret.encode()
        stranger.curve_serverkey = other.public.encode()
        stranger.connect(listener.endpoint)
        stranger.send_multipart([b"", b"out"])
        assert listener.receive(0.3) is None
    listener.close()
    with pytest.raises(PeerLost, match="we closed"):
        listener.receive(0.0)
