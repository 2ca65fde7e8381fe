"""Bases: journals that are begun anew at every episode, under faults; nothing comes of it but shorter journals."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulation import simulate
from simulation.campaign import Campaign, case_of
from simulation.cases import CASES, DICE, case

from ganglion.peer.journal import compaction
from ganglion.peer.journal.compaction import Compaction, WorkerCompaction
from ganglion.peer.journal.snapshot import Snapshot
from ganglion.peer.results.records import Records
from ganglion.sdk import Environment

SEEDS = (12, 18, 21, 25, 31, 158, 218)
"""Those of the first 250 by which muscles, controllers, brains and governors go on from a base."""

WITHIN = (106, 80, 16)
"""Those by which environments do in the midst of an episode."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Return a folder with the undisturbed results of our seeds, of journals that are never begun anew."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="ganglion-bases-", dir=memory if os.access(memory, os.W_OK) else None))
    for seed in (*SEEDS, *WITHIN):
        case_of(seed, path)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def all_cases(folder: Path) -> Path:
    """Return the folder when the undisturbed results of all cases are known."""
    for name in (*range(CASES), DICE):
        case(name, folder)
    return folder


@pytest.fixture
def gone_on(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Have all journals begun anew wherever they can be; return who went on from a base how often."""
    for name, value in (("JOURNAL_BEGIN_BYTES", 0), ("JOURNAL_BEGIN_S", 0.0), ("_TIMES_SIZE", 0), ("_TIMES_COST", 0.0)):
        monkeypatch.setattr(compaction, name, value)
    found: Counter[str] = Counter()
    restore = Compaction.restore

    def counted(self: Any, state: Any, put: Callable[[Any], None]) -> None:
        restore(self, state, put)
        found[self._whose.partition(" ")[0]] += 1

    monkeypatch.setattr(Compaction, "restore", counted)
    return found


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all environments say themselves what they are."""
    own = ("sensors", "actuators", "params")  # of the bus, not to be said

    def save_state(self: Environment) -> dict[str, Any]:
        kinds = (bool, int, float, str, np.ndarray, list, tuple, type(None))
        return {name: it for name, it in vars(self).items() if isinstance(it, kinds) and name not in own}

    def load_state(self: Environment, state: dict[str, Any]) -> None:
        vars(self).update(state)

    monkeypatch.setattr(Environment, "save_state", save_state, raising=False)
    monkeypatch.setattr(Environment, "load_state", load_state, raising=False)


def go(folder: Path, seeds: Any) -> str:
    """Return what a campaign says of the first seed that goes wrong; empty if none does."""
    campaign = Campaign(folder, shrinks=False)
    for seed in seeds:
        try:
            campaign.go(seed)
        except Exception as failure:  # noqa: BLE001 - what is broken may break anything
            return f"seed {seed}: {type(failure).__name__}: {failure}"
    return ""


def test_runs_whose_journals_begin_anew_come_to_the_same(folder: Path, gone_on: Counter[str]) -> None:
    """Whoever is lost goes on from a base in the midst of a phase, and the run is the undisturbed one."""
    assert not go(folder, SEEDS)
    assert gone_on.keys() >= {"muscle", "controller", "brain", "governor"}


def test_environments_go_on_within_their_episodes(
    folder: Path, gone_on: Counter[str], spoken: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is with environments that say what they are; a state that is not put back is noticed."""
    assert not go(folder, WITHIN)
    assert gone_on["environment"] >= len(WITHIN)
    monkeypatch.setattr(Environment, "load_state", lambda self, state: None)
    assert go(folder, WITHIN)


ENDING = """\
uid: ending
seed: 7
version: "0.1"
schedule:
  - train:
      environments:
        - {environment: {uid: lake, name: counting, params: {length: 2}}, budget: {episodes: 6}, episode_end: each}
      agents: [{name: ada, brain: log, muscle: echo}]
      bodies: {num: 3}
      simulation: {name: aeb}
"""


def test_journals_begin_anew_where_bodies_end_together(tmp_path: Path, gone_on: Counter[str]) -> None:
    """Bodies that end in the same tick are no hindrance to a journal that begins anew."""
    outcome = simulate(ENDING, 1, tmp_path)

    assert ("finished", []) == (outcome.status, [news for news in outcome.news if news.event == "warning"])


@pytest.mark.long
def test_many_runs_whose_journals_begin_anew(all_cases: Path, gone_on: Counter[str], spoken: None) -> None:
    """So it is whatever happens."""
    assert not go(all_cases, range(2000))
    assert min(gone_on.values()) >= 10


def nothing_put_back(patch: pytest.MonkeyPatch) -> None:
    """Leave objects as they were made."""
    patch.setattr(Snapshot, "put", lambda self, read: None)


def batches_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Go on without the batches that were not acknowledged."""
    restore = Records.restore

    def forgetful(self: Any, state: Any) -> None:
        restore(self, state)
        self._sent.clear()

    patch.setattr(Records, "restore", forgetful)


def first_verdict(patch: pytest.MonkeyPatch) -> None:
    """Begin again with the first episode."""
    restore_or_compact = WorkerCompaction.restore_or_compact

    def first(self: Any, verdict: Any, mine: Any, loose: bool) -> Any:
        found = restore_or_compact(self, verdict, mine, loose)
        return None if found is None else (verdict, found[1])

    patch.setattr(WorkerCompaction, "restore_or_compact", first)


@pytest.mark.parametrize("mutant", [nothing_put_back, first_verdict], ids=lambda mutant: mutant.__name__)
def test_what_a_base_lacks_is_noticed(
    folder: Path, gone_on: Counter[str], monkeypatch: pytest.MonkeyPatch, mutant: Any
) -> None:
    """A base of which one part is not put back does not come to the same results."""
    mutant(monkeypatch)

    assert go(folder, SEEDS)


@pytest.mark.long
def test_batches_of_a_base_are_said_again(
    all_cases: Path, gone_on: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were on their way when a base was taken are lost, if its batches are."""
    batches_forgotten(monkeypatch)

    assert go(all_cases, range(2000))
