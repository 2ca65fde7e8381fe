"""`ganglion config`: each setting with its origin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ganglion.cli.settings import Settings
from ganglion_watch.config import config


def test_arguments_of_launchers_are_shown_without_passwords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are there with the line that they are from; a password in an address is not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / ".ganglion.yml").write_text('launchers: {ray: {address: "tcp://u:secret@h:1", cpus: 2}}\n')
    settings = Settings.load()
    settings.json = True
    found = json.loads(CliRunner().invoke(config, [], obj=settings).output)

    expected = {"value": {"ray": {"address": "tcp://u:***@h:1", "cpus": 2}}, "origin": ".ganglion.yml:1"}
    assert expected == found["launchers"]
