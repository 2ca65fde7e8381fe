from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from ganglion.sdk import Models, StoreError
from ganglion_palaestrai.dumper import BrainDumper, NoBrainFoundError, dump_of

BYTES = bytes(range(256)) * 3


@pytest.fixture
def models(tmp_path: Path) -> Models:
    """Return an empty folder of models."""
    return Models(str(tmp_path), str(tmp_path))


def test_a_dump_comes_back_as_it_was(models: Models) -> None:
    """What is stored under a tag comes back byte by byte, at its beginning, also from the end of a written file."""
    dumpers = [BrainDumper(models, models)]
    for tag, data in ((None, BYTES), ("actor", b"x"), ("critic", b"")):
        file = io.BytesIO()
        file.write(data)
        BrainDumper.store_brain_dump(file, dumpers, tag)

    found = [BrainDumper.load_brain_dump(dumpers, tag) for tag in (None, "actor", "critic")]
    assert [BYTES, b"x", b""] == [file.read() if file else None for file in found]
    assert ["", "actor", "critic"] == models.tags()


def test_a_dump_rests_as_bytes_only(models: Models) -> None:
    """A dump is one array of bytes in the model: whoever reads it executes nothing."""
    BrainDumper(models, models).save(io.BytesIO(b"\x80\x04N."), None)

    model = models.load()
    assert ["dump"] == list(model)
    assert (np.uint8, [0x80, 4, 78, 46]) == (model["dump"].dtype, model["dump"].tolist())


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


@pytest.mark.parametrize(
    "model", [None, 3, {}, {"w": np.zeros(3)}, {"dump": np.zeros(3)}, {"dump": np.zeros(1, np.uint8), "w": 1}]
)
def test_other_models_are_no_dumps(model: object) -> None:
    """A model that another brain saved as arrays, or a policy, is not taken for a dump."""
    assert dump_of(model) is None
