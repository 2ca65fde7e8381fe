"""The store: rows per second into SQLite and PostgreSQL, and the steps per second of runs with each against none.

Rows come ready encoded, 2,000 in an episode that is sealed by its own commit. References get the same rows in tables
without seals: `executemany` in transactions of 1,000 rows. PostgreSQL is a server of its own, with fsync.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

import msgpack
from bench_run import ROUNDS_MAX, meter
from measure import HERE, Options, Row, compare, interleave, placed

from ganglion_store.writer import SqlWriter

sys.path.append(str(HERE.parents[1] / "tests/kernel/source"))

STEPS = 1000  # of an episode; as many rows of steps, and of actions
RAW_GATE = {"SQLite": 0.6, "PostgreSQL": 2.0}  # x executemany
RUN_GATE = 0.9  # x --store none
TABLES = {  # of the references, with the types of their columns
    "steps": "bigint bigint bigint text bytea bytea bytea boolean boolean",
    "actions": "bigint bigint bigint bytea bytea bytea bytea float boolean boolean bytea",
}
Values = tuple[list[list[object]], list[list[object]]]


def rows(options: Options) -> list[Row]:
    """Measure both databases in turns with their references, and runs in train mode with each and with none."""
    found: list[Row] = []
    with placed(False), ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ganglion-bench-")))
        postgres, reason = _server(stack)
        uris = {"SQLite": f"sqlite:///{folder}/rows.db"} | ({} if postgres is None else {"PostgreSQL": postgres})
        meters: dict[str, Callable[[], float]] = {}
        for name, uri in uris.items():
            meters[name] = _filled(stack, uri, options.round_s)
            meters[f"{name} raw"] = _raw(stack, uri, folder, options.round_s)
        rates = interleave(meters, options.rounds)
        for name, gate in RAW_GATE.items():
            title = f"store, rows/s into {name}, sealed, x executemany"
            if name in uris:
                found.append(compare(title, rates[name], rates[f"{name} raw"], gate))
            else:
                found.append(Row(title, None, gate, note=reason))
        runs = {"none": "none", "SQLite": f"sqlite:///{folder}/runs.db"} | (
            {} if postgres is None else {"PostgreSQL": postgres}
        )
        run_meters = {
            name: meter(folder / name, "train", True, words=("--store", uri, "--cpus", "free"))
            for name, uri in runs.items()
        }
        rates = interleave(run_meters, min(options.rounds, ROUNDS_MAX))
        for name in RAW_GATE:
            title = f"store, run in train mode with {name}, steps/s, x --store none"
            if name in runs:
                found.append(compare(title, rates[name], rates["none"], RUN_GATE))
            else:
                found.append(Row(title, None, RUN_GATE, note=reason))
    return found


def _server(stack: ExitStack) -> tuple[str | None, str]:
    """Return the URI of a database of its own, or None and what is missing."""
    from databases import Server, programs

    if programs() is None:
        return None, "PostgreSQL's server is missing (Debian: postgresql)"
    try:
        import psycopg  # noqa: F401 - whether it is there
    except ImportError:
        return None, "psycopg is missing: pip install 'ganglion-store[postgres]'"
    server = Server()
    stack.callback(server.close)
    return server.uri, ""


def _values() -> Values:
    """Return rows of steps and actions as they travel: four readings, one setpoint, one reward."""
    pack = msgpack.packb
    four, one = [pack([0.25 * i, 0.5, -1.5, 2.0 + i]) for i in range(STEPS)], [pack([0.5]) for _ in range(STEPS)]
    steps = [[n + 1, n + 1, n + 1, None, four[n], one[n], one[n], False, False] for n in range(STEPS)]
    actions = [[0, n, n, four[n], one[n], None, one[n], 0.5 * n, False, False, None] for n in range(STEPS)]
    return steps, actions  # type: ignore[return-value]


def _records(values: Values) -> Iterator[list[list[object]]]:
    """Yield the records of episode after episode, those of the begin of a run with the first."""
    lists = {"sensor": [f"w.{name}" for name in "abcd"], "actuator": ["w.x"], "reward": ["w.r"]}
    begin: list[list[object]] = [
        ["run", {"uid": "bench", "experiment": "bench", "seed": "1", "started": "2030-01-01T00:00:00Z"}]
    ]
    for owner in (("w", None), (None, "ada")):
        begin += [["declare", 0, *owner, k, [[i, "Box", None, "<f8", []] for i in ids]] for k, ids in lists.items()]
    begin.append(["phase", 0, "first", "train", "running", None])
    for episode in count():
        place = [0, "train", 0]
        yield [
            *(begin if episode == 0 else []),
            ["steps", *place, "w", episode, values[0]],
            ["actions", *place, "ada", episode, values[1]],
            ["episode", *place, None, episode, STEPS, True, False, "environment", episode],
        ]


def _filled(stack: ExitStack, uri: str, round_s: float) -> Callable[[], float]:
    """Return what writes episodes for a while, each with a commit, and gives rows per second."""
    writer = stack.enter_context(closing(SqlWriter(uri, "bench")))
    episodes = _records(_values())

    def measure() -> float:
        done, begin_s, now_s = 0, time.perf_counter(), 0.0
        while now_s - begin_s < round_s:
            writer.apply("bench/controller/0", next(episodes))
            writer.commit()
            done += 2 * STEPS
            now_s = time.perf_counter()
        return done / (now_s - begin_s)

    return measure


def _raw(stack: ExitStack, uri: str, folder: Path, round_s: float) -> Callable[[], float]:
    """Return what puts the same rows into two tables by `executemany`, and gives rows per second."""
    values = _values()
    if uri.startswith("sqlite"):
        connection = stack.enter_context(closing(sqlite3.connect(folder / "raw.db", isolation_level=None)))
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        cursor, sign = connection.cursor(), "?"
    else:
        import psycopg

        session = stack.enter_context(psycopg.connect(uri, autocommit=True))
        cursor, sign = session.cursor(), "%s"
    texts = []
    for name, kinds in TABLES.items():
        columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds.split()))
        cursor.execute(f"CREATE TABLE raw_{name} ({columns})")
        texts.append(f"INSERT INTO raw_{name} VALUES ({', '.join([sign] * len(kinds.split()))})")  # noqa: S608 - ours

    def measure() -> float:
        done, begin_s, now_s = 0, time.perf_counter(), 0.0
        while now_s - begin_s < round_s:
            for text, rows_ in zip(texts, values, strict=True):
                cursor.execute("BEGIN")
                cursor.executemany(text, rows_)
                cursor.execute("COMMIT")
                done += STEPS
            now_s = time.perf_counter()
        return done / (now_s - begin_s)

    return measure
