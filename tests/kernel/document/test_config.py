from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ganglion.document.config import config_schema, read_config
from ganglion.errors import DocumentError

SCHEMA = Draft202012Validator(config_schema())


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """What is no text, or not there, is told with its path."""
    (tmp_path / "bytes.yml").write_bytes(b"\xff\xfe\x00")
    for name in ("bytes.yml", "none.yml"):
        with pytest.raises(DocumentError, match=rf"{name}: cannot be read: "):
            read_config(tmp_path / name)


@given(st.integers(-3, 2000) | st.floats(-1.0, 9.0) | st.booleans() | st.text(max_size=3) | st.none())
def test_the_schema_refuses_what_is_refused(value: object) -> None:
    """Editors say of a number what the command says."""
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        json.dump({"processes_per_run": value}, file)
        file.flush()
        try:
            accepted = bool(read_config(Path(file.name)))
        except DocumentError:
            accepted = False

    if not (isinstance(value, float) and value.is_integer()):  # for JSON 2.0 is an integer
        assert accepted == SCHEMA.is_valid({"processes_per_run": value}) == (type(value) is int and 1 <= value <= 1000)
