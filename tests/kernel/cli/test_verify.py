from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from ganglion.cli.stores import default_uri, store_class
from ganglion.supervisor.folder import MANIFEST, file_digest, seal, text_of

Command = Callable[..., tuple[int, str, str]]


def _end(results: Path, run: str) -> None:
    """Seal the manifest of a run, and let its model be what its row says."""
    uri = default_uri(results)
    with store_class(uri).writer(uri, run, resume=True) as writer:
        model = results / run / "brains" / "0" / "ada" / "model.npz"
        model.parent.mkdir(parents=True)
        model.write_bytes(b"model")
        place = f"/elsewhere/{run}/brains/0/ada/model.npz"
        row = ["brain", 0, "ada", "last", 0, 4, "now", 5, file_digest(model), place]
        writer.apply("governor", [row, ["end", "finished", "done", "now"]])
        writer.commit()
        heads = writer.heads()
    (results / run / "document.yml").write_text("uid: demo\n")
    (results / run / MANIFEST).write_text(text_of({"run": run}))
    seal(results / run, "finished", "done", heads)


@pytest.fixture(autouse=True)
def runs(write_run: Callable[..., str], tmp_path: Path) -> None:
    """Write two equal runs, and one with another reward."""
    for run, more in (("demo-1", {}), ("demo-2", {}), ("journal-1", {"reward": 2.0})):
        write_run(run, brains=False, **more)
        _end(tmp_path, run)


def _edit(results: Path, *statements: str) -> None:
    with sqlite3.connect(results / "ganglion.db") as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_whole_runs_are_exit_0(ganglion: Command) -> None:
    """Each run is named; without a name all are verified."""
    assert (0, "demo-1: whole\n", "") == ganglion("verify", "demo-1")
    assert (0, "demo-1: whole\ndemo-2: whole\njournal-1: whole\n", "") == ganglion("verify")
    assert 2 == ganglion("verify", "nonsense")[0]


def test_equal_results_have_equal_digests(ganglion: Command) -> None:
    """Of one run the digest stands alone; `runs diff` says the same."""
    one, two, other = (ganglion("verify", run, "--digest")[1] for run in ("demo-1", "demo-2", "journal-1"))

    assert (64, one) == (len(one.strip()), two)
    assert one != other
    assert [0, 1] == [ganglion("runs", "diff", "demo-1", run)[0] for run in ("demo-2", "journal-1")]
    assert f"{one.strip()}  demo-2" in ganglion("verify", "--digest")[1].splitlines()
    row = {"run": "demo-1", "digest": one.strip(), "damages": [], "more": 0}
    assert {"runs": [row]} == json.loads(ganglion("verify", "demo-1", "--digest", "--json")[1])


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("UPDATE stored_steps SET tick = 9 WHERE step = 2", "episode phase 0, train, worker 0, episode 0: it is not"),
        ("UPDATE stored_brains SET sha256 = '00' WHERE updates = 4", "row brains, row 0 (phase 0, agent 'ada'"),
        ("UPDATE stored_brains SET path = '/etc/passwd'", "row brains, row 0 (phase 0, agent 'ada'"),
        (("document.yml", "x"), "file document.yml: expected SHA-256"),
        (("brains/0/ada/model.npz", "x"), "file brains/0/ada/model.npz: expected SHA-256"),
        ((MANIFEST, "{}"), "file manifest.json: the run has ended, but it is not sealed"),
        ((MANIFEST, "{"), "file manifest.json: it cannot be read"),
    ],
)
def test_damage_is_named(ganglion: Command, tmp_path: Path, damage: str | tuple[str, str], named: str) -> None:
    """The first damaged row, episode or file is named, and the status is 1; no digest is given of what is damaged."""
    if isinstance(damage, str):
        _edit(tmp_path, damage)
    else:
        (tmp_path / "demo-1" / damage[0]).write_text(damage[1])
    status, out, _ = ganglion("verify", "demo-1")

    assert (1, True) == (status, out.startswith(f"demo-1: {named}")), out
    status, out, err = ganglion("verify", "demo-1", "--digest")
    assert (1, "", True) == (status, out, f"demo-1: {named}" in err)


