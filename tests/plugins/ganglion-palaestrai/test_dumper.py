from __future__ import annotations

import io
from pathlib import Path

import pytest

from ganglion.sdk import Models, StoreError
from ganglion_palaestrai.dumper import BrainDumper, NoBrainFoundError

BYTES = bytes(range(256)) * 3


@pytest.fixture
def models(tmp_path: Path) -> Models:
    """Return an empty folder of models."""
    return Models(str(tmp_path), str(tmp_path))


def test_a_dump_that_is_not_there(models: Models) -> None:
    """Nothing under a tag is None from all dumpers and an error from one; without dumpers it is None, too."""
    dumper = BrainDumper(models)

    assert BrainDumper.load_brain_dump([dumper, dumper], "actor") is None
    assert BrainDumper.load_brain_dump([]) is None
    with pytest.raises(NoBrainFoundError, match="no dump under the tag 'actor'"):
        dumper.load("actor")


def test_a_damaged_dump_is_told(models: Models, tmp_path: Path) -> None:
    """A file that is damaged is an error and no missing dump."""
    BrainDumper(models, models).save(io.BytesIO(BYTES))
    (file,) = tmp_path.glob("*.npz")
    file.write_bytes(file.read_bytes()[:-30])

    with pytest.raises(StoreError):
        BrainDumper.load_brain_dump([BrainDumper(models)])


def test_a_muscle_keeps_nothing(models: Models) -> None:
    """A dumper without models of its own only reads."""
    with pytest.raises(RuntimeError, match="its brain keeps them"):
        BrainDumper.store_brain_dump(io.BytesIO(b""), [BrainDumper(models)])
