from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from ganglion import registry
from ganglion.errors import StoreError
from ganglion.peer.results.records import pack
from ganglion_replay.transcript import Transcript


@contextmanager
def transcript(archive: Any, run: str = "r", phase: tuple[int, str] = (0, "one")) -> Iterator[Transcript]:
    """Yield the transcript of agent `a`."""
    store = registry.load("store", "sqlite")
    with store.reader(archive.uri) as reader, store.reader(archive.uri) as aside:
        yield Transcript(reader, aside, run, phase, "a")


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
