"""Databases for tests and the bench: a server of PostgreSQL in a folder of its own; changes by hand of both engines."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_START_S = 60.0
PASSWORD = "swordfish"


def programs() -> Path | None:
    """Return the folder of the programs of the newest server that is installed, None if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


class Server:
    """Run a server; as root under the user `nobody`, whom a server does not refuse. `uri` names its database `test`.

    `within` is a command before those of the server, `folder` where its files lie.
    """

    def __init__(self, within: tuple[str, ...] = (), folder: Path | None = None, **settings: str) -> None:
        bin_folder = programs()
        assert bin_folder is not None, "the caller has looked"
        self._bin, self._within = bin_folder, within
        self._own = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="ganglion-pg-", dir="/tmp"))
        self.folder.chmod(0o755)
        self._data, self.log = self.folder / "data", self.folder / "log"
        self._settings = {"fsync": "on", "max_wal_size": "256MB", "log_min_messages": "fatal", **settings}
        self.port = _free_port()
        self.uri = f"postgresql://ada:{PASSWORD}@127.0.0.1:{self.port}/test"
        self.process: subprocess.Popen[bytes] | None = None
        if os.getuid() == 0:
            shutil.chown(self.folder, "nobody")
        secret = self.folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        words = [
            "-D",
            str(self._data),
            "-U",
            "ada",
            "-A",
            "scram-sha-256",
            f"--pwfile={secret}",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
        ]
        self._run("initdb", *words, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        self.start()
        self.sql("CREATE DATABASE test", "postgres")

    def _words(self, name: str, *words: str) -> list[str]:
        lower = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.getuid() == 0 else []
        return [*self._within, *lower, str(self._bin / name), *words]

    def _run(self, name: str, *words: str) -> None:
        done = subprocess.run(self._words(name, *words), capture_output=True, text=True, check=False, cwd="/")
        assert 0 == done.returncode, done.stdout + done.stderr

    def sql(self, text: str, database: str = "test") -> str:
        """Carry out statements; return the rows that they give as lines, columns between `|`."""
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        place = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "ada", "-d", database]
        words = [str(self._bin / "psql"), *place, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", text]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd="/")
        assert 0 == done.returncode, done.stderr
        return done.stdout.strip()

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        words = self._words("postgres", "-D", str(self._data), "-p", str(self.port), "-c", "listen_addresses=127.0.0.1")
        with self.log.open("ab") as log:
            places = [*words, "-c", f"unix_socket_directories={self.folder}", *options]
            self.process = subprocess.Popen(places, stdout=log, stderr=log, cwd="/", start_new_session=True)
        until_s = time.monotonic() + _START_S
        ready = [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False, cwd="/").returncode:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until_s, self.log.read_text()
            time.sleep(0.05)

    def kill(self, number: int = signal.SIGQUIT) -> None:
        """End it as a crash does, at once; `start` starts it again."""
        assert self.process is not None
        if self.process.poll() is None:
            os.killpg(self.process.pid, number) if self._within else self.process.send_signal(number)
        self.process.wait(_START_S)

    def close(self) -> None:
        self.kill()
        if self._own:
            shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def served(**how: Any) -> Iterator[Server]:
    """Give a server within a block; skip the test where none is installed."""
    import pytest

    if programs() is None:
        pytest.skip("needs PostgreSQL's server (Debian: apt install postgresql)")
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'ganglion-store[postgres]'")
    running = Server(**how)
    yield running
    running.close()


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """Make a folder a small file system of its own within a block; skip the test where none can be made."""
    import pytest

    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


_SCHEMAS = itertools.count()


def fresh(server: Server) -> str:
    """Return the URI of an empty schema of a server's database."""
    name = f"s{next(_SCHEMAS)}"
    server.sql(f"CREATE SCHEMA {name}")
    return f"{server.uri}?options=-csearch_path%3D{name}"


def change(uri: str, *statements: str) -> list[Any]:
    """Carry out statements as somebody does who has the database in his hands; return the rows of the last."""
    rows: list[Any] = []
    if uri.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(uri.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            for statement in statements:
                rows = connection.execute(statement).fetchall()
        return rows
    import psycopg

    with psycopg.connect(uri, autocommit=True) as session:
        for statement in statements:
            cursor = session.execute(statement)
            rows = cursor.fetchall() if cursor.description else []
    return rows
