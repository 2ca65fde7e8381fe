# ruff: noqa: E501 - a row of a table of cases is easier to compare on one line
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.limits import TOPIC_KEYS, TOPIC_MESSAGES, TOPIC_VALUE_BYTES
from ganglion.sdk import AuthorError, Topics
from ganglion.sdk.topic import draw


def test_settings_hold_what_was_set() -> None:
    """A value from outside, or of one's own, holds at once; what is set for another one is only told."""
    topics = Topics()
    topics.hear([["parameters", "gravity", 9.5, ""]])
    topics["parameters"].set("mass", np.float32(2))
    topics["parameters"].set("pace", [1, 2], to="ada")

    assert {"gravity": 9.5, "mass": 2.0} == dict(topics["parameters"].values)
    assert (9.5, None, 7) == tuple(topics["parameters"].get(*it) for it in (["gravity"], ["pace"], ["pace", 7]))
    assert [["parameters", "mass", 2.0, ""], ["parameters", "pace", [1, 2], "ada"]] == topics.pop()
    assert None is topics.pop()


def test_statistics_are_gathered() -> None:
    """Numbers and arrays of one key are told together, once."""
    topics = Topics()
    for value in (1, np.array([2.0, 4.0]), True):
        topics["stats"].add("height", value)
    topics["stats"].add("speed", [0.123, 0.1234, -5], "histogram")

    assert topics.due
    assert [
        ["stats", "height", [4, 8.0, 1.0, {}], "mean"],
        ["stats", "speed", [3, pytest.approx(-4.7536), -5.0, {"1.2e-01": 2, "-5.0e+00": 1}], "histogram"],
    ] == topics.pop()
    assert not topics.due


def test_messages_are_those_of_the_running_call() -> None:
    """The next call brings its own, or none; a topic that the class does not name is not heard."""
    topics = Topics(["chat"])
    topics.hear([["chat", "a", 1, "lake"], ["chat", "b", 2, "operator"], ["other", "c", 3, "lake"]])
    first = [tuple(it) for it in topics["chat"].messages]
    topics.hear(None)

    assert [("a", 1, "lake"), ("b", 2, "operator")] == first
    assert [] == list(topics["chat"].messages)
    assert not topics.heard


def test_state_goes_on_in_another_object() -> None:
    """What is set, and what was not told yet, is all that a successor needs."""
    one, other = Topics(["chat"]), Topics(["chat"])
    one.hear([["engine", "speed", 2, ""]])
    one["stats"].add("height", 1.5, "sum")
    one["chat"].send("a", {"b": None})
    other.restore(one.state())
    other["stats"].add("height", 1.5, "sum")
    one["stats"].add("height", 1.5, "sum")

    assert 2 == other["engine"].get("speed")
    assert one.pop() == other.pop()


def test_draws_are_those_of_the_seed() -> None:
    """Uniform, gaussian and multirange draw from the generator that is given; any other value is itself."""
    pairs = [[0, 1], [5, 6], [9, 9]]
    found = [[draw(form, np.random.default_rng(seed)) for seed in range(200)] for form in (
        {"uniform": [8, 11]}, {"gaussian": [3, 0.5]}, {"multirange": pairs})]  # fmt: skip

    assert 8 <= min(found[0]) < 8.2 < 10.8 < max(found[0]) <= 11
    assert 2.9 < np.mean(found[1]) < 3.1
    assert [30 < sum(low <= it <= high for it in found[2]) for low, high in pairs] == [True] * 3
    assert all(any(low <= it <= high for low, high in pairs) for it in found[2])
    assert [[1, 2], "text"] == [draw(form, np.random.default_rng(1)) for form in ([1, 2], "text")]


WRONG: dict[str, Any] = {
    "there is no topic 'chats'; expected one of parameters, engine, stats, log, chat": lambda it: it["chats"],
    "topic chat, key 'a': a object cannot travel; expected finite numbers, text, lists and maps of these": (
        lambda it: it["chat"].send("a", object())
    ),
    "topic parameters, key 'a': nan cannot travel": lambda it: it["parameters"].set("a", [1, float("nan")]),
    "topic chat, key 'a': a dict cannot travel": lambda it: it["chat"].send("a", {1: 2}),
    "topic chat, key 5: expected text of at most 256 bytes as a key (uid_bytes)": lambda it: it["chat"].send(5, 1),
    f"topic log, key '': expected at most {TOPIC_VALUE_BYTES} bytes (topic_value_bytes), found {TOPIC_VALUE_BYTES + 2}": (
        lambda it: it["log"].write("x" * TOPIC_VALUE_BYTES)
    ),
    f"topic log: expected at most {TOPIC_MESSAGES} messages in one answer (topic_messages), found more": (
        lambda it: [it["log"].write("x") for _ in range(TOPIC_MESSAGES + 1)]
    ),
    "topic stats, key 'a': expected finite numbers, found inf": lambda it: it["stats"].add("a", float("inf")),
    "topic stats, key 'a': expected finite numbers, found 'x'": lambda it: it["stats"].add("a", "x"),
    "topic stats, key 'a': expected one of mean, last, sum, histogram, found 'max'": (
        lambda it: it["stats"].add("a", 1, "max")
    ),
    "topic stats, key 'a': expected mean as before, found sum": (
        lambda it: [it["stats"].add("a", 1), it["stats"].add("a", 1, "sum")]
    ),
    f"topic stats: expected at most {TOPIC_KEYS} keys (topic_keys), found more": (
        lambda it: [it["stats"].add(str(i), 1) for i in range(TOPIC_KEYS + 1)]
    ),
    "topic stats, key 'a': expected at most 1024 bins (topic_bins), found more": (
        lambda it: it["stats"].add("a", np.geomspace(1, 1e300, 2000), "histogram")
    ),
    "TOPICS: expected names beside parameters, engine, stats, log, found ['stats']": lambda it: Topics(["stats"]),
    "TOPICS: expected names beside parameters, engine, stats, log, found 'chat'": lambda it: Topics("chat"),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_told_is_refused(text: str) -> None:
    """The topic, the key and the bound are named where it was said."""
    with pytest.raises(AuthorError) as caught:
        WRONG[text](Topics(["chat"]))

    assert str(caught.value).startswith(text)
