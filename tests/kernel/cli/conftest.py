"""A command line, and a daemon that it finds."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import ganglion as ganglion
from commandline import write_run as write_run


@pytest.fixture(scope="session")
def daemon() -> Iterator[Path]:
    """Yield the results folder of a daemon that stores nothing and runs nothing; it leaves after the last test."""
    with tempfile.TemporaryDirectory(prefix="gk-", dir="/tmp") as folder:
        variables = {**os.environ, "TMPDIR": folder, "XDG_RUNTIME_DIR": ""}
        words = [str(Path(sys.executable).with_name("ganglion")), "kernel", "--store", "none", "--results", folder]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=variables)
        with process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("endpoint ")
            assert process.stdout.readline().startswith("connection file ")
            yield Path(folder)
            process.terminate()
            process.communicate(timeout=10)
        assert 130 == process.returncode
