from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ganglion.errors import StoreError, UsageError
from ganglion.run.plan import PhasePlan, Plan, PluginPlan
from ganglion.supervisor.folder import (
    MANIFEST,
    PROCESS_TABLE,
    Files,
    Incarnation,
    ProcessTable,
    boot_id,
    end_orphans,
    file_digest,
    incarnation_of,
    lives,
    read_manifest,
    read_process_table,
    reserve,
    run_id,
    seal,
    text_of,
    write_process_table,
)
from ganglion.supervisor.resume import forget
from ganglion.wire.messages import Ended
from ganglion.wire.name import Role, peer_name, safe

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="these means are Linux's")


@given(st.text(max_size=80))
def test_id_is_a_plain_part_of_paths_and_names(uid: str) -> None:
    """Whatever a uid holds, its run's id is one harmless part of a path, and stands on the wire as it is."""
    name = f"{run_id(uid)}-1"

    assert name == safe(name)
    assert name == Path(name).name
    assert name == peer_name(name, Role.GOVERNOR).split("/")[0]


def test_name_that_exists_is_refused(tmp_path: Path) -> None:
    """A run that exists is not overwritten, and a name that is no plain word is refused."""
    assert "mine" == reserve(tmp_path, "demo", "mine").run
    with pytest.raises(UsageError, match="run mine exists already"):
        reserve(tmp_path, "demo", "mine")
    with pytest.raises(UsageError, match="--name: expected small letters"):
        reserve(tmp_path, "demo", "../mine")


def test_a_folder_is_opened_again_when_its_run_goes_on(tmp_path: Path) -> None:
    """The seal is taken off, and each time it is noted how the run went on, and what was accepted for that."""
    folder = reserve(tmp_path, "demo")
    phase = PhasePlan(0, "train", [], [], PluginPlan("vanilla"), [], [])
    folder.fill(Plan("demo", "demo", "42", [phase], document="uid: demo\n"), ["run"], None)
    before, _ = read_manifest(folder.path)
    seal(folder.path, "interrupted", "operator", None)
    folder.reopen("with its journals", [])
    folder.reopen("from a phase", ["python: 2 then, 3 now"])
    manifest, wrong = read_manifest(folder.path)
    resumed = manifest.pop("resumed")

    assert ("", before) == (wrong, manifest)
    assert [("with its journals", None), ("from a phase", ["python: 2 then, 3 now"])] == [
        (note["how"], note.get("accepted")) for note in resumed
    ]
    seal(folder.path, "finished", "completed", None)
    sealed, wrong = read_manifest(folder.path)
    assert ("", resumed) == (wrong, sealed["resumed"])


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """A table comes back as it was written, and only its owner may look at it."""
    written = ProcessTable(
        boot_id(),
        incarnation_of(0, os.getpid()),
        2,
        True,
        True,
        {"r/governor": Incarnation(3), "r/store": Incarnation(1, 7, 9)},
        [[2, "RESET"]],
        Ended("r", "finished", "completed", 0, heads={"head": "ab"}),
    )
    write_process_table(tmp_path, written)

    assert written == read_process_table(tmp_path)
    assert 0o600 == stat.S_IMODE((tmp_path / PROCESS_TABLE).stat().st_mode)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"boot": "b", "supervisor": {"pid": 1}, "lives": {}}'])
def test_a_damaged_census_is_named(tmp_path: Path, text: str) -> None:
    """What cannot be read is an error with the file's name, and no empty table."""
    (tmp_path / PROCESS_TABLE).write_text(text)

    with pytest.raises(StoreError, match=PROCESS_TABLE):
        read_process_table(tmp_path)


def test_who_has_finished_leaves_nothing_to_go_on_with(tmp_path: Path) -> None:
    """ProcessTable and journals go, also those of other users; all else stays."""
    write_process_table(tmp_path, ProcessTable("", Incarnation(0)))
    for place in ("journals", "users/1000", "brains"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "muscle.journal").touch()
    (tmp_path / "users" / "1000" / "notes").touch()
    forget(tmp_path)

    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {"brains/muscle.journal", "users/1000/notes"} == left


