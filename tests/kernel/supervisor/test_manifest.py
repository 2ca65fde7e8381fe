from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion.supervisor.folder import MANIFEST, Files, file_digest, read_manifest, seal, text_of

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
    seal(folder, "finished", "completed", "2030-01-01T00:00:00.000+00:00", chain)


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


def flips(folder: Path, seeds: range) -> None:
    """Flip single bits of all files, one after another; each is named."""
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


def test_flipped_bits_are_named(folder: Path) -> None:
    """Whatever bit of whatever file is another, the file is named."""
    flips(folder, range(50))


@pytest.mark.long
def test_a_thousand_flipped_bits_are_named(folder: Path) -> None:
    """The same, many times."""
    flips(folder, range(1000, 3000))


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
