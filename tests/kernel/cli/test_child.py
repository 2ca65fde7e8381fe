from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ganglion.cli.child import Children

LONG_S = 60.0


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module that children find; the test writes it."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "child_module"


def _write(folder: Path, text: str) -> None:
    (folder / "child_module.py").write_text(f"import json, os, subprocess, sys, time\n{text}\n")


def test_silence_is_ended(tmp_path: Path, module: str) -> None:
    """Who does not end in time is killed, and what it has written up to then is there."""
    _write(tmp_path, "print('begun', flush=True)\ntime.sleep(600)")
    answer = Children().ask(module, None, 0.5)

    assert None is answer.status
    assert answer.text in ("", "begun\n")


def test_nobody_waits_after_the_end(tmp_path: Path, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`end` ends the children that run, and those that are begun later."""
    _write(tmp_path, "open('began', 'w').close()\ntime.sleep(600)")
    children = Children()
    found = []
    monkeypatch.chdir(tmp_path)
    thread = threading.Thread(target=lambda: found.append(children.ask(module, None, LONG_S)))
    thread.start()
    while not (tmp_path / "began").exists():
        assert thread.is_alive()
    children.end()
    thread.join(LONG_S)

    assert [-9] == [answer.status for answer in found]
    assert -9 == children.ask(module, None, LONG_S).status
