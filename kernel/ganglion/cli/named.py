"""Documents by name: what a command line says where a document is meant, a file or one that a plugin brings."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["document_file"]

_NAME = re.compile(r"[\w-]+", re.ASCII)


def document_file(word: str) -> str:
    """Return the file that a word of the command line means.

    A word that is no file and looks like none is the name of a document of a plugin; the module that holds it names its
    place and imports nothing heavy. What looks like a file is returned as it is, and whoever reads it says that it is
    not there.

    Raises:
        PluginInvalid: There is no document of this name.
    """
    if word == "-" or Path(word).exists():
        return word
    from ganglion import registry  # reads the metadata of all distributions: not for a file that is there

    found = [entry for entry in registry.entries("document") if entry.name == word]
    return str(registry.load("document", word)) if found or _NAME.fullmatch(word) else word
