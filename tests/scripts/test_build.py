"""Installed outside of the checkout's own environment: from the wheels of scripts/build, and from the checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
STANDARD = set(PROJECT["optional-dependencies"]["standard"])
OURS = {path.parent.name for path in (ROOT / "plugins").glob("*/pyproject.toml")}
BOUND_S = 240


class Fresh:
    """A virtual environment in which every library is installed, and nothing of ours."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv")
        self.bin = folder / "venv/bin"
        libraries = folder / "libraries"
        libraries.mkdir()
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if not entry.name.lstrip("_").startswith(("ganglion", "editable")):
                (libraries / entry.name).symlink_to(entry)
        (site,) = (folder / "venv/lib").glob("python*/site-packages")
        (site / "libraries.pth").write_text(f"{libraries}\n")

    def install(self, *what: str, cwd: Path) -> None:
        """Install without an index: what is asked for must be in `what`, in a folder that it names, or a library."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "--disable-pip-version-check"]
        words = [*pip, "install", "-q", "--no-index", "--no-build-isolation", *what]
        done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=BOUND_S)
        assert 0 == done.returncode, done.stderr

    def ganglion(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.bin / "ganglion"), *words]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=BOUND_S)

    def distributions(self) -> set[str]:
        """Return which distributions offer plugins."""
        return {row["distribution"] for row in json.loads(self.ganglion("--json", "plugins").stdout)}


@pytest.mark.long
@pytest.mark.slow
def test_wheels_install_the_kernel_and_its_standard_plugins(tmp_path: Path) -> None:
    """The kernel alone says which command installs its plugins; with them from the folder of wheels, a run succeeds."""
    build = [str(ROOT / "scripts/build"), "dist"]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, timeout=BOUND_S)
    assert 0 == done.returncode, done.stderr
    fresh = Fresh(tmp_path)
    fresh.install("--find-links", "dist", "ganglion", cwd=tmp_path)
    alone = fresh.ganglion("run")
    fresh.install("--find-links", "dist", "ganglion[standard]", cwd=tmp_path)

    assert 1 + len(OURS) == len(list((tmp_path / "dist").glob("*.whl")))
    assert f"pip install --find-links '{tmp_path}/dist' 'ganglion[standard]'" in done.stdout
    assert 2 == alone.returncode
    assert "the kernel is installed without plugins; install those that belong to it: pip install" in alone.stderr
    assert STANDARD == fresh.distributions()
    ran = fresh.ganglion("run", "-q", str(ROOT / "tests/documents/dummy.yml"))
    assert 0 == ran.returncode, ran.stderr


@pytest.mark.long
def test_a_checkout_is_installed_by_one_command(tmp_path: Path) -> None:
    """Kernel and plugins of a checkout are installed together, without the scripts and without an index."""
    fresh = Fresh(tmp_path)
    fresh.install(".", *(f"./plugins/{name}" for name in sorted(OURS)), cwd=ROOT)

    assert OURS == fresh.distributions()
    assert 0 == fresh.ganglion("check", "demo").returncode
