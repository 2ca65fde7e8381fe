from __future__ import annotations

from ganglion_store import statements as sql
from ganglion_store.segment import SEALED


def test_all_tables_of_a_run_are_sealed_or_belong_to_episodes() -> None:
    """A new table is either sealed at the end, or part of an episode, or known to be of no run's results."""
    tables = {word.removeprefix("CREATE TABLE stored_").split()[0] for word in sql.CREATE if "TABLE s" in word}
    of_episodes = {"episodes", "segments", "steps", "resets", "actions", "returns"}

    assert tables == set(SEALED) | {"bodies", "opponents", "ratings", "topics"} | of_episodes | {
        "ledger",
        "seals",
        "points",
    }
