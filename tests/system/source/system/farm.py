"""A farm: a folder in which documents are run."""

from __future__ import annotations

import subprocess
from pathlib import Path

from system.command import ganglion
from system.results import Rows, table

__all__ = ["Farm"]


class Farm:
    """Run documents in a folder of their own and read what came of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, text: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run a document; return exit status and output."""
        (self.folder / "document.yml").write_text(text)
        return self.ganglion("run", "document.yml", "--plain", *options)

    def ganglion(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder."""
        return ganglion(self.folder, *words)

    def rows(self, name: str, run: str) -> Rows:
        """Return the rows of a table of a run."""
        return table(self.folder, name, run)
