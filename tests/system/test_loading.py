"""What a document may have imported: each key that names a class, with everything that is none of its business."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ganglion import registry
from ganglion.document import load_document
from ganglion.errors import DocumentError

GOOD = {  # a key of the document below -> what is right there
    "environment": "dummy",
    "reward": "mine:Thing",
    "transformer": "counting",
    "muscle": "dummy",
    "brain": "dummy",
    "objective": "dummy",
    "controller": "vanilla",
    "condition": "max_steps",
}
WAY_OUT = "is not allowed (name a plugin, or --allow it if you trust it)"
NAMES = {  # others are in tests/kernel/test_registry.py
    "os:system": WAY_OUT,
    "marked:Thing": WAY_OUT,
    "json:Shadow": WAY_OUT,
    "mine:_Hidden": "names with a leading underscore are private",
    "mine:Thing.inner": "expected a short name or an import path `module:Class`",
    "nobody": "there is no",
}
DOCUMENT = """\
uid: u
seed: 1
version: "0.1"
schedule:
  - one:
      environments:
        - environment: {uid: hill, name: ENVIRONMENT}
          reward: {name: REWARD}
          state_transformer: {name: TRANSFORMER}
      agents:
        - name: ada
          muscle: {name: MUSCLE}
          brain: {name: BRAIN}
          objective: {name: OBJECTIVE}
          sensors: [hill.*]
          actuators: [hill.*]
      simulation: {name: CONTROLLER, conditions: [{name: CONDITION}]}
      phase_config: {mode: train, episodes: 1}
run_config:
  condition: {name: vanilla}
"""


def document(kind: str = "", name: str = "") -> str:
    """Return the document with a name in the place of one kind of class."""
    text = DOCUMENT
    for word, good in GOOD.items():
        text = text.replace(f"name: {word.upper()}", f"name: {json.dumps(name if word == kind else good)}")
    return text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with modules beside a document; one elsewhere on the path leaves a mark when it is imported."""
    site = tmp_path / "site"
    (site / "marked").mkdir(parents=True)
    mark = f"open({str(tmp_path / 'mark')!r}, 'w').close()\n"
    (site / "marked" / "__init__.py").write_text(mark)
    (site / "marked" / "inner.py").write_text(mark)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "json", "os"):  # beside the document; names of the standard library never count
        (tmp_path / f"{name}.py").write_text(mark)
    return tmp_path


@pytest.mark.parametrize("kind", GOOD)
def test_names_are_refused_before_any_import(folder: Path, kind: str) -> None:
    """Whatever a key names, what may not be imported is a fault at its place that says the way out; nothing ran."""
    line = next(i for i, row in enumerate(DOCUMENT.splitlines(), 1) if f"name: {kind.upper()}" in row)
    load_document("run.yml", plugins=registry, text=document())
    before = set(sys.modules)
    for name, reason in NAMES.items():
        with pytest.raises(DocumentError) as caught:
            load_document("run.yml", plugins=registry, text=document(kind, name))
        (fault,) = [fault for fault in caught.value.faults if fault.severity == "error"]

        assert reason in fault.message, (kind, name)
        assert ("run.yml", line) == (fault.file, fault.line), (kind, name)
        assert 2 == caught.value.exit_status
    assert not (folder / "mark").exists()
    assert before == set(sys.modules)


@pytest.mark.parametrize("name", ["mine:Thing", "marked:Thing", "ganglion_toys.dummy:DummyMuscle"])
def test_documents_of_the_network_name_no_import_path(folder: Path, name: str) -> None:
    """A document that came over the network names plugins by their short names, allowed packages or not."""
    text = document("muscle", name)
    with pytest.raises(DocumentError) as caught:
        load_document("run.yml", plugins=registry, text=text, local=False, allow=["marked"])
    said = [fault.message for fault in caught.value.faults if fault.path.endswith("muscle.name")]

    assert ["names plugins by short name only" in text for text in said] == [True]
    assert not (folder / "mark").exists()
