from __future__ import annotations

import pytest

from ganglion.wire.messages import PROTOCOL_VERSION
from ganglion_conformance.vectors import FOLDER, NAMES
from ganglion_conformance.vectors.make import MAKERS, text


@pytest.mark.parametrize("name", NAMES)
def test_file_is_what_the_code_makes(name: str) -> None:
    """The vectors of this version are current; `python -m ganglion_conformance.vectors --write` makes them."""
    assert text(name) == (FOLDER / f"v{PROTOCOL_VERSION}" / f"{name}.jsonl").read_text()


def test_names_of_refusals_are_their_own() -> None:
    """Each refusal is named once, and says by whom and how it is refused."""
    rows = MAKERS["refused"]()

    assert len(rows) == len({row["name"] for row in rows})
    assert {"decoder", "environment", "kernel", "peer"} == {row["by"] for row in rows}
    assert all(row["how"] and row["kind"] for row in rows)
