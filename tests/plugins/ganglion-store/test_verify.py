from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databases import change

from ganglion.sdk.store import Damage, StoreError, UsageError
from ganglion_store.reader import SqlReader
from ganglion_store.schema import SHOWN
from ganglion_store.writer import SqlWriter

RUN = "demo-1"
# What is no result and protects nothing: how many transactions a writer has carried out, and what was planned.
FREE = {"stored_ledger", "stored_points", "ganglion_store"}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Return the URI of a file that is not there yet: what is told here is of SQLite alone."""
    return f"sqlite:///{tmp_path}/ganglion.db"


def fill(writer: SqlWriter, tell: Any, ended: bool = True) -> None:
    """Write a run with something in every table."""
    for episode in range(4):
        for worker in range(2):
            writer.apply("c", tell.whole(episode, 3, worker))
        writer.apply("c", tell.whole(episode, 2, 0, mode="evaluate"))
        writer.apply("g", [["signal", 0, None, episode, 2, "RESET", "operator", "why", {"n": 1}, episode, 0, episode]])
        writer.apply("g", [["evaluation", 0, "ada", episode, episode, {"return": 1.5}, None, "now"]])
        writer.apply("g", [["brain", 0, "ada", "", episode, 3, "now", 10, "00" * 32, f"brains/0/ada/{episode}.npz"]])
        writer.commit()
    writer.apply("c", [["topic", 0, "train", 0, 3, "lake", "parameters", "gravity", 9.5, 1]])
    writer.apply("g", [["phase", 0, "first", "evaluate", "finished", None]])
    writer.apply("g", [["phase", 0, "first", "train", "finished", "completed"]])
    if ended:
        writer.apply("g", [["end", "finished", "completed", "2030-01-01T00:01:00Z"]])
    writer.commit()


@pytest.fixture
def whole(writer: SqlWriter, tell: Any, uri: str) -> Path:
    """Return the file of a store that holds a run that has ended."""
    fill(writer, tell)
    writer.close()
    return Path(uri.removeprefix("sqlite:///"))


def found(path: Path) -> list[Damage]:
    """Return what is damaged in the run; a store that cannot be opened any more is named by that."""
    try:
        with SqlReader(f"sqlite:///{path}") as reader:
            return list(reader.verify(RUN))
    except (StoreError, UsageError) as error:
        return [Damage("store", str(path), str(error))]


def shown(path: Path) -> Any:
    """Return all that a reader sees of the run; what cannot be read is not what was there."""
    try:
        with SqlReader(f"sqlite:///{path}") as reader:
            return [list(reader.rows(table, [RUN])) for table in SHOWN if table != "points"]
    except Exception as error:  # noqa: BLE001 - whatever a damaged file brings about
        return repr(error)


def test_heads_are_those_of_the_writer(writer: SqlWriter, tell: Any, uri: str) -> None:
    """What the writer gives at the end, and tells that it reads, is what a reader finds; before there is nothing."""
    reads: list[int] = []
    writer.working = lambda: reads.append(1)
    assert writer.heads() is None
    fill(writer, tell)
    assert not reads
    told = writer.heads()
    assert reads
    with SqlReader(uri) as reader:
        heads = reader.heads(RUN)

    assert told is not None
    assert heads is not None
    assert (told["run"], 64) == (heads["run"], len(heads["run"]))
    assert all(row in heads["phases"] for row in told["phases"])
    assert {("train", 0), ("evaluate", 0)} == {(row["mode"], row["phase"]) for row in told["phases"]}


def test_a_run_that_goes_on_after_its_end_is_sealed_anew(whole: Path, tell: Any) -> None:
    """Who resumes a run breaks its seals with the first transaction, and makes new ones at the end."""
    uri = f"sqlite:///{whole}"
    with SqlWriter(uri, RUN, resume=True) as writer:
        writer.apply("c", tell.whole(4))
        writer.commit()
        with SqlReader(uri) as reader:
            between = reader.heads(RUN)
        writer.apply("g", [["end", "finished", "completed", "later"]])
        writer.commit()
        after = writer.heads()

    assert between is None
    assert after is not None
    assert [] == found(whole)


@pytest.mark.parametrize(
    ("statement", "kind", "where"),
    [
        (
            "UPDATE stored_steps SET simtime_ticks = 99 WHERE segment = 3 AND step = 1",
            "episode",
            "phase 0, train, worker 1, episode 0",
        ),
        ("DELETE FROM stored_steps WHERE segment = 1", "episode", "phase 0, train, worker 0, episode 0"),
        ("UPDATE stored_episodes SET reason = 'x' WHERE number = 3", "episode", "phase 0, evaluate, worker 0"),
        ("UPDATE stored_episodes SET round = 9 WHERE number = 1", "episode", "phase 0, train, worker 0"),
        ("DELETE FROM stored_episodes WHERE number = 1", "episode", "phase 0, train, worker 0, episode 1"),
        ("DELETE FROM stored_episodes WHERE number = 12", "phase", "0, evaluate"),
        ("UPDATE stored_returns SET objective = 7 WHERE segment = 2", "row", "returns of agent ada, body 0"),
        ("UPDATE stored_signals SET reason = 'because' WHERE number = 2", "row", "signals, row 1 (phase 0"),
        ("DELETE FROM stored_signals WHERE number = 4", "row", "signals, row 3"),
        ("UPDATE stored_evaluations SET metrics = '{}' WHERE number = 2", "row", "evaluations, row 2 (phase 0"),
        ("UPDATE stored_brains SET path = '/etc/passwd' WHERE number = 1", "row", "brains, row 0"),
        ("UPDATE stored_declarations SET unit = 'kW' WHERE number = 1", "row", "declarations, row 0"),
        ("UPDATE stored_members SET position = 5 WHERE name = 'ada'", "row", "members, row 1"),
        ("UPDATE stored_runs SET seed = '43'", "row", "runs, row 0"),
        ("UPDATE stored_topics SET value = '9.6'", "row", "topics"),
        ("UPDATE stored_runs SET head = NULL", "row", "runs, demo-1"),
        ("UPDATE stored_phases SET reason = 'x' WHERE mode = 'train'", "row", "phases, row 1 (phase 0"),
        ("UPDATE stored_phases SET head = NULL WHERE mode = 'train'", "phase", "0, train"),
        ("INSERT INTO stored_incidents VALUES (1, 1, 't', 'n', 0, 'k', 'p', 'd')", "row", "incidents, row 0"),
        ("DELETE FROM stored_seals WHERE name = 'incidents' OR name = 'brains'", "row", "brains, row 0"),
    ],
)
def test_the_first_damage_is_named(whole: Path, statement: str, kind: str, where: str) -> None:
    """Each edit is found where it was made."""
    change(f"sqlite:///{whole}", statement)
    damage = found(whole)[0]

    assert kind == damage.kind
    assert damage.where.startswith(where)


def random_edits(whole: Path, folder: Path, seeds: range) -> Iterator[tuple[str, Path]]:
    """Yield copies of a store, each with one value of one row changed."""
    connection = sqlite3.connect(whole)
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    tables = sorted(set(tables) - FREE)
    filled = [t for t in tables if connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0]]
    for seed in seeds:
        dice = random.Random(seed)
        table = dice.choice(filled)
        rows = connection.execute(f"SELECT * FROM {table}")
        columns = [column[0] for column in rows.description]
        row = dice.choice(rows.fetchall())
        at = dice.randrange(len(columns))
        value = changed(row[at], dice)
        key = " AND ".join(f'"{column}" IS ?' for column in columns)
        path = folder / f"{seed}.db"
        shutil.copy(whole, path)
        copy = sqlite3.connect(path)
        try:
            with copy:
                copy.execute(f'UPDATE {table} SET "{columns[at]}" = ? WHERE {key}', (value, *row))
            yield f"{table}.{columns[at]}: {row[at]!r:.60} -> {value!r:.60}", path
        except sqlite3.IntegrityError:
            pass  # the database itself does not take it
        finally:
            copy.close()
            path.unlink()
    connection.close()


def changed(value: Any, dice: random.Random) -> Any:
    """Return another value than this one, as an accident or a careless hand makes it."""
    if isinstance(value, bytes) and value:
        at = dice.randrange(len(value))
        return value[:at] + bytes([value[at] ^ (1 << dice.randrange(8))]) + value[at + 1 :]
    if isinstance(value, int | float):
        return dice.choice([value + 1, -value - 1, value + 0.5, None, str(value) + "x"])
    if isinstance(value, str):
        return dice.choice([value + " ", value.upper() + "_", "", None])
    return dice.choice([0, 1, "", "x", b"\x00"])


def check_edits(whole: Path, folder: Path, seeds: range) -> int:
    """Check that whatever changes what a reader sees is named; return how many edits were."""
    before, count = shown(whole), 0
    for what, path in random_edits(whole, folder, seeds):
        damages = found(path)
        count += bool(damages)
        assert damages or shown(path) == before, what
    return count


def check_flips(whole: Path, folder: Path, seeds: range) -> int:
    """Check the same for single bits of the file."""
    before, data, count = shown(whole), whole.read_bytes(), 0
    used = [at for at, byte in enumerate(data) if byte]  # most of a small file is empty
    path = folder / "flipped.db"
    for seed in seeds:
        dice = random.Random(seed)
        at = dice.choice(used)
        flipped = bytearray(data)
        flipped[at] ^= 1 << dice.randrange(8)
        path.write_bytes(flipped)
        damages = found(path)
        count += bool(damages)
        assert damages or shown(path) == before, f"byte {at}"
        for rest in folder.glob("flipped.db-*"):
            rest.unlink()
    return count


def test_edited_rows_are_named(whole: Path, tmp_path: Path) -> None:
    """Whatever value of whatever row is changed: it is named, unless no reader can see it."""
    assert check_edits(whole, tmp_path, range(20)) >= 15


def test_flipped_bits_of_the_file_are_named(whole: Path, tmp_path: Path) -> None:
    """Whatever bit of the file is flipped: it is named, or what is read is what was written."""
    assert check_flips(whole, tmp_path, range(15)) >= 4


@pytest.mark.long
def test_a_thousand_edits_are_named(whole: Path, tmp_path: Path) -> None:
    """The same, many times."""
    assert check_edits(whole, tmp_path, range(1000, 2000)) >= 800
    assert check_flips(whole, tmp_path, range(1000, 3000)) >= 500
