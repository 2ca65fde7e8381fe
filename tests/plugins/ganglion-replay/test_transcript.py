from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from ganglion import registry
from ganglion.errors import StoreError
from ganglion.peer.records import pack
from ganglion.sdk.seed import words
from ganglion_replay.transcript import Transcript, quoted


@contextmanager
def transcript(archive: Any, run: str = "r", phase: tuple[int, str] = (0, "one")) -> Iterator[Transcript]:
    """Yield the transcript of agent `a`."""
    store = registry.load("store", "sqlite")
    with store.reader(archive.uri) as reader, store.reader(archive.uri) as aside:
        yield Transcript(reader, aside, run, phase, "a")


def test_an_episode_is_read_whole(archive: Any) -> None:
    """Every decision with all that came of it, and the closing readings of `steps`."""
    archive.run("r", workers=2)
    flaws: list[str] = []
    with transcript(archive) as given:
        found = list(given.episodes("test", None, flaws))
        assert [["w.s", "Discrete(9)"]] == given.columns["sensor"][:1]
        assert ["w"] == given.environments

    assert [] == flaws
    assert [(0, 0), (0, 1), (1, 0), (1, 1)] == [(one.worker, one.episode) for one in found]
    third = found[2]
    assert [0, 1, 2, 3] == third.observations[:, 0].tolist()
    assert np.allclose([0.3, -0.5], third.observations[3, 1:])
    assert [[1], [2], [3]] == third.steps["actions"].tolist()
    assert [[0.5], [1.0], [1.5]] == third.steps["rewards"].tolist()
    assert [True, False, False] == np.isnan(third.steps["objectives"]).tolist()
    assert [False, False, True] == third.steps["terminated"].tolist()
    assert [0, 1, 2] == third.steps["ticks"].tolist()


def test_the_seed_is_the_one_that_the_episode_had(archive: Any) -> None:
    """It is derived from the seed of that run by the path of names, as when it was played."""
    archive.run("r")
    with transcript(archive) as given:
        found = [one.seed for one in given.episodes("test", None, [])]

    path: list[str | int] = ["phase", "one", "test", "environment", "w", "worker", 0, "episode"]
    assert [int.from_bytes(words(7, [*path, i])[:8], "little") >> 11 for i in (0, 1)] == found


def test_only_what_is_asked_for_is_read(archive: Any) -> None:
    """Mode and worker choose the episodes."""
    archive.run("r", workers=3)
    with transcript(archive) as given:
        assert [1, 1] == [one.worker for one in given.episodes("test", 1, [])]
        assert [] == list(given.episodes("train", None, []))


def test_what_is_not_whole_is_told(archive: Any) -> None:
    """Missing decisions leave an episode out; a missing end, or missing closing readings, are told."""

    def spoil(record: list[Any]) -> list[Any] | None:
        if record[0] == "actions" and record[5] == 0:
            return [*record[:6], [record[6][0], record[6][2]]]
        if record[0] == "actions" and record[5] == 1:
            return [*record[:6], record[6][:2]]
        return None if record[0] == "steps" and record[5] == 2 else record

    archive.run("r", episodes=4, spoil=spoil)
    flaws: list[str] = []
    with transcript(archive) as given:
        found = list(given.episodes("test", None, flaws))

    place = "run r, phase 0, worker 0, episode"
    assert [
        f"{place} 0: decisions are missing",
        f"{place} 1: it has no end",
        f"{place} 2: its closing readings are missing",
    ] == flaws
    assert [(1, 3), (2, 3), (3, 4)] == [(one.episode, len(one.observations)) for one in found]


def test_a_missing_reward_is_not_a_number(archive: Any) -> None:
    """A reward that was not there is NaN, as in a memory."""

    def spoil(record: list[Any]) -> list[Any]:
        if record[0] == "actions":
            record[6][1][6] = pack([None])
        return record

    archive.run("r", episodes=1, spoil=spoil)
    with transcript(archive) as given:
        (found,) = given.episodes("test", None, [])

    assert [False, True, False] == np.isnan(found.steps["rewards"][:, 0]).tolist()


def test_a_missing_setpoint_is_refused(archive: Any) -> None:
    """Without its value a decision cannot be learned from: the id is named."""

    def spoil(record: list[Any]) -> list[Any]:
        if record[0] == "actions":
            record[6][1][4] = pack([None])
        return record

    archive.run("r", spoil=spoil)
    with transcript(archive) as given, pytest.raises(StoreError, match=r"episode 0: no value of `w.a`"):
        list(given.episodes("test", None, []))


@pytest.mark.parametrize(("text", "shown"), [("a", "'a'"), ("o'neil", "'o''neil'"), ('"', "'\"'")])
def test_names_cannot_leave_their_quotes(text: str, shown: str) -> None:
    """A name is a literal, whatever is in it."""
    assert shown == quoted(text)


def test_an_episode_that_was_cut_has_its_own_end(archive: Any) -> None:
    """Whether an environment ended it, a condition, or somebody in its midst: the last of its readings is found."""

    def spoil(record: list[Any]) -> list[Any]:
        kind, number = record[0], record[5] if len(record) > 5 else None
        if kind == "steps" and number in (1, 2):  # cut after two steps, and after three
            return [*record[:6], [[*row[:7], False, False] for row in record[6][: 1 + number]]]
        if kind == "actions" and number == 1:
            cut = [*record[6][1][:8], False, True, None]
            return [*record[:6], [record[6][0], cut]]
        return record

    archive.run("r", episodes=4, workers=2, spoil=spoil)
    flaws: list[str] = []
    with transcript(archive) as given:
        found = [one.observations[:, 0].tolist() for one in given.episodes("test", None, flaws)]

    assert ([], [[0, 1, 2, 3], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3]] * 2) == (flaws, found)
