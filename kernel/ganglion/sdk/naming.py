"""Naming: names of documents as distinct names of files; the nearest known name; needs no numpy."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable
from urllib.parse import quote

from ganglion.errors import AuthorError
from ganglion.limits import MODEL_NAME_CHARACTERS


def percent_encoded(name: str) -> str:
    """Return a name with every byte but letters, digits, `_` and `-` percent-encoded.

    Raises:
        AuthorError: It has half of a surrogate pair, which is no character.
    """
    try:
        return quote(name, safe="").replace(".", "%2E").replace("~", "%7E")
    except UnicodeEncodeError as error:
        raise AuthorError(f"name: expected text that can be written as UTF-8, found {name!r:.100}") from error


def file_name(name: str) -> str:
    """Return the name of a file or folder for `name`, which leaves no folder and is different for each name.

    A result longer than 100 characters is cut, and a dot and 16 hexadecimal digits of the name's SHA-256 follow.
    """
    encoded = percent_encoded(name)
    if len(encoded) <= MODEL_NAME_CHARACTERS:
        return encoded
    return f"{encoded[:MODEL_NAME_CHARACTERS]}.{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean `x`?` for the nearest known name, else empty text."""
    found = difflib.get_close_matches(name, list(dict.fromkeys(known)), n=1)
    return f"; did you mean `{found[0]}`?" if found else ""
