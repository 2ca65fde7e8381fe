from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from ganglion.run.effect import cut_text, phase_cut_name
from ganglion.supervisor.checkpoints import Moments, newest_cut, way_on


def keep_phase(folder: Path, phase: int, run: str = "farm-1") -> Path:
    """Write the cut at the begin of a phase, with the model of the one before; return that model's file."""
    model = folder / "brains" / str(phase - 1) / "ada" / "model.npz"
    model.parent.mkdir(parents=True, exist_ok=True)
    model.write_bytes(b"model %d" % phase)
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    row = ["brain", phase - 1, "ada", "", 1, 1, "2026", 7, digest, str(model)]
    (folder / "cuts").mkdir(exist_ok=True)
    text = cut_text({"run": run, "phase": phase, "models": [], "rows": [row]})
    (folder / "cuts" / phase_cut_name(phase)).write_text(text)
    return model


def keep_moment(folder: Path, stop: bool = False) -> None:
    """Keep a moment of no tapes."""
    moments = Moments(folder)
    moment = moments.note([], [], stop)
    assert moment is not None
    moments.keep(moment, {"run": "farm-1"})


@pytest.mark.parametrize("damage", ["text", "model", "gone", "run"])
def test_a_damaged_cut_is_named_and_the_one_before_it_taken(tmp_path: Path, damage: str) -> None:
    """A changed cut, a changed or missing model, one of another run: it says so, and goes back one further."""
    keep_phase(tmp_path, 1)
    model = keep_phase(tmp_path, 2, "farm-2" if damage == "run" else "farm-1")
    path = tmp_path / "cuts" / phase_cut_name(2)
    words = {"text": "damaged", "model": "expected SHA-256", "gone": "cannot be read", "run": "another run"}
    if damage == "text":
        path.write_text(path.read_text().replace('"phase": 2', '"phase": 0'))
    elif damage == "model":
        model.write_bytes(b"changed")
    elif damage == "gone":
        model.unlink()
    cut, wrong = newest_cut(tmp_path, "farm-1")

    assert 1 == cut["phase"]
    assert 1 == len(wrong)
    assert str(path) in wrong[0]
    assert words[damage] in wrong[0]


def test_what_could_not_be_used_is_told(tmp_path: Path) -> None:
    """A damaged moment leads to the begin of the phase, and is named."""
    keep_phase(tmp_path, 1)
    keep_moment(tmp_path)
    facts: Any = next((tmp_path / "cuts").glob("moment-*/moment.json"))
    facts.write_text("{}")
    way = way_on(tmp_path, "farm-1", None, taped=False)

    assert way.cut is not None
    assert (1, 1) == (way.cut["phase"], len(way.wrong))
    assert "damaged" in way.wrong[0]
