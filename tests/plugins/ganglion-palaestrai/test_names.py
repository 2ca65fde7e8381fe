from __future__ import annotations

import ast
import re
from pathlib import Path

from ganglion_palaestrai import names
from ganglion_palaestrai.names import ALIASES, NAMES


def test_names_have_one_form() -> None:
    """A name in the table is a module, a colon and a class, so that a dotted one can be looked up too, of one kind."""
    every = [name for table in NAMES.values() for name in table]
    wrong = [name for table in NAMES.values() for name in table if not re.fullmatch(r"[a-z_.]+:[A-Z][A-Za-z]+", name)]

    assert [] == wrong
    assert len(every) == len(set(every)) > 60


def test_the_table_is_plain_data_without_imports() -> None:
    """The module imports nothing, and its table holds texts, maps and sequences only."""
    tree = ast.parse(Path(names.__file__).read_text())

    assert [] == [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    pending: list[object] = [ALIASES]
    while pending:
        value = pending.pop()
        assert isinstance(value, str | dict | tuple)
        if isinstance(value, dict):
            pending += [*value, *value.values()]
        elif isinstance(value, tuple):
            pending += value


def test_arguments_belong_to_names_that_are_known() -> None:
    """What is said about arguments is said of names in the table."""
    known = {name for table in NAMES.values() for name in table}

    assert set() == set(ALIASES["params"]) - known
    assert {"rewards": "[]"} == ALIASES["params"]["palaestrai.agent:AggregateRewardsObjective"]
