from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    create_engine,
    insert,
    select,
)

from ganglion.sdk.store import UsageError
from ganglion_store.where import condition

NUMBERS = [None, -3, 0, 1, 2, 7]
FLOATS = [None, -0.5, 0.0, 1.0, 2.5]
TEXTS = [None, "", "a", "B", "ab", "100%", "it's", 'q"q', "x_y"]
FLAGS = [None, True, False]
ROWS = [
    {"key": n, "n": NUMBERS[n % 6], "f": FLOATS[n % 5], "t": TEXTS[n % 9], "u": TEXTS[n * 7 % 9], "b": FLAGS[n % 3]}
    for n in range(90)
]
TABLE = Table(
    "t",
    MetaData(),
    Column("key", Integer, primary_key=True),
    Column("n", Integer),
    Column("f", Float),
    Column("t", Text),
    Column("u", Text),
    Column("b", Boolean),
    Column("blob", LargeBinary),
)
COLUMNS = {name: TABLE.c[name] for name in ("n", "f", "t", "u", "b", "blob")}
Value = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def engine() -> Any:
    """Return a database with the rows."""
    engine = create_engine("sqlite://")
    TABLE.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(TABLE), ROWS)
    yield engine
    engine.dispose()


def _found(engine: Any, text: str) -> list[int]:
    with engine.connect() as connection:
        query = select(TABLE.c.key).where(condition(text, COLUMNS)).order_by(TABLE.c.key)
        return [row[0] for row in connection.execute(query)]


# -- the same language, evaluated in Python: text and a function row -> True, False or None (unknown) ------------------
def _column(name: str) -> tuple[str, Value]:
    return name, lambda row: row[name]


def _literal(value: Any) -> tuple[str, Value]:
    if isinstance(value, str):
        text = "'" + value.replace("'", "''") + "'"
    else:
        text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text, lambda row: value


def _operands(columns: list[str], values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    return st.one_of(st.sampled_from(columns).map(_column), st.sampled_from(known).map(_literal))


KINDS = st.sampled_from([(["n", "f"], [-3, 0, 1, 2.5, 7, -0.5]), (["t", "u"], TEXTS), (["b"], FLAGS)])
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@st.composite
def comparisons(draw: Any) -> tuple[str, Value]:
    """Draw a comparison of two operands of one kind."""
    columns, values = draw(KINDS)
    (left, a), (right, b) = draw(_operands(columns, values)), draw(_operands(columns, values))
    sign = draw(st.sampled_from(list(SIGNS)))

    def value(row: dict[str, Any]) -> bool | None:
        x, y = a(row), b(row)
        return None if x is None or y is None else SIGNS[sign](x, y)

    return f"{left} {sign} {right}", value


@st.composite
def memberships(draw: Any) -> tuple[str, Value]:
    """Draw `in` and `not in`."""
    columns, values = draw(KINDS)
    name = draw(st.sampled_from(columns))
    members = draw(st.lists(st.sampled_from([v for v in values if v is not None]), min_size=1, max_size=4))
    negated = draw(st.booleans())
    text = f"{name} {'not in' if negated else 'in'} ({', '.join(_literal(v)[0] for v in members)})"
    return text, lambda row: None if row[name] is None else (row[name] in members) != negated


@st.composite
def likenesses(draw: Any) -> tuple[str, Value]:
    """Draw `like` and `not like`."""
    name = draw(st.sampled_from(["t", "u"]))
    pattern = draw(st.text("aAbB%_'x1", max_size=5))
    negated = draw(st.booleans())
    parts = {"%": ".*", "_": "."}
    expression = re.compile("".join(parts.get(c, re.escape(c)) for c in pattern), re.IGNORECASE | re.DOTALL)
    text = f"{name} {'not like' if negated else 'like'} {_literal(pattern)[0]}"
    return (text, lambda row: None if row[name] is None else (expression.fullmatch(row[name]) is not None) != negated)


@st.composite
def nulls(draw: Any) -> tuple[str, Value]:
    """Draw `is null`, `is not null`, and a boolean column on its own."""
    name = draw(st.sampled_from(["n", "f", "t", "b"]))
    form = draw(st.sampled_from(["is null", "is not null", ""]))
    if not form:
        return "b", lambda row: row["b"]
    return f"{name} {form}", lambda row: (row[name] is None) == (form == "is null")


def _combined(inner: Any) -> Any:
    def both(parts: tuple[tuple[str, Value], tuple[str, Value], str]) -> tuple[str, Value]:
        (left, a), (right, b), word = parts
        strong = word == "or"  # the value that decides alone

        def value(row: dict[str, Any]) -> bool | None:
            found = {a(row), b(row)}
            return strong if strong in found else None if None in found else not strong

        return f"({left}) {word} ({right})", value

    def negated(part: tuple[str, Value]) -> tuple[str, Value]:
        text, value = part
        return f"not ({text})", lambda row: None if value(row) is None else not value(row)

    return st.one_of(st.tuples(inner, inner, st.sampled_from(["and", "or"])).map(both), inner.map(negated))


EXPRESSIONS = st.recursive(st.one_of(comparisons(), memberships(), likenesses(), nulls()), _combined, max_leaves=6)


@given(EXPRESSIONS)
def test_conditions_mean_what_python_says(engine: Any, expression: tuple[str, Value]) -> None:
    """The rows that a condition selects are those for which its evaluation in Python is true."""
    text, value = expression

    assert [row["key"] for row in ROWS if value(row) is True] == _found(engine, text)


@given(st.text("ntbf=<>!()'\" 1.-,_%andorilkesu", max_size=40))
def test_any_text_is_read_or_refused(engine: Any, text: str) -> None:
    """Whatever is typed is a condition that the database understands, or a UsageError."""
    try:
        condition(text, COLUMNS)
    except UsageError:
        return
    _found(engine, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 1: expected a column or a literal, found the end"),
        ("m = 1", "no column `m`"),
        ("blob = 1", "holds many and knows only `is null`"),
        ("n = blob", "holds many"),
        ("n = 'a'", "expected a number to compare with n, found `'a'`"),
        ("t like 3", "expected text in quotes after `like`"),
        ("n like 'a'", "expected text before `like`"),
        ("n in ()", "expected a column or a literal, found `\\)`"),
        ("t in (u)", "expected a literal"),
        ("n not 3", "expected `in` or `like` after `not`"),
        ("n is 3", "expected `null`"),
        ("n = null", "expected a column or a literal, found `null`"),
        ("n", "expected a comparison"),
        ("n = 1 t = 'a'", "expected `and`, `or` or the end"),
        ("t = demo-1", "text stands in quotes: 'demo'"),
        ("n ~ 3", "character 3"),
        ("t = 'open", "character 5"),
        ("n = 99999999999999999999", "64 bits"),
        ("(" * 100 + "b" + ")" * 100, "at most 64 nested"),
        ("b" + " and b" * 1000, "at most 1500 words and signs"),
        ("n in (1" + ", 1" * 1000 + ")", "at most 1500 words and signs"),
        ("1" * 100_000 + "x", "character 1"),  # read once, not once for each way to cut it
    ],
)
def test_faults_have_a_place(text: str, message: str) -> None:
    """A condition that cannot be read is refused with what was expected, what was found, and where."""
    with pytest.raises(UsageError, match=message):
        condition(text, COLUMNS)