def test_other_heads_than_those_of_the_store_are_damage(ganglion: Command, tmp_path: Path) -> None:
    """A manifest that was sealed again, with heads that the store does not have, is a broken chain."""
    (tmp_path / "demo-1" / MANIFEST).write_text(text_of({"run": "demo-1"}))
    seal(tmp_path / "demo-1", "finished", "done", {"run": "other", "phases": []})

    assert (1, f"demo-1: chain demo-1: {MANIFEST} has kept other heads than the store\n", "") == ganglion(
        "verify", "demo-1"
    )


@pytest.mark.parametrize("table", ["runs", "phases", "declarations", "brains", "episodes"])
def test_what_somebody_wrote_is_shown_and_not_obeyed(ganglion: Command, tmp_path: Path, table: str) -> None:
    """Rows of a database from elsewhere may hold what a terminal would obey; no command that reads them says it."""
    with sqlite3.connect(tmp_path / "ganglion.db") as connection:
        (name,) = next(
            row for row in connection.execute("SELECT name FROM sqlite_master") if row[0] in (table, f"stored_{table}")
        )
        for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({name})").fetchall():
            if kind.upper() in ("TEXT", "VARCHAR"):
                with contextlib.suppress(sqlite3.IntegrityError):
                    connection.execute(f"UPDATE {name} SET {column} = {column} || '\x1b[2J\x07'")
    connection.close()
    words = [["verify"], ["runs"], ["show", "last"], ["verify", "--digest"]]
    words += [["results", shown] for shown in ("steps" if table == "declarations" else table, "actions")]
    said = "".join("".join(ganglion(*command)[1:]) for command in words)

    assert "x1b[2J" in said or "u001b[2J" in said
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", said)


def test_a_run_that_was_not_stored_has_its_files(ganglion: Command, tmp_path: Path) -> None:
    """Without a store the manifest and the files that it names are verified; there is no digest of rows."""
    assert (0, "demo-1: whole\n", "") == ganglion("verify", "demo-1", "--store", "none")
    (tmp_path / "demo-1" / "document.yml").write_text("x")
    assert 1 == ganglion("verify", "demo-1", "--store", "none")[0]
    assert 1 == ganglion("verify", "demo-1", "--store", "none", "--digest")[0]
    assert 2 == ganglion("verify", "nothing", "--store", "none")[0]


@pytest.mark.parametrize("found", ["nothing", "noise", "a malformed schema"])
def test_a_store_that_cannot_be_read_is_damage(ganglion: Command, tmp_path: Path, found: str) -> None:
    """A run whose manifest names a store is not whole without it, though all its files are."""
    text = text_of({"run": "demo-1", "store": default_uri(tmp_path)})
    (tmp_path / "demo-1" / MANIFEST).write_text(text)
    seal(tmp_path / "demo-1", "finished", "done", None)
    database = tmp_path / "ganglion.db"
    if found == "a malformed schema":
        _edit(tmp_path, "PRAGMA writable_schema = 1", "UPDATE sqlite_master SET sql = 'CREATE TABLE no'")
    else:
        database.unlink()
        if found == "noise":
            database.write_bytes(bytes(range(256)) * 400)
    status, out, _ = ganglion("verify", "demo-1")

    assert 1 == status
    assert re.match(r"demo-1: store \S+ganglion.db: its rows cannot be read: .*ganglion.db", out)


def test_a_run_that_goes_on_is_verified_as_it_is(
    ganglion: Command, write_run: Callable[..., str], tmp_path: Path
) -> None:
    """Neither seals nor a sealed manifest are expected of a run that has not ended."""
    write_run("live-1", status="running", brains=False)
    (tmp_path / "live-1" / MANIFEST).write_text(text_of({"run": "live-1"}))

    assert (0, "live-1: whole\n", "") == ganglion("verify", "live-1")
