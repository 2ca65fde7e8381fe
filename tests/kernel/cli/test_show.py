from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

Command = Callable[..., tuple[int, str, str]]


def test_shows_a_run(ganglion: Command, write_run: Callable[..., str], tmp_path: Path) -> None:
    """Identity, status and reason come first, then phases, brains and files."""
    write_run("demo-1")
    (tmp_path / "demo-1" / "document.yml").write_text("uid: demo\n")

    status, out, err = ganglion("show", "demo")

    assert (0, "") == (status, err)
    lines = out.splitlines()
    assert ["run        demo-1", "uid        demo", "experiment e", "seed       1"] == lines[:4]
    assert "status     finished (done)" == lines[4]
    heads = [lines[i + 1].split()[:2] for i, line in enumerate(lines) if line in ("phases", "brains", "files")]
    assert [["phase", "name"], ["phase", "agent"], ["bytes", "path"]] == heads
    assert "10     document.yml" in lines


def test_as_json(ganglion: Command, write_run: Callable[..., str], tmp_path: Path) -> None:
    """As JSON it is one value with stable keys."""
    write_run("demo-1")

    value = json.loads(ganglion("show", "last", "--json")[1])

    assert ["run", "uid", "experiment", "seed", "status", "reason", "started", "ended"] == list(value)[:8]
    assert ["folder", "versions", "phases", "brains", "files"] == list(value)[8:]
    assert ["phase", "name", "mode", "status", "reason", "workers", "episodes", "limit"] == list(value["phases"][0])
    assert 1 == value["phases"][0]["episodes"]


def test_prints_the_documents(ganglion: Command, write_run: Callable[..., str], tmp_path: Path) -> None:
    """`--document` is the text as it was given, byte for byte, `--plan` the resolved one; both at once are usage."""
    write_run("demo-1")
    for name in ("document", "resolved"):
        (tmp_path / "demo-1" / f"{name}.yml").write_text(f"# {name} ü\nuid: demo")

    assert (0, "# document ü\nuid: demo", "") == ganglion("show", "demo-1", "--document")
    assert (0, "# resolved ü\nuid: demo", "") == ganglion("show", "--plan", "demo-1")
    assert {"run": "demo-1", "plan": "# resolved ü\nuid: demo"} == json.loads(
        ganglion("--json", "show", "demo-1", "--plan")[1]
    )
    assert 2 == ganglion("show", "demo-1", "--plan", "--document")[0]


def test_unknown_run(ganglion: Command, write_run: Callable[..., str]) -> None:
    """A run that there is not is exit 2."""
    write_run("demo-1")

    status, _, err = ganglion("show", "nobody")
    assert 2 == status
    assert "there is no run `nobody`" in err
