"""Nearest names: what a misspelt one may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str:
    """Return `, did you mean ...?` if one of the names is like this one, else the list of names."""
    known = list(names)
    found = difflib.get_close_matches(name, known, 1, 0.6)
    if found:
        return f"; did you mean `{found[0]}`?"
    return f"; there are: {', '.join(known)}" if known else ""
