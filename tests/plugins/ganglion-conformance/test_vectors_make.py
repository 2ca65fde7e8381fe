from __future__ import annotations

import pytest

from ganglion.wire.messages import PROTOCOL_VERSION
from ganglion_conformance.vectors import FOLDER, NAMES
from ganglion_conformance.vectors.make import text


@pytest.mark.parametrize("name", NAMES)
def test_file_is_what_the_code_makes(name: str) -> None:
    """The vectors of this version are current; `python -m ganglion_conformance.vectors --write` makes them."""
    assert text(name) == (FOLDER / f"v{PROTOCOL_VERSION}" / f"{name}.jsonl").read_text()
