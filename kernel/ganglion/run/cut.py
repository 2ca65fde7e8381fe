"""Cut: a place where a run can begin again, as a text that shows whether it is whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ganglion.errors import StoreError

__all__ = ["FOLDER", "cut_text", "phase_cut_name", "read_cut"]

FOLDER = "cuts"
"""Where the cuts of a run are, below its folder."""

_FORMAT = 1
_SEAL = "sha256"


def phase_cut_name(phase: int) -> str:
    """Return the name of the file of the cut at the begin of a phase; names sort like phases."""
    return f"phase-{phase:06}.json"


def cut_text(cut: Mapping[str, Any]) -> str:
    """Return the one text that a cut of plain values has as a file; its digest is a part of it."""
    tree = {"format": _FORMAT, **cut}
    return _text({**tree, _SEAL: _digest(tree)})


def read_cut(text: str | bytes, where: str) -> dict[str, Any]:
    """Return the cut that a text holds, without format and digest; StoreError names `where` if a byte is another."""
    try:
        tree = json.loads(text)
        digest = tree.pop(_SEAL)
        if digest != _digest(tree):
            raise ValueError("it is not what was written")
        if tree.pop("format") != _FORMAT:
            raise ValueError("its format is not read")
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise StoreError(f"cut {where}: the file is damaged: {error}") from error
    found: dict[str, Any] = tree
    return found


def _text(tree: Mapping[str, Any]) -> str:
    return json.dumps(tree, ensure_ascii=False, indent=1) + "\n"


def _digest(tree: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(tree).encode()).hexdigest()
