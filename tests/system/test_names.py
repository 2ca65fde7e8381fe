"""Names that want to be paths: through everything that makes a file of a name, none leaves its folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ganglion.errors import GanglionError
from ganglion.peer.journal.write import Journal, JournalFile
from ganglion.peer.models import copy_model, model_folders, write_index
from ganglion.run.plan import Process
from ganglion.sdk.models import Models
from ganglion.sdk.naming import file_name
from ganglion.supervisor.folder import RunFolder, log_name, reserve, run_id
from ganglion.wire.name import Role, peer_name

NAMES = [
    "/", "/etc/passwd", "..", ".", "../../outside", "..\\..\\outside", "C:\\outside", "%2e%2e%2foutside",
    "a\0b", "a\nb", "\x1b[2J", "-rf", "", " .. ", ".hidden", "trailing.", "CON", "a:b", "*", "\uff0e\uff0e\uff0fx",
    "\u2215etc", "\u202etxt.exe", "e\u0301", "\u00e9", "A", "a", "x" * 256, "../" * 1365, "\U0001f600" * 1024,
    "model.npz", "manifest.json", "brains",
]  # fmt: skip


def everything(folder: Path) -> set[str]:
    """Return all that lies below a folder, links not followed, each with what it holds."""
    found = set()
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(root, name)
            kind = path.readlink() if path.is_symlink() else "" if path.is_dir() else path.read_bytes()
            found.add(f"{path.relative_to(folder)} {kind!r:.60}")
    return found


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a run among other things; what lies around it has to stay as it is."""
    folder = tmp_path / "outer" / "results" / "run"
    folder.mkdir(parents=True)
    for place in ("outside", "outer/outside", "outer/results/outside"):
        (tmp_path / place).write_text("mine")
    (tmp_path / "outer" / "results" / "model.npz").write_text("mine")
    before = everything(tmp_path)
    yield folder
    after = {row for row in everything(tmp_path) if not row.startswith("outer/results/run/")}
    assert before == after


def model_of(folder: Path, name: str) -> None:
    """Store a model under a tag, as a brain does."""
    Models(folder / "brains" / "0" / "ada").save({"a": np.zeros(1)}, tag=name)


def value_of(folder: Path, name: str) -> None:
    """Store a value under a tag, as a shell does with a policy."""
    Models(folder).save_value({name: name}, tag=name or "x")


def agent_of(folder: Path, name: str) -> None:
    """Store a model in the folder of an agent, as `Setup.models` has it."""
    models = Models(f"{folder}/brains/0/{file_name(name)}")
    models.save({name: np.zeros(1)})
    assert [""] == models.tags()
    assert [name] == list(models.load())


def copy_of(folder: Path, name: str) -> None:
    """Copy a model of a tag into another folder."""
    source = Models(folder / "source")
    source.save({"a": np.zeros(1)}, tag=name)
    copy_model(list((folder / "source").glob("*.npz")), folder / "copies")


def index_of(folder: Path, name: str) -> None:
    """Write the index of a folder of models for a run, an agent, a tag of that name."""
    path = f"/r/brains/0/{file_name(name)}/model.npz"
    records = [
        ["run", {"uid": name, "experiment": name, "started": name}],
        ["brain", 0, name, name, 0, 0, 0, 0, "", path],
    ]
    write_index(folder / "copies", name, records)


def found_of(folder: Path, name: str) -> None:
    """Look for the models of a run of that name, as `load` does."""
    model_folders(folder, name)


def folder_of(folder: Path, name: str) -> None:
    """Make the folder of a run of that uid."""
    made = reserve(folder, name)
    assert folder == made.path.parent


def given_folder_of(folder: Path, name: str) -> None:
    """Make the folder of a run of that `--name`."""
    made = reserve(folder, "uid", name)
    assert folder == made.path.parent


def log_of(folder: Path, name: str) -> None:
    """Open the logs of processes of that uid, in a run of that uid."""
    for role in (Role.ENVIRONMENT, Role.MUSCLE):
        process = Process(peer_name(run_id(name), role, name, 3), role, name, 3)
        (folder / f"{log_name(process)}.log").write_text("")


def journal_of(folder: Path, name: str) -> None:
    """Begin and replace the journals of processes of that uid."""
    for role in (Role.ENVIRONMENT, Role.BRAIN):
        process = Process(peer_name(run_id(name), role, name, 3), role, name, 3)
        path = RunFolder("run", folder).journal(process)
        path.parent.mkdir(exist_ok=True)
        journal = Journal(JournalFile(path))
        journal.note((2, 1.0, None))
        journal.say()
        journal.begin_anew([])
        assert path.is_file()


FILES: list[Callable[[Path, str], None]] = [
    model_of,
    value_of,
    agent_of,
    copy_of,
    index_of,
    found_of,
    folder_of,
    given_folder_of,
    log_of,
    journal_of,
]


@pytest.mark.parametrize("make", FILES)
def test_no_file_is_made_outside(run: Path, make: Callable[[Path, str], None]) -> None:
    """Each name gives a file within the run's folder, or an error of ours; nothing around it changes."""
    for number, name in enumerate(NAMES):
        folder = run / str(number)
        folder.mkdir()
        beside = everything(run)
        with contextlib.suppress(GanglionError):
            make(folder, name)
        after = {row for row in everything(run) if not row.startswith(f"{number}/")}
        assert beside - {row for row in beside if row.startswith(f"{number}/")} == after, name


@pytest.mark.parametrize("make", [model_of, agent_of, index_of, log_of, copy_of, journal_of])
def test_planted_links_lead_nowhere(run: Path, make: Callable[[Path, str], None]) -> None:
    """Where a link lies in the place of each file that is made, what it leads to stays as it is."""
    victim = run / "victim"
    victim.write_text("mine")
    plain = run / "plain"
    plain.mkdir()
    make(plain, "ada")
    files = [path.relative_to(plain) for path in plain.rglob("*") if path.is_file()]
    assert files
    trapped = run / "trapped"
    for path in files:
        (trapped / path).parent.mkdir(parents=True, exist_ok=True)
        if make is not log_of:  # the supervisor makes these files in a folder of its own: see test_output
            (trapped / path).symlink_to(victim)
        (trapped / path).with_name(f".{path.name}.{os.getpid()}.part").symlink_to(victim)
    with contextlib.suppress(GanglionError, OSError):  # a process may end there, which its supervisor sees
        make(trapped, "ada")

    assert "mine" == victim.read_text()
