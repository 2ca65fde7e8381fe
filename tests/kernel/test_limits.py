from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from ganglion import limits
from ganglion.run.plan import span_s
from ganglion.wire.messages import CALLS

SOURCE = Path(limits.__file__).read_text()


def definitions() -> dict[str, ast.Assign | ast.AnnAssign]:
    """Return name -> definition."""
    found: dict[str, ast.Assign | ast.AnnAssign] = {}
    for node in ast.parse(SOURCE).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name) and target.id.isupper():
            found[target.id] = node
    return found


@pytest.mark.parametrize("name", sorted(definitions()))
def test_limit_is_positive_and_has_its_reason(name: str) -> None:
    """Every limit is above zero and has a reason beside it or on the lines of its definition."""
    node = definitions()[name]
    value = getattr(limits, name)
    lines = SOURCE.splitlines()[node.lineno - 1 : node.end_lineno]

    if isinstance(value, int | float):
        assert value > 0
    elif isinstance(value, tuple):
        assert sorted(value) == list(value)
    else:
        assert all(span is None or span > 0 for span in value.values())
    known = {"DOCUMENT_ALIASES", "DOCUMENT_DEPTH", "SCALAR_BYTES"}  # their group's reason is on the line above
    assert name in known or any("#" in line for line in lines)


def test_deadlines_are_those_of_calls() -> None:
    """Each deadline belongs to the last word of a call, or to a wait that is no call."""
    words = {call.name.rpartition(".")[2] for call in CALLS}
    waits = {"attach", "record"}  # for a program that somebody else starts; for the store's acknowledgement
    later = {"evaluate", "load", "checkpoint"}  # words of calls that the protocol keeps for later versions

    assert set(limits.DEADLINES_S) <= words | waits | later
    assert all(span_s(call.name, {}) for call in CALLS)


def test_values_that_were_promised() -> None:
    """Bounds that peers in other languages rely on stay as they are written down."""
    assert (2**53 - 1, 128, 43, 32) == (limits.INTEGER_MAX, limits.NAME_BYTES, limits.TOKEN_BYTES, limits.BODY_DEPTH)


def test_relations_are_asserted_at_import(tmp_path: Path) -> None:
    """A change that makes no sense is found when the module is imported."""
    changed = re.sub(r"^BODY_BYTES = .*$", "BODY_BYTES = 1", SOURCE, flags=re.MULTILINE)
    assert changed != SOURCE
    path = tmp_path / "limits.py"
    path.write_text(changed)
    spec = importlib.util.spec_from_file_location("changed_limits", path)
    assert spec is not None
    assert spec.loader is not None

    with pytest.raises(AssertionError):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
