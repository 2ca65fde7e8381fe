from __future__ import annotations

from pathlib import Path

import pytest

from ganglion.cli.extension import DocumentError
from ganglion_sweep.reader import read_experiment

OLD = """
uid: old
seed: 1
definitions:
  environments: {e: {environment: {uid: net, name: dummy}}}
  agents: {a: {name: ada, muscle: dummy}}
  run_config: {condition: vanilla}
schedule: [{first: {environments: [e], agents: [[a]]}}]
"""


def test_both_forms_are_read(tmp_path: Path, grid: str) -> None:
    """A document with `definitions` is one of arsenAI, any other is ours."""
    (tmp_path / "old.yml").write_text(OLD)
    (tmp_path / "own.yml").write_text(grid)

    assert "old" == read_experiment(str(tmp_path / "old.yml")).uid
    assert "grid" == read_experiment(str(tmp_path / "own.yml")).uid


def test_what_is_no_document(tmp_path: Path) -> None:
    """A file that is not there, no map, or a document of one run, is a fault with its name."""
    (tmp_path / "list.yml").write_text("[1]")
    (tmp_path / "run.yml").write_text("uid: u\nschedule: []\n")
    run = r"run\.yml:2:1: .*this is one run, no experiment"
    for name, said in (("none.yml", "cannot be read"), ("list.yml", "expected a map"), ("run.yml", run)):
        with pytest.raises(DocumentError, match=said):
            read_experiment(str(tmp_path / name))
