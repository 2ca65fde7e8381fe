from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ganglion.document.config import config_schema, is_limit, read_config
from ganglion.errors import DocumentError
from ganglion.limits import changeable

SCHEMA = Draft202012Validator(config_schema())


def test_values_have_their_places(tmp_path: Path) -> None:
    """What is said is returned with its line."""
    path = tmp_path / "config.yml"
    path.write_text("results: here\nlimits:\n  peers: 3\n")
    found = read_config(path)

    assert {"results": "here", "limits": {"peers": 3}} == {key: node.plain() for key, node in found.items()}
    assert 2 == found["limits"].map["peers"].line


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """What is no text, or not there, is told with its path."""
    (tmp_path / "bytes.yml").write_bytes(b"\xff\xfe\x00")
    for name in ("bytes.yml", "none.yml"):
        with pytest.raises(DocumentError, match=rf"{name}: cannot be read: "):
            read_config(tmp_path / name)


def test_yaml_is_bounded_here_too(tmp_path: Path) -> None:
    """Tags that would build objects are refused as in documents."""
    path = tmp_path / "config.yml"
    path.write_text("results: !!python/object/apply:os.system [ls]\n")
    with pytest.raises(DocumentError):
        read_config(path)


VALUES = st.integers(-3, 3) | st.floats(-1.0, 9.0) | st.booleans() | st.text(max_size=3) | st.none()


@given(name=st.sampled_from([*changeable(), "pears", "body_depth"]), value=VALUES)
def test_the_schema_refuses_what_is_refused(name: str, value: object) -> None:
    """Editors say of each limit what the command says."""
    accepted = not is_limit(name, value)
    if isinstance(value, float) and value.is_integer() and isinstance(changeable().get(name), int):
        return  # for JSON 2.0 is an integer

    assert accepted == SCHEMA.is_valid({"limits": {name: value}})


def test_the_schema_knows_the_other_keys() -> None:
    """Misspelt keys and values of another kind are refused."""
    assert SCHEMA.is_valid({"results": "x", "allow": ["one"], "commands": "deny", "bind": "tcp://*:1"})
    for broken in ({"reslts": "x"}, {"allow": "one"}, {"commands": "no"}, {"limits": []}):
        assert not SCHEMA.is_valid(broken)
