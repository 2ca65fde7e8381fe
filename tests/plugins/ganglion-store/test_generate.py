from __future__ import annotations

import ast
from pathlib import Path

from ganglion_store import statements
from ganglion_store.generate import text


def test_statements_are_made_from_the_schema() -> None:
    """The compiled statements are those of the schema; if not: python -m ganglion_store.generate."""
    there = Path(statements.__file__).read_text(encoding="utf-8")

    assert ast.dump(ast.parse(text())) == ast.dump(ast.parse(there))
