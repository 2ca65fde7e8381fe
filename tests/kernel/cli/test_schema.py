from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from ganglion import registry
from ganglion.cli.main import main
from ganglion.cli.settings import KEYS


def test_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--out writes a new file and refuses one that is there."""
    path = tmp_path / "schema.json"

    assert (0, 2) == (main(["schema", "run", "--out", str(path)]), main(["schema", "--out", str(path)]))
    assert json.loads(path.read_text())["title"] == "Ganglion run document"
    assert "nothing is overwritten" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["run", *(entry.name for entry in registry.entries("schema"))])
def test_parameters_of_plugins(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--plugins adds the parameters of what is installed, also to kinds of documents that hold run documents."""
    assert 0 == main(["schema", kind, "--plugins"])

    tree = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(tree)
    assert "dummy" in tree["$defs"]["Environment"]["properties"]["name"]["examples"]
    cases = {
        tuple(case["if"]["properties"]["name"]["enum"]): case["then"]
        for case in tree["$defs"]["Environment"]["allOf"][1:]
    }
    form = cases["dummy", "ganglion-toys:dummy"]["properties"]["params"]
    assert {"discrete", "max_iter"} <= set(form["properties"])


def test_settings_have_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """`schema config` describes the settings files; they name no plugins."""
    assert 0 == main(["schema", "config"])
    tree = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(tree)

    assert set(KEYS) == set(tree["properties"])
