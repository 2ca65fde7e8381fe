"""Experiments of the dummies, read from text; the command line on a folder of results."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from system.command import ganglion as command

from ganglion.cli.extension import DocumentError
from ganglion_sweep.experiment import Experiment, read_experiment

RUN = """
  schedule:
    - train:
        environments: [{environment: {uid: net.1, name: dummy, params: {max_iter: 4}}}]
        agents: [{name: ada, muscle: dummy, brain: dummy, objective: dummy, sensors: [net.1.0], actuators: [net.1.0]}]
        phase_config: {mode: train, episodes: 2}
  run_config: {condition: vanilla}
"""
HEAD = f'# of dummies\nuid: grid\nseed: 7\nversion: "0.1"\nrun:{RUN}'
GRID = f"""{HEAD}
factors:
  length: {{set: schedule.train.environments."net.1".params.max_iter, levels: [3, 5]}}
  workers: {{set: schedule.train.phase_config.worker, levels: [1, 2]}}
"""

Read = Callable[..., Experiment]
Ganglion = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def head() -> str:
    """Return a document without factors; its run document ends in line 11."""
    return HEAD


@pytest.fixture
def grid() -> str:
    """Return a document of two factors with two levels each."""
    return GRID


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return what reads an experiment from text: `read(text, *settings)`."""

    def _read(text: str, *settings: str) -> Experiment:
        (tmp_path / "e.yml").write_text(text)
        return read_experiment(str(tmp_path / "e.yml"), settings)

    return _read


@pytest.fixture
def faults(read: Read) -> Callable[..., list[str]]:
    """Return what reads a faulty experiment: `line:column: message` of each fault."""

    def _faults(text: str, *settings: str) -> list[str]:
        with pytest.raises(DocumentError) as error:
            read(text, *settings)
        return [f"{f.line}:{f.column}: {f.message}" for f in error.value.faults]

    return _faults


@pytest.fixture
def ganglion(tmp_path: Path) -> Ganglion:
    """Return what carries out a command line in `tmp_path`."""
    return partial(command, tmp_path)
