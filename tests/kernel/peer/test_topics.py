"""The board of a worker: whom topics reach, and what is refused of programs that tell them themselves."""

from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import CallFailed
from ganglion.limits import TOPIC_MESSAGES
from ganglion.peer.worker.topics import TopicBoard

LAKE, MOOR, ADA = "r/environment/lake/0", "r/environment/moor/0", "r/muscle/ada/0"
NAMES = {LAKE: "lake", MOOR: "moor", ADA: "ada"}


class Rows(list[list[Any]]):
    """Stand for the records: what is added is kept."""

    def add(self, record: list[Any]) -> None:
        """Keep a record."""
        self.append(record)


def board(rows: Rows | None = None) -> TopicBoard:
    """Return the board of a worker with two environments and an agent, at tick 7."""
    return TopicBoard(rows if rows is not None else Rows(), (0, "train", 1), NAMES, lambda: 7)  # type: ignore[arg-type]


def test_those_who_are_not_asked_keep_the_newest_messages() -> None:
    """Settings are kept once each, whatever else waits."""
    found = board()
    for number in range(TOPIC_MESSAGES + 5):
        found.take(ADA, "muscle.act", [["chat", "a", number, "lake"], ["engine", "speed", number, "lake"]])
    said = [entry[2] for entry in found.waiting[LAKE] if entry[0] == "chat"]

    assert list(range(5, TOPIC_MESSAGES + 5)) == said
    assert [TOPIC_MESSAGES + 4] == [entry[2] for entry in found.waiting[LAKE] if entry[0] == "engine"]


WRONG: dict[str, list[Any]] = {
    "expected a list [topic, key, value, addressee or how], all text but the value, found ['a']": [["a"]],
    "expected a list [topic, key, value, addressee or how], all text but the value, found {}": [{}],
    "there is no environment or agent 'bob'; expected one of lake, moor, ada": [["parameters", "g", 1, "bob"]],
    "topic chat, key 'a': inf cannot travel": [["chat", "a", float("inf"), ""]],
    "stats, key 'a': expected one of mean, last, sum, histogram, found 'max'": [
        ["stats", "a", [1, 1.0, 1.0, {}], "max"]
    ],
    "stats, key 'a': expected one of mean, last, sum, histogram, found 'sum'": [["stats", "a", 3, "sum"]],
    "stats, key 'a': expected sum as before, found mean": [
        ["stats", "a", [1, 1.0, 1.0, {}], "sum"],
        ["stats", "a", [1, 1.0, 1.0, {}], "mean"],
    ],
    f"expected at most {TOPIC_MESSAGES + 256}, found 513": [["log", "", "x", ""]] * 513,
    "parameters: expected at most 256 keys (topic_keys), found more": [
        ["parameters", str(i), i, ""] for i in range(257)
    ],
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_taken_is_blamed_on_who_told_it(text: str) -> None:
    """The run ends by the name of the participant, with the call."""
    with pytest.raises(CallFailed) as caught:
        board().take(LAKE, "environment.update", WRONG[text])

    assert LAKE == caught.value.culprit
    assert caught.value.remote_message.startswith(f"its answer to environment.update: topics: {text}")