CHAIN = {"run": "00" * 32, "phases": [{"phase": 0, "mode": "train", "head": "11" * 32}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a run that has ended, with one model."""
    model = tmp_path / "brains" / "0" / "ada" / "model.npz"
    model.parent.mkdir(parents=True)
    model.write_bytes(bytes(range(256)))
    row = {"path": "0/ada/model.npz", "sha256": file_digest(model)}
    (tmp_path / "brains" / "models.json").write_text(json.dumps({"models": [row]}))
    (tmp_path / "document.yml").write_text("seed: 1\n")
    (tmp_path / "resolved.yml").write_text("seed: 1\nname: ärger\n")
    (tmp_path / MANIFEST).write_text(text_of({"run": "demo-1", "source": "ü.yml"}))
    return tmp_path


def done(folder: Path, chain: Any = None) -> None:
    """Seal a manifest."""
    seal(folder, "finished", "completed", chain)


def found(folder: Path) -> list[str]:
    """Return what is damaged in a folder: names of files."""
    manifest, wrong = read_manifest(folder)
    names = [MANIFEST] if wrong or "sha256" not in manifest else []
    return names + [name for name, _ in Files(folder).sealed(manifest)]


@pytest.mark.parametrize("name", [MANIFEST, "document.yml", "resolved.yml", "brains/models.json"])
@pytest.mark.parametrize("damage", ["flip", "append", "cut", "remove"])
def test_every_damage_is_named(folder: Path, name: str, damage: str) -> None:
    """Whatever happens to a file that was sealed: the file is named."""
    done(folder, CHAIN)
    path = folder / name
    data = path.read_bytes()
    changes: dict[str, Callable[[], Any]] = {
        "flip": lambda: path.write_bytes(bytes([data[0] ^ 1]) + data[1:]),
        "append": lambda: path.write_bytes(data + b" "),
        "cut": lambda: path.write_bytes(data[:-1]),
        "remove": path.unlink,
    }
    changes[damage]()

    assert name in found(folder)


@pytest.mark.parametrize("seeds", [range(50), pytest.param(range(1000, 3000), marks=pytest.mark.long)])
def test_flipped_bits_are_named(folder: Path, seeds: range) -> None:
    """Whatever bit of whatever file is another, the file is named."""
    done(folder, CHAIN)
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    assert 5 == len(names)
    for seed in seeds:
        dice = random.Random(seed)
        name = dice.choice(names)
        data = (folder / name).read_bytes()
        at = dice.randrange(len(data))
        (folder / name).write_bytes(data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :])
        assert name in found(folder), (name, at)
        (folder / name).write_bytes(data)
    assert [] == found(folder)


@pytest.mark.parametrize("path", ["/etc/passwd", "model.npz", "/x/brains/../../etc", "/r/brains/0/../x"])
def test_models_lie_below_brains(folder: Path, path: str) -> None:
    """The path of a row counts only from `brains` on."""
    [(_, wrong)] = Files(folder).model(path, "00")

    assert "leaves the folder" in wrong


def test_links_and_pipes_are_not_read(folder: Path) -> None:
    """What is no regular file is named, and nobody waits for it."""
    (folder / "link").symlink_to(folder / "document.yml")
    os.mkfifo(folder / "pipe")

    wrong = [text for name in ("link", "pipe", "brains") for _, text in Files(folder).file(name, "00")]
    assert 3 == len([text for text in wrong if "cannot be read" in text])


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000])
def test_a_manifest_that_is_none_is_named(folder: Path, text: str) -> None:
    """Whatever lies there is no reason to fall."""
    (folder / MANIFEST).write_text(text)

    assert read_manifest(folder)[1]


FAMILY = "import os, time; child = os.fork(); child and print(child, flush=True); time.sleep(600)"

GONE = Incarnation(1, 2**22 + 1, 1)  # no process has so high a number


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    """Return a program in a session of its own, with a child."""
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, start_new_session=True) as it:
        yield it
        it.kill()


@needs_linux
def test_what_is_left_is_ended_with_its_group(program: subprocess.Popen[bytes]) -> None:
    """The process and what it has started are gone afterwards, and it is named."""
    assert program.stdout is not None
    child = incarnation_of(1, int(program.stdout.readline()))
    left = incarnation_of(1, program.pid)

    assert (True, True) == (lives(left), lives(child))
    assert ["r/muscle/ada/0"] == end_orphans(
        "r", ProcessTable("", GONE, lives={"r/muscle/ada/0": left, "r/store": GONE})
    )
    assert not lives(left)
    while Path(f"/proc/{child.pid}").exists() and lives(child):
        pass
