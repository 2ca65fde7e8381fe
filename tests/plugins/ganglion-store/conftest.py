"""A run as its writers tell it, for all tests of the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from commandline import ganglion as ganglion
from commandline import write_run as write_run
from databases import Server, fresh, served

from ganglion.sdk.store import StoreUnavailable
from ganglion_store import statements as sql
from ganglion_store.reader import SqlReader
from ganglion_store.writer import SqlWriter

pack = msgpack.packb
Record = list[Any]


class Teller:
    """Say the records of small episodes: environment `grid` and agent `ada`, scalars only."""

    def begin(self, uid: str = "demo", phase: int = 0, agents: tuple[str, ...] = ("ada",)) -> list[Record]:
        run = {"uid": uid, "experiment": "e", "seed": "42", "document": "", "started": "2030-01-01T00:00:00Z"}
        records: list[Record] = [["run", run], *self.declare(phase, "grid", None)]
        for agent in agents:
            records += self.declare(phase, None, agent)
        return [*records, ["phase", phase, "first", "train", "running", None]]

    def declare(self, phase: int, environment: str | None, agent: str | None) -> list[Record]:
        lists = {"sensor": ["grid.a", "grid.b"], "actuator": ["grid.x", "grid.y"], "reward": ["grid.r"]}
        return [
            ["declare", phase, environment, agent, kind, [[i, "Box", None, "<f8", []] for i in ids]]
            for kind, ids in lists.items()
        ]

    def steps(self, episode: int, first: int, count: int, worker: int = 0, **key: Any) -> Record:
        rows = [
            [n, n, n, None, pack([float(n), episode]), pack([0.5, None]), pack([float(n)]), False, False]
            for n in range(first, first + count)
        ]
        return ["steps", 0, key.get("mode", "train"), worker, key.get("environment", "grid"), episode, rows]

    def actions(self, episode: int, first: int, count: int, worker: int = 0, **key: Any) -> Record:
        rows = [
            [0, n, n, pack([float(n), None]), pack([0.5, 1.0]), None, pack([2.0]), 0.5 * n, False, False, None]
            for n in range(first, first + count)
        ]
        return ["actions", 0, key.get("mode", "train"), worker, key.get("agent", "ada"), episode, rows]

    def seal(self, episode: int, steps: int, worker: int = 0, **key: Any) -> Record:
        place = [0, key.get("mode", "train"), worker, key.get("environment"), episode]
        return ["episode", *place, steps, True, False, key.get("reason", "environment"), key.get("round", episode)]

    def whole(self, episode: int, steps: int = 3, worker: int = 0, **key: Any) -> list[Record]:
        rows = [self.steps(episode, 1, steps, worker, **key), self.actions(episode, 0, steps, worker, **key)]
        return [*rows, self.seal(episode, steps, worker, **key)]

    def fill(self, writer: SqlWriter) -> int:
        """Write episodes until that fails; return how many were written."""
        for episode in range(10_000):
            writer.apply("c", self.whole(episode, 200))
            try:
                writer.commit()
            except StoreUnavailable:
                return episode
        raise AssertionError("the disk is never full")


@pytest.fixture
def age() -> Callable[[Path, int], None]:
    """Return a function that makes a store one of an earlier revision."""

    def change(path: Path, revision: int) -> None:
        columns = {"stored_actions": ", policy TEXT, policy_version BIGINT, late_reward FLOAT"}
        columns |= {"stored_steps": ", bodies BLOB"} if revision < 4 else {}
        connection = sqlite3.connect(path, isolation_level=None)
        for (view,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall():
            connection.execute(f"DROP VIEW {view}")
        for name in [
            "stored_resets",
            "stored_opponents",
            "stored_ratings",
            *(["stored_bodies"] if revision < 4 else []),
        ]:
            connection.execute(f"DROP TABLE {name}")
        for name, later in columns.items():
            made = next(text for text in sql.CREATE if text.startswith(f"CREATE TABLE {name} "))
            connection.execute(f"ALTER TABLE {name} RENAME TO newer")
            assert later in made
            connection.execute(made.replace(later, ""))
            kept = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
            connection.execute(f"INSERT INTO {name} SELECT {', '.join(kept)} FROM newer")
            connection.execute("DROP TABLE newer")
        connection.execute("CREATE VIEW steps AS SELECT segment, step, sensors FROM stored_steps")
        connection.execute("UPDATE ganglion_store SET revision = ?", (revision,))
        connection.close()

    return change


@pytest.fixture
def tell() -> Teller:
    """Return who says the records."""
    return Teller()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Give a server of PostgreSQL."""
    with served() as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URI of a store that is not there yet, of each engine; `only_sqlite` takes that one alone."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ganglion.db"
    return fresh(request.getfixturevalue("server"))


@pytest.fixture
def writer(uri: str, tell: Teller) -> Iterator[SqlWriter]:
    """Return a writer of run `demo-1`, of which the first records are committed."""
    with SqlWriter(uri, "demo-1") as opened:
        opened.apply("governor", tell.begin())
        opened.commit()
        yield opened


@pytest.fixture
def read(uri: str) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Return a function that reads a table on a connection of its own."""
    readers: list[SqlReader] = []

    def rows(table: str, *args: Any, **options: Any) -> list[dict[str, Any]]:
        if not readers:
            readers.append(SqlReader(uri))
        return list(readers[0].rows(table, *args, **options))

    yield rows
    for reader in readers:
        reader.close()
