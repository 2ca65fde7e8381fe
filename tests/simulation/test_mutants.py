"""Mutants: one line of the design taken out at a time; campaigns must see that it is missing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from simulation.campaign import Campaign, Failure, carry_out, case_of, shrunk
from simulation.fault import drawn
from simulation.mutants import CAUGHT, MUTANTS, SEEDS, caught, undisturbed

# Mutants that one of the first seeds catches are looked at in every run, the others in the long tests.
FIRST = 10
LATER = {seed for seed in CAUGHT.values() if seed >= FIRST}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Return a folder in which results are."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="ganglion-mutants-", dir=memory if os.access(memory, os.W_OK) else None))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (seed in LATER)) for name, seed in CAUGHT.items()]
)
def test_a_mutant_is_caught(folder: Path, name: str) -> None:
    """A design that lacks one line fails: at the seed that has caught it before, else at one of the first thousand."""
    case_of(CAUGHT[name], folder)  # its undisturbed results, before anything is broken
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[name](patch)
        found = caught(folder, [CAUGHT[name]])
    if not found:
        undisturbed(folder)
        with pytest.MonkeyPatch.context() as patch:
            MUTANTS[name](patch)
            found = caught(folder, range(SEEDS))

    assert found


@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mutant is caught by one of the first thousand seeds."""
    undisturbed(folder)
    MUTANTS[name](monkeypatch)

    assert caught(folder, range(SEEDS))


@pytest.mark.parametrize(
    "seeds",
    [pytest.param(set(CAUGHT.values()) - LATER, id="first"), pytest.param(LATER, id="later", marks=pytest.mark.long)],
)
def test_no_mutant_no_failure(folder: Path, seeds: set[int]) -> None:
    """The seeds that catch mutants go well without them."""
    assert not caught(folder, sorted(seeds))


def test_a_failure_names_seed_and_fewest_faults(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a campaign says of a failure is enough to see it again, and holds no fault that does not matter."""
    seed = CAUGHT["absent_is_gone"]
    case_of(seed, folder)
    MUTANTS["absent_is_gone"](monkeypatch)
    with pytest.raises(Failure) as failure:
        Campaign(folder).go(seed)
    words = str(failure.value)
    fewest = shrunk(seed, drawn(seed, case_of(seed, folder).length), folder)

    assert words.startswith(f"seed {seed}, run ")
    assert all(str(fault) in words for fault in fewest)
    assert carry_out(seed, fewest, folder).wrong
    for fault in fewest:
        assert not carry_out(seed, [other for other in fewest if other is not fault], folder).wrong
