"""A run of real processes whose files are damaged one bit at a time: `ganglion verify` names each of them."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from system.command import ganglion

from ganglion.cli.main import main

DOCUMENTS = Path(__file__).parents[1] / "documents"
UNPROTECTED = {"logs", "checkpoints"}  # what was said on the way, and where a run could have gone on


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results folder of one run that has finished."""
    folder = tmp_path_factory.mktemp("whole")
    shutil.copy(DOCUMENTS / "dummy.yml", folder)
    ran = ganglion(folder, "run", "dummy.yml", "--quiet")
    assert 0 == ran.returncode, ran.stderr
    return folder / "results"


def verified(results: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[tuple[str, str]]]:
    """Return exit status of `ganglion verify`, and kind and place of each damage."""
    status = main(["--results", str(results), "verify", "dummy-1", "--json"])
    told = json.loads(capsys.readouterr().out)
    return status, [(row["kind"], row["where"]) for run in told["runs"] for row in run["damages"]]


def protected(results: Path) -> list[Path]:
    """Return the files of the run whose bytes are kept by a digest; that of a mark has none."""
    run = results / "dummy-1"
    found = [path for path in sorted(run.rglob("*")) if path.is_file() and path.stat().st_size]
    return [path for path in found if path.relative_to(run).parts[0] not in UNPROTECTED]


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.long)])
def test_every_flipped_bit_is_named(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Whatever bit of document, plan, manifest, index or model is another one: the status is 1, the file is named."""
    for name in ("GANGLION_RESULTS", "GANGLION_STORE"):
        monkeypatch.delenv(name, raising=False)
    rng = random.Random(count)
    run, files = results / "dummy-1", protected(results)
    names = {str(path.relative_to(run)) for path in files}
    assert {"document.yml", "resolved.yml", "plan.msgpack", "manifest.json", "brains/models.json"} <= names
    assert any(name.endswith("model.npz") for name in names)
    assert (0, []) == verified(results, capsys)
    for number in range(count):
        path = files[number % len(files)]  # each has its share, however small it is
        whole = path.read_bytes()
        place, bit = rng.randrange(len(whole)), rng.randrange(8)
        path.write_bytes(whole[:place] + bytes((whole[place] ^ 1 << bit,)) + whole[place + 1 :])
        status, damages = verified(results, capsys)
        path.write_bytes(whole)

        assert 1 == status, (path, place, bit)
        assert ("file", str(path.relative_to(run))) in damages, (path, place, bit)
    assert (0, []) == verified(results, capsys)
