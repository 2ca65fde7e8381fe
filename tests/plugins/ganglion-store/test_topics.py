"""Rows of topics: shown in order, said again without harm, taken back where a run goes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from databases import change

from ganglion_store.reader import SqlReader
from ganglion_store.writer import SqlWriter

RUN = "demo-1"


def topic(number: int, value: Any, worker: int = 0, phase: int = 0) -> list[Any]:
    """Return a row of a worker."""
    return ["topic", phase, "train", worker, 3 * number, "lake", "parameters", "gravity", value, number]


def write(uri: str, tell: Any, *batches: list[Any], end: bool = False) -> None:
    """Write these records, each list as a batch."""
    with SqlWriter(uri, RUN) as writer:
        writer.apply("g", tell.begin())
        for batch in batches:
            writer.apply("c", batch)
        if end:
            writer.apply("g", [["end", "finished", "completed", "now"]])


def values(read: Callable[..., list[dict[str, Any]]]) -> list[tuple[int, int, Any]]:
    """Return worker, tick and value of all rows, as they are shown."""
    return [(row["worker"], row["tick"], row["value"]) for row in read("topics")]


def test_rows_are_shown_by_worker(uri: str, tell: Any, read: Callable[..., list[dict[str, Any]]]) -> None:
    """Values are plain; a row that comes again is the same row."""
    batch = [topic(1, 9.5, worker=1), topic(1, {"a": [1, None]}), topic(2, "moon")]
    write(uri, tell, batch, batch)

    assert [(0, 3, {"a": [1, None]}), (0, 6, "moon"), (1, 3, 9.5)] == values(read)
    assert {"run", "phase", "mode", "worker", "tick", "peer", "topic", "key", "value"} == set(read("topics")[0])


def test_another_row_takes_the_place_of_all_behind(
    uri: str, tell: Any, read: Callable[..., list[dict[str, Any]]]
) -> None:
    """A run that went back, and to which something else happens, leaves nothing of what was."""
    write(uri, tell, [topic(n, n) for n in (1, 2, 3)], [topic(1, 1, worker=1)], [topic(1, 1), topic(2, 5)])

    assert [(0, 3, 1), (0, 6, 5), (1, 3, 1)] == values(read)


def test_rows_behind_a_place_go(uri: str, tell: Any, read: Callable[..., list[dict[str, Any]]]) -> None:
    """Of each worker stay those up to the number that is named; of earlier phases all."""
    write(uri, tell, [topic(n, n, worker, phase) for phase in (0, 1) for worker in (0, 1) for n in (1, 2, 3)])
    with SqlWriter(uri, RUN, resume=True) as writer:
        writer.withdraw_behind(1, {}, {}, {(1, "train", 0): 2})

    assert [(0, 0, 1), (0, 0, 2), (0, 0, 3), (0, 1, 1), (0, 1, 2), (0, 1, 3), (1, 0, 1), (1, 0, 2)] == [
        (row["phase"], row["worker"], row["value"]) for row in read("topics")
    ]


def test_changed_row_is_found(uri: str, tell: Any, tmp_path: Path) -> None:
    """Rows of topics are sealed when the run ends."""
    write(uri, tell, [topic(1, 9.5)], end=True)
    with SqlReader(uri) as reader:
        assert [] == list(reader.verify(RUN))
    change(uri, "UPDATE stored_topics SET value = '9.6'")
    with SqlReader(uri) as reader:
        assert ["row"] == [damage.kind for damage in reader.verify(RUN)]
