from __future__ import annotations

from typing import Any

import msgpack
import pytest

from ganglion.sdk.store import Nondeterministic
from ganglion_store.writer import SqlWriter


def changed(tell: Any, table: str, row: int, column: int, value: Any) -> list[Any]:
    """Return the records of an episode of which one value is another."""
    records = tell.whole(0)
    rows = next(record for record in records if record[0] == table)[-1]
    rows[row][column] = value
    return records


CASES = [
    (lambda tell: changed(tell, "steps", 1, 4, msgpack.packb([9.0, 9])), "steps of environment grid, step 2: sensors"),
    (lambda tell: changed(tell, "steps", 2, 7, True), "steps of environment grid, step 3: terminated"),
    (lambda tell: changed(tell, "actions", 0, 4, b"\x90"), "actions of agent ada, step 0, body 0: setpoints"),
    (lambda tell: tell.whole(0, 2), "steps of environment grid, step 3: a row before, now none"),
    (lambda tell: tell.whole(0, 4), "steps of environment grid, step 4: no row before, now one"),
    (lambda tell: tell.whole(0)[::2], "actions of agent ada: some before, now none"),
    (lambda tell: [*tell.whole(0, agent="bea")], "actions of agent bea: none before, now some"),
    (lambda tell: tell.whole(0, reason="condition"), "reason: 'environment' before, now 'condition'"),
    (lambda tell: tell.whole(0, round=7), "round: 0 before, now 7"),
]


@pytest.mark.parametrize("limit", [0, 1 << 20])
@pytest.mark.parametrize(("other", "where"), CASES)
def test_the_first_difference_is_named(uri: str, tell: Any, limit: int, other: Any, where: str) -> None:
    """An episode that comes out otherwise is told with table, step and column, also if its rows rest on disk."""
    with SqlWriter(uri, "demo-1", open_rows_bytes=limit) as writer:
        writer.apply("g", tell.begin())
        writer.apply("c", tell.whole(0))
        writer.commit()
        *rows, seal = other(tell)
        writer.apply("c", rows)
        writer.commit()
        writer.apply("c", [seal])
        with pytest.raises(Nondeterministic) as found:
            writer.commit()

    assert f"phase 0, train, worker 0, episode 0: it was sealed before with other rows: {where}" in str(found.value)
