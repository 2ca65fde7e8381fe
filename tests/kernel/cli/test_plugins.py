from __future__ import annotations

import json

import pytest

from ganglion.cli.main import main
from ganglion.cli.plugins import manual
from ganglion.registry import Entry


def test_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a name every plugin is listed, as JSON with stable keys."""
    assert 0 == main(["plugins", "--json"])

    rows = json.loads(capsys.readouterr().out)
    assert {"name", "group", "distribution", "version", "object", "summary"} == set(rows[0])
    assert ("controller", "vanilla") in {(row["group"], row["name"]) for row in rows}


@pytest.mark.parametrize(
    "line", ["plugins environment", "plugins environments", "plugins ganglion.environments", "env list"]
)
def test_lists_a_group(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A group is named in the singular, the plural, or as entry points; a plugin of its name is not listed with it."""
    assert 0 == main(line.split())

    header, *rows = capsys.readouterr().out.splitlines()
    assert ["GROUP", "NAME", "DISTRIBUTION", "VERSION", "SUMMARY"] == header.split()
    assert {"environment"} == {row.split()[0] for row in rows}


def test_check(capsys: pytest.CaptureFixture[str]) -> None:
    """--check imports plugins elsewhere and says of each whether it fits."""
    assert 0 == main(["plugins", "dummy", "--check", "--json"])
    assert {None} == {row["fault"] for row in json.loads(capsys.readouterr().out)}


def test_a_name_comes_with_its_manual(capsys: pytest.CaptureFixture[str]) -> None:
    """What the class says of its parameters is printed below, and is there as JSON."""
    assert 0 == main(["plugins", "max_steps"])
    shown = capsys.readouterr().out

    assert "condition max_steps (ganglion_conditions.max_steps:MaxSteps)" in shown
    assert "    Params:\n        steps: Steps of an episode, >= 1." in shown
    assert 0 == main(["plugins", "max_steps", "--json"])
    assert "Params:" in json.loads(capsys.readouterr().out)[0]["manual"]


@pytest.mark.parametrize(
    "value", ["no_such_module:Thing", "json:Thing", "json.no:Thing", "sys:Thing", "json.decoder.no:Thing"]
)
def test_where_there_is_no_source_there_is_no_manual(value: str) -> None:
    """A module or class that is not there, or is not written in Python, has none."""
    assert manual(Entry("p", "muscle", "d", "1", value)) is None
