from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ganglion.transport.curve import new_pair

DOCUMENT = Path(__file__).parents[1] / "documents" / "attached.yml"
GANGLION = str(Path(sys.executable).with_name("ganglion"))
WAIT_S = 30.0


@dataclass(slots=True)
class Elsewhere:
    """Be another place, which knows of a kernel nothing but a copy of its connection file for other machines."""

    folder: Path
    kernel: subprocess.Popen[str]
    results: Path
    file: Path
    said: list[str]

    def variables(self) -> dict[str, str]:
        """Return variables under which no other kernel is found."""
        mine = {name: value for name, value in os.environ.items() if not name.startswith("GANGLION_")}
        return {**mine, "XDG_RUNTIME_DIR": "", "TMPDIR": str(self.folder)}

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [GANGLION, "--kernel", str(self.file), *words],
            cwd=self.folder, env=self.variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def finish(self, command: subprocess.Popen[str]) -> tuple[int, str]:
        """Wait for the end of a command; return its status and all that it said."""
        said = "".join(command.communicate(timeout=WAIT_S))
        self.said.append(said)
        return command.returncode, said

    def run(self, *words: str) -> tuple[int, str]:
        """Carry out a command in this place."""
        return self.finish(self.begin(*words))


@contextlib.contextmanager
def kernel() -> Iterator[Elsewhere]:
    """Start a kernel that listens with CURVE at a loopback address; yield another place that has its file."""
    with tempfile.TemporaryDirectory(prefix="gr-", dir="/tmp") as text:
        folder = Path(text)
        for name in ("here", "there"):
            (folder / name).mkdir(mode=0o700)
        results = folder / "here" / "results"
        variables = {**os.environ, "XDG_RUNTIME_DIR": "", "TMPDIR": str(folder / "here")}
        words = [GANGLION, "--results", str(results), "kernel", "--bind", "tcp://127.0.0.1:0", "--parallel", "3"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=variables) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(3)]
            found = re.fullmatch(r"connection file for other machines (.*)\n", lines[2])
            assert found is not None, lines
            file = folder / "there" / "kernel.json"
            shutil.copy2(found[1], file)
            yield Elsewhere(folder / "there", process, results, file, lines)
            process.terminate()
            process.communicate(timeout=WAIT_S)


@pytest.fixture(scope="module")
def shared() -> Iterator[Elsewhere]:
    """Share one kernel among tests that do not end it."""
    with kernel() as place:
        yield place


@pytest.fixture
def place(shared: Elsewhere, tmp_path: Path) -> Elsewhere:
    """Return a place with a copy of its own of the file of a kernel that all tests share."""
    file = tmp_path / "copied.json"
    shutil.copy2(shared.file, file)
    return replace(shared, file=file)


def secrets(tree: Any) -> set[str]:
    """Return the tokens and secret keys of a connection file."""
    found: set[str] = set()
    for key, value in tree.items():
        if isinstance(value, dict):
            found |= secrets(value)
        elif key.endswith("token") or key == "secret_key":
            found.add(value)
    return found


def test_a_kernel_is_used_from_elsewhere() -> None:
    """Submit, ps, attach, signal, stop, status and leave work with a copied file alone; no secret is left anywhere."""
    with kernel() as place:
        _use(place)


def _use(place: Elsewhere) -> None:
    tree = json.loads(place.file.read_text())
    assert tree["endpoint"].startswith("tcp://127.0.0.1:")
    assert 0o600 == place.file.stat().st_mode & 0o777
    assert 6 == len(secrets(tree))

    followed = place.begin("--plain", "submit", "--wait", "--name", "first", str(DOCUMENT))
    attached = place.begin("attach", "environment", "dummy", "--as", "myenv", "--wait")
    assert 0 == place.finish(attached)[0]
    assert 0 == place.finish(followed)[0], place.said[-1]

    assert (0, "second\n") == place.run("submit", "--name", "second", str(DOCUMENT))
    status, listed = place.run("ps", "--json")
    assert 0 == status
    assert "broker" in listed
    status, said = place.run("signal", "second", "RESET")
    assert 1 == status
    assert re.search("no phase is running|is starting", said), said
    status, said = place.run("stop", "second", "--now")
    assert (0, "run second: stopping now\n") == (status, said)
    status, said = place.run("kernel", "status")
    assert 0 == status, said
    assert f"endpoint {tree['endpoint']}\n" in said

    assert 0 == place.run("kernel", "stop")[0]
    log, _ = place.kernel.communicate(timeout=WAIT_S)
    assert 0 == place.kernel.returncode
    written = [path.read_bytes() for path in place.results.rglob("*") if path.is_file()]
    everything = b"".join([*written, log.encode(), "".join(place.said).encode()])
    assert b"attached" in everything
    assert [] == [secret for secret in secrets(tree) if secret.encode() in everything]
    assert [] == [path for path in place.results.rglob("*") if path.name in ("connection.json", "remote.json")]


TOO_MANY = "|did not answer HELLO"  # one address is told of one wrong token in a second


def _unlisted(tree: dict[str, Any]) -> None:
    pair = new_pair()
    for right in ("operator", "observer", "attach"):
        tree["curve"][right] = {"public_key": pair.public, "secret_key": pair.secret}


def _another_server(tree: dict[str, Any]) -> None:
    tree["curve"]["server_key"] = new_pair().public


def _another_key(tree: dict[str, Any]) -> None:
    tree["curve"]["operator"] = tree["curve"]["observer"]


def _another_token(tree: dict[str, Any]) -> None:
    tree["operator_token"] = tree["attach_token"]


def _no_keys(tree: dict[str, Any]) -> None:
    tree["curve"] = None


@pytest.mark.parametrize(
    ("change", "status", "found"),
    [
        (_unlisted, 1, "does not admit the key"),
        (_another_server, 1, "does not have the expected server key"),
        (_another_key, 1, "it is not for the key of this connection" + TOO_MANY),
        # while a run waits for somebody the token for attaching is known, and is for another key
        (_another_token, 1, "no participant is expected with it|it is not for the key of this connection" + TOO_MANY),
        (_no_keys, 1, "it closed the connection"),
    ],
)
def test_a_changed_file_opens_nothing(
    place: Elsewhere, change: Callable[[dict[str, Any]], None], status: int, found: str
) -> None:
    """Unlisted keys, another server's key, another right's key or token: each is refused with its reason."""
    tree = json.loads(place.file.read_text())
    change(tree)
    place.file.write_text(json.dumps(tree))
    ended, said = place.run("kernel", "status")

    assert status == ended
    assert re.search(found, said), said


def test_while_nobody_is_awaited_there_is_no_key_for_attaching(place: Elsewhere) -> None:
    """Who comes to attach while no run waits for anybody does not even get through the handshake."""
    status, said = place.run("attach", "environment", "dummy", "--as", "myenv")

    assert (1, True) == (status, "does not admit the key" in said), said


def test_a_file_that_others_may_read_is_refused(place: Elsewhere) -> None:
    """A copy that others can read is not used, and nothing is sent."""
    place.file.chmod(0o644)
    status, said = place.run("ps")

    assert 2 == status
    assert "mode 0600" in said
