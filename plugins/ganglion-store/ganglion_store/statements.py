"""What a writer says to SQLite: the statements of SQLAlchemy Core over the schema, compiled when a writer is imported.

Parameters are positional: those of `values` first, then those of the conditions, in the order written here.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Delete,
    Insert,
    Select,
    Table,
    Update,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from ganglion_store import schema

REVISION = schema.REVISION
_DIALECT = sqlite.dialect(paramstyle="qmark")
_OUTCOME = "steps terminated truncated reason round inner"
_CHAIN = "run phase mode worker environment"

_e, _g, _p, _r, _s = schema.episodes, schema.signals, schema.phases, schema.runs, schema.segments


def _sql(statement: Insert | Select[Any] | Update | Delete | CreateTable | CreateIndex, literal: bool = False) -> str:
    compiled = statement.compile(dialect=_DIALECT, compile_kwargs={"literal_binds": True} if literal else {})
    return " ".join(str(compiled).split())


def _named(table: Table, names: str) -> list[Column[Any]]:
    return [table.c[name] for name in names.split()]


def _equal(table: Table, names: str, nulls: bool = False) -> list[ColumnElement[bool]]:
    """Return the condition that columns equal parameters; with `nulls` NULL equals NULL."""
    found = []
    for column in _named(table, names):
        value: BindParameter[Any] = bindparam(f"{column.name}_")
        found.append(column.is_not_distinct_from(value) if nulls else column == value)
    return found


def _values(table: Table, *left_out: str) -> dict[str, Any]:
    return {column.name: bindparam(column.name) for column in table.columns if column.name not in left_out}


def _insert(table: Table, *left_out: str) -> str:
    return _sql(insert(table).values(_values(table, *left_out)))


def _upsert(table: Table, keys: str, changed: str, *left_out: str, where: ColumnElement[bool] | None = None) -> str:
    made = sqlite.insert(table).values(_values(table, *left_out))
    fresh = {name: made.excluded[name] for name in changed.split()}
    return _sql(made.on_conflict_do_update(index_elements=keys.split(), set_=fresh, where=where))


def _update(table: Table, values: str, *where: ColumnElement[bool]) -> str:
    return _sql(update(table).values({name: bindparam(name) for name in values.split()}).where(*where))


def _delete(table: Table, *where: ColumnElement[bool]) -> str:
    return _sql(delete(table).where(*where))


def _select(table: Table, names: str, *where: ColumnElement[bool], order: str | ColumnElement[Any] = "") -> str:
    query = select(*_named(table, names)).where(*where)
    return _sql(query.order_by(*(_named(table, order) if isinstance(order, str) else [order])))


def _of_segment(table: Table, order: str) -> str:
    names = " ".join(column.name for column in table.columns if column.name != "segment")
    return _select(table, names, *_equal(table, "segment"), order=order)


def _sealed(name: str) -> str:
    """Return the query for all rows of a run in a table that a seal covers, without numbers of the database."""
    table = schema.metadata.tables[f"stored_{name}"]
    run = table.c.number if name == "runs" else table.c.run
    keys = [column for column in table.primary_key.columns if column is not run]
    left_out = {run, *([table.c.head] if name == "runs" else []), *(keys if name != "phases" else [])}
    columns = [column for column in table.columns if column not in left_out]
    return _sql(select(*columns).where(run == bindparam("run_")).order_by(*keys))


def _create() -> tuple[str, ...]:
    tables = schema.metadata.sorted_tables
    indices = [index for table in tables for index in sorted(table.indexes, key=lambda index: index.name or "")]
    made = [_sql(CreateTable(table)) for table in tables] + [_sql(CreateIndex(index)) for index in indices]
    views = [f"CREATE VIEW {name} AS {_sql(shown.view(), literal=True)}" for name, shown in schema.SHOWN.items()]
    return (*made, *views)


CREATE = _create()
INSERT_STORE = _insert(schema.store)
INSERT_RUN = _insert(_r, "number", "ended", "head")
INSERT_DECLARATION = _insert(schema.declarations, "number")
INSERT_MEMBER = _insert(schema.members, "number")
INSERT_EPISODE = _insert(_e, "number")
INSERT_SEGMENT = _insert(_s, "number")
INSERT_STEP = _insert(schema.steps)
INSERT_ACTION = _insert(schema.actions)
INSERT_RETURN = _insert(schema.returns)
INSERT_SIGNAL = _insert(_g, "number")
INSERT_BRAIN = _insert(schema.brains, "number")
INSERT_EVALUATION = _insert(schema.evaluations, "number_of_row")
INSERT_INCIDENT = _insert(schema.incidents, "number")
INSERT_LEDGER = _insert(schema.ledger)
INSERT_SEAL = _insert(schema.seals)
UPSERT_PHASE = _upsert(_p, "run phase mode", "name status reason", "head")
UPSERT_POINT = _upsert(
    schema.points,
    "experiment point",
    "row repetition seed factors digest state run reason",
    where=schema.points.c.state != literal_column("'done'"),
)
UPDATE_POINT = _update(schema.points, "state run reason", *_equal(schema.points, "experiment point"))
UPDATE_REVISION = _update(schema.store, "revision")
UPDATE_RUN = _update(_r, "status reason ended", *_equal(_r, "number"))
UPDATE_RUN_HEAD = _update(_r, "head", *_equal(_r, "number"))
UPDATE_PHASE_HEAD = _update(_p, "head", *_equal(_p, "run phase mode"))
UPDATE_CUT_PHASES = _update(
    _p,
    "status reason",
    *_equal(_p, "run"),
    _p.c.phase >= bindparam("first"),
    or_(_p.c.status == bindparam("a"), _p.c.status == bindparam("b")),
)
UPDATE_LEDGER = _update(schema.ledger, "commits", *_equal(schema.ledger, "run commits"))
UPDATE_MEMBER = _update(schema.members, "environment position", *_equal(schema.members, "number"))
UPDATE_SEGMENT = _update(_s, "episode", *_equal(_s, "number"))
DELETE_SEGMENT = _delete(_s, *_equal(_s, "number"))
DELETE_OPEN = _delete(
    _s, _s.c.episode.is_(None), _s.c.member.in_(select(schema.members.c.number).where(*_equal(schema.members, "run")))
)
DELETE_EPISODE = _delete(_e, *_equal(_e, "number"))
DELETE_SIGNALS = _delete(_g, *_equal(_g, "run"), _g.c.phase >= bindparam("first"))
DELETE_BRAINS = _delete(schema.brains, *_equal(schema.brains, "run"), schema.brains.c.phase >= bindparam("first"))
DELETE_EVALUATION = _delete(schema.evaluations, *_equal(schema.evaluations, "run phase agent number"))
DELETE_SEALS = _delete(schema.seals, *_equal(schema.seals, "run"))
DELETE_RUN = _delete(_r, *_equal(_r, "run"))
SELECT_REVISION = _select(schema.store, "revision")
SELECT_RUN = _select(_r, "number", *_equal(_r, "run"))
SELECT_HEAD = _select(_r, "head", *_equal(_r, "number"))
SELECT_POINTS = _select(
    schema.points,
    "point row repetition seed factors digest state run reason",
    *_equal(schema.points, "experiment"),
    order="point",
)
SELECT_MEMBERS = _select(
    schema.members, "number phase kind name environment position", *_equal(schema.members, "run"), order="number"
)
SELECT_DECLARATIONS = _select(
    schema.declarations,
    "phase environment agent kind id dtype shape",
    *_equal(schema.declarations, "run"),
    order="number",
)
SELECT_CHAINS = _select(_e, "phase mode worker environment episode digest", *_equal(_e, "run"), order="number")
SELECT_EPISODE = _select(_e, f"digest predecessor number {_OUTCOME}", *_equal(_e, f"{_CHAIN} episode"))
SELECT_CUT = _select(
    _e,
    "number phase mode worker environment reason digest predecessor",
    *_equal(_e, "run"),
    _e.c.phase >= bindparam("first"),
    or_(*(_e.c.reason == bindparam(name) for name in "ab"), *(_e.c.reason.like(bindparam(name)) for name in "cd")),
    order=_e.c.number.desc(),
)
SELECT_LATER = _select(
    _e,
    "number phase mode worker environment episode digest predecessor",
    *_equal(_e, "run"),
    _e.c.phase >= bindparam("first"),
    order=_e.c.number.desc(),
)
SELECT_NEWEST = _sql(select(func.max(_e.c.episode)).where(*_equal(_e, _CHAIN)))
SELECT_LEDGER = _select(schema.ledger, "commits", *_equal(schema.ledger, "run"))
SELECT_SIGNAL = _select(
    _g, "phase worker episode step signal issuer reason data round inner", *_equal(_g, "run ordinal")
)
SELECT_TOLERATED = _select(
    _g, "number", *_equal(_g, "run ordinal"), *_equal(_g, "phase worker episode data", nulls=True)
)
SELECT_EVALUATION = _select(
    schema.evaluations, "episode metrics brain", *_equal(schema.evaluations, "run phase agent number")
)
SELECT_EVALUATIONS = _select(
    schema.evaluations,
    "phase agent number",
    *_equal(schema.evaluations, "run"),
    schema.evaluations.c.phase >= bindparam("first"),
    order="phase agent number",
)
SELECT_BRAIN = _select(
    schema.brains,
    "number",
    *_equal(schema.brains, "run"),
    *_equal(schema.brains, "phase agent tag episode updates sha256 path", nulls=True),
)
SELECT_INCIDENT = _select(schema.incidents, "number", *_equal(schema.incidents, "run time name incarnation kind"))
SELECT_ALL = {name: _sealed(name) for name in schema.SEALED}
SELECT_ALL_EPISODES = _select(
    _e,
    f"number phase mode worker environment episode {_OUTCOME} digest predecessor",
    *_equal(_e, "run"),
    order="number",
)
SELECT_SEGMENTS = _sql(
    select(_s.c.number, schema.members.c.kind, schema.members.c.name)
    .select_from(_s.join(schema.members, _s.c.member == schema.members.c.number))
    .where(*_equal(_s, "episode"))
    .order_by(_s.c.number)
)
SELECT_STEPS = _of_segment(schema.steps, "step")
SELECT_ACTIONS = _of_segment(schema.actions, "step body")
SELECT_RETURNS = _of_segment(schema.returns, "body")
SELECT_SEALS = _select(schema.seals, "position digests", *_equal(schema.seals, "run name"), order="position")
COUNT_EPISODES = _sql(select(func.count()).select_from(_e).where(*_equal(_e, "run")))
