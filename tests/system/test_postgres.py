from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import PASSWORD, Server, programs

pytestmark = pytest.mark.long

DOCUMENT = """
uid: two
seed: 3
version: "0.1"
schedule:
  - train:
      environments: [{environment: {uid: net, name: dummy, params: {max_iter: 300}}}]
      agents: [{name: ada, muscle: dummy, brain: dummy, objective: dummy, sensors: [net.0], actuators: [net.0]}]
      phase_config: {mode: train, episodes: 20, worker: 2}
run_config: {condition: vanilla}
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """Give a server of its own; skip where none is installed."""
    if programs() is None:
        pytest.skip("needs PostgreSQL's server (Debian: apt install postgresql)")
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'ganglion-store[postgres]'")
    running = Server()
    yield running
    running.close()


def words(store: str, *command: str) -> list[str]:
    """Return a command line on a store."""
    return [str(Path(sys.executable).with_name("ganglion")), "--store", store, *command]


def done(folder: Path, store: str, *command: str) -> tuple[int, str]:
    """Carry out a command in a folder; return its exit status, and what it said."""
    found = subprocess.run(words(store, *command), cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    return found.returncode, found.stdout + found.stderr


def test_a_run_waits_for_its_server_by_name_and_goes_on(server: Server, tmp_path: Path) -> None:
    """The server is killed in mid-run and comes back: the rows are those of an undisturbed run in a file."""
    (tmp_path / "two.yml").write_text(DOCUMENT)
    assert 0 == done(tmp_path, "sqlite:///other.db", "run", "two.yml", "--name", "calm")[0]
    run = words(server.uri, "--plain", "run", "two.yml", "--name", "stormy")
    with subprocess.Popen(run, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "episode=3 " in line and server.process is not None and server.process.poll() is None:
                server.kill()
            if "waiting" in line and "the store cannot be written" in line and server.process.poll() is not None:
                server.start()
    assert 0 == process.returncode, "".join(said)
    assert any("the store cannot be written" in line and "tries every second" in line for line in said)

    digests = [
        done(tmp_path, store, "verify", "--digest", run)
        for store, run in (("sqlite:///other.db", "calm"), (server.uri, "stormy"))
    ]
    assert digests[0] == digests[1]
    assert 0 == digests[0][0]


def test_a_password_of_the_environment_reaches_the_store_alone(server: Server, tmp_path: Path) -> None:
    """PGPASSWORD lets the run in; nothing that the run leaves has it."""
    (tmp_path / "two.yml").write_text(DOCUMENT.replace("episodes: 20", "episodes: 1"))
    store = server.uri.replace(f":{PASSWORD}@", "@")
    environment = {**os.environ, "PGPASSWORD": PASSWORD}
    subprocess.run(words(store, "run", "two.yml"), cwd=tmp_path, env=environment, check=True, capture_output=True)

    files = [path for path in (tmp_path / "results").rglob("*") if path.is_file()]
    assert [] == [path for path in files if PASSWORD.encode() in path.read_bytes()]
    assert len(files) > 5


def test_a_run_of_another_results_folder_is_neither_written_nor_taken_over(server: Server, tmp_path: Path) -> None:
    """Of two kernels with one id the second is refused by name, also when it resumes; the first one's run is whole."""
    for place in ("one", "other"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "two.yml").write_text(DOCUMENT)
    run = words(server.uri, "--plain", "run", "two.yml")
    with subprocess.Popen(run, cwd=tmp_path / "one", stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("episode.ended" in line for line in process.stdout)
        told = [done(tmp_path / "other", server.uri, *command) for command in (("run", "two.yml"), ("resume", "two-1"))]
        process.stdout.read()
    assert 0 == process.returncode
    for status, said in told:
        assert (1, True, False) == (status, "choose another id (--name)" in said, "next: " in said), said

    assert 0 == done(tmp_path / "one", server.uri, "verify", "two-1")[0]
