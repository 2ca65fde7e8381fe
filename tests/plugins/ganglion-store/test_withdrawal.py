"""Runs that were cut short and go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.sdk.store import StoreUnavailable
from ganglion_store.reader import SqlReader
from ganglion_store.writer import SqlWriter

RUN = "demo-1"
END = ["end", "interrupted", "interrupted: operator", "now"]


def signal(ordinal: int, phase: int = 0, issuer: str = "condition") -> list[Any]:
    """Return a signal."""
    return ["signal", phase, 0, 0, 1, "RESET", issuer, "", None, 0, 0, ordinal]


def brain(phase: int) -> list[Any]:
    """Return a model."""
    return ["brain", phase, "ada", "", 3, 6, "now", 10, "00", f"brains/{phase}/ada/model.npz"]


def of_phase(phase: int, records: list[Any]) -> list[Any]:
    """Return the records of an episode in another phase."""
    return [[record[0], phase, *record[2:]] for record in records]


def damages(uri: str) -> list[Any]:
    """Return what is damaged."""
    with SqlReader(uri) as reader:
        return list(reader.verify(RUN))


@pytest.fixture
def cut(uri: str, tell: Any) -> str:
    """Return a store with a run of two phases that was interrupted in the second."""
    with SqlWriter(uri, RUN) as writer:
        writer.apply("g", tell.begin())
        writer.apply("c", [*tell.whole(0), *tell.whole(1)])
        writer.apply("g", [signal(1), brain(0), ["phase", 0, "first", "train", "finished", "completed"]])
        writer.apply("g", [["phase", 1, "second", "train", "running", None]])
        for worker in (0, 1):
            writer.apply("c", of_phase(1, tell.whole(0, worker=worker)))
            writer.apply("c", of_phase(1, tell.whole(1, 1, worker=worker, reason="interrupted")))
        writer.apply("c", of_phase(1, tell.whole(0, 1, mode="evaluate", reason="failed: ValueError: no")))
        writer.apply("g", [["evaluation", 1, "ada", 1, 3, {"return": 1.0}, None, "now"]])
        writer.apply("g", [signal(2, 1), signal(3, 1, "operator"), brain(1)])
        writer.apply("g", [["phase", 1, "second", "train", "interrupted", "interrupted"]])
        writer.apply("g", [["phase", 1, "second", "evaluate", "failed", None], END])
    return uri


def test_an_episode_that_others_follow_stays(uri: str, tell: Any) -> None:
    """Only the end of a chain can be taken back."""
    with SqlWriter(uri, RUN) as writer:
        writer.apply("g", tell.begin())
        writer.apply("c", [*tell.whole(0, reason="failed"), *tell.whole(1), *tell.whole(2, reason="failed")])
        writer.commit()
        assert 1 == writer.withdraw()
        writer.apply("c", [*tell.whole(0, reason="failed"), *tell.whole(1), *tell.whole(2)])
        writer.commit()

    assert [] == damages(uri)


def test_a_withdrawal_that_cannot_be_written_takes_nothing(cut: str, read: Callable[..., list[dict[str, Any]]]) -> None:
    """All of it is one transaction."""
    with SqlWriter(cut, RUN, resume=True) as writer:
        reads = "PRAGMA query_only = ON" if cut.startswith("sqlite") else "SET default_transaction_read_only = on"
        writer._connection.execute(reads)
        with pytest.raises(StoreUnavailable, match=r"read-?only"):
            writer.withdraw(1)
        before = (len(read("episodes")), read("runs")[0]["status"])
        writer._pending.clear()

    assert (7, "interrupted") == before


def test_what_comes_behind_a_place_goes(cut: str, read: Callable[..., list[dict[str, Any]]]) -> None:
    """Of each worker stays what is named; of phases before stays all."""
    with SqlWriter(cut, RUN, resume=True) as writer:
        assert 3 == writer.withdraw(1)
        assert 1 == writer.withdraw_behind(1, {(1, "train", 0, ""): 0}, {})

    rows = read("episodes", columns=["phase", "worker", "episode"])
    assert [(0, 0, 0), (0, 0, 1), (1, 0, 0)] == [(r["phase"], r["worker"], r["episode"]) for r in rows]
    assert [] == read("evaluations")
    assert [] == damages(cut)


def test_what_was_applied_counts_before_the_place(uri: str, tell: Any) -> None:
    """What is told until then is made durable in the same transaction; what was there already stays."""
    with SqlWriter(uri, RUN) as writer:
        writer.apply("g", tell.begin())
        writer.apply("c", [*tell.whole(0), *tell.whole(1), *tell.whole(2)])
        writer.apply("g", [["evaluation", 0, "ada", n, 3, {"return": 1.0}, None, "now"] for n in (1, 2)])
    with SqlWriter(uri, RUN, resume=True) as writer:
        writer.apply("c", [*tell.whole(0), *tell.whole(1)])
        assert 1 == writer.withdraw_behind(0, {(0, "train", 0, ""): 1}, {(0, "ada"): 1})
        writer.apply("c", [tell.steps(2, 1, 2), tell.seal(2, 2)])  # not as it was
        writer.commit()

    assert [] == damages(uri)


def test_places_of_each_timeline_are_its_own(uri: str, tell: Any) -> None:
    """Where each environment has episodes of its own, each keeps its own."""
    with SqlWriter(uri, RUN) as writer:
        writer.apply("g", tell.begin())
        writer.apply("c", tell.declare(0, "lake", None))
        for number in (0, 1):
            for environment in ("grid", "lake"):
                writer.apply("c", [tell.steps(number, 1, 2, environment=environment)])
                writer.apply("c", [tell.seal(number, 2, environment=environment)])
        writer.commit()
        assert 1 == writer.withdraw_behind(0, {(0, "train", 0, "grid"): 1, (0, "train", 0, "lake"): 0}, {})
        writer.apply("c", [tell.steps(1, 1, 1, environment="lake"), tell.seal(1, 1, environment="lake")])
        writer.commit()

    assert [] == damages(uri)


def test_what_is_kept_is_compared_with_nothing(uri: str, tell: Any, read: Callable[..., list[dict[str, Any]]]) -> None:
    """From the phase on that cannot be repeated what counts stays, and what comes behind it is added."""
    evaluation = ["evaluation", 0, "ada", 1, 3, {"return": 1.0}, None, "now"]
    with SqlWriter(uri, RUN) as writer:
        writer.apply("g", tell.begin())
        writer.apply("c", tell.whole(0))
        writer.apply("g", [evaluation])
    with SqlWriter(uri, RUN, resume=True) as writer:
        writer.keep(0)
        writer.apply("c", [tell.steps(0, 1, 1), tell.seal(0, 1), tell.steps(1, 1, 2), tell.seal(1, 2)])
        writer.apply("g", [[*evaluation[:5], {"return": 2.0}, *evaluation[6:]]])
        writer.commit()

    assert [3, 2] == [row["steps"] for row in read("episodes")]
    assert [{"return": 1.0}] == [row["metrics"] for row in read("evaluations")]
    assert [] == damages(uri)
