from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from ganglion_store import statements as sql
from ganglion_store.seals import DIGEST_BYTES, ROWS_PER_SEAL, SEALED, phase_head, row_digest, seal_run
from ganglion_store.writer import SqlWriter


@pytest.mark.parametrize(("a", "b"), [([1], [1.0]), ([1], [True]), ([None], [""]), (["a"], [b"a"]), ([1, 2], [2, 1])])
def test_rows_of_other_types_have_other_digests(a: list[Any], b: list[Any]) -> None:
    """A value that another type stands for is another value."""
    assert row_digest(a) != row_digest(b)
    assert DIGEST_BYTES == len(row_digest(a))


def test_the_head_of_a_phase_knows_no_order() -> None:
    """Whichever worker was first, the head is the same; one episode less is another head."""
    chains = [(0, 2, b"a"), (1, 2, b"b")]

    assert phase_head(chains) == phase_head(reversed(chains))
    assert phase_head(chains) != phase_head([(0, 1, b"a"), (1, 2, b"b")])


def test_all_tables_of_a_run_are_sealed_or_belong_to_episodes() -> None:
    """A new table is either sealed at the end, or part of an episode, or known to be of no run's results."""
    tables = {word.removeprefix("CREATE TABLE stored_").split()[0] for word in sql.CREATE if "TABLE s" in word}
    of_episodes = {"episodes", "segments", "steps", "actions", "returns"}

    assert tables == set(SEALED) | of_episodes | {"ledger", "seals", "points"}


def test_many_rows_are_sealed_in_pieces(writer: SqlWriter, uri: str) -> None:
    """A seal holds a bounded number of digests, in the order of the rows; sealing again replaces it."""
    count = 2 * ROWS_PER_SEAL + 1
    signals = [["signal", 0, None, None, n, "PAUSE", "operator", None, None, 0] for n in range(count)]
    writer.apply("governor", signals)
    writer.commit()
    connection = sqlite3.connect(uri.removeprefix("sqlite:///"), isolation_level=None)
    heads = {seal_run(connection.cursor(), 1) for _ in range(2)}
    sizes = [
        len(row[0]) // DIGEST_BYTES
        for row in connection.execute("SELECT digests FROM stored_seals WHERE name = 'signals' ORDER BY position")
    ]
    stored = connection.execute("SELECT head FROM stored_runs").fetchone()[0]
    connection.close()

    assert ([ROWS_PER_SEAL, ROWS_PER_SEAL, 1], {stored}) == (sizes, heads)
