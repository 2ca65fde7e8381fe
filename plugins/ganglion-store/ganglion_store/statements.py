"""What databases are told: statements of SQLAlchemy Core over the schema, as text for SQLite; others compile them.

Parameters are positional: those of `values` first, then those of the conditions, in the order written here. What is
told SQLite is printed into `texts.json` by `python -m ganglion_store.statements`, which `scripts/fix` does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from ganglion_store import schema

REVISION = schema.REVISION
DIALECT = sqlite.dialect(paramstyle="qmark")
_OUTCOME = "steps terminated truncated reason round inner"
_CHAIN = "run phase mode worker environment"

_e, _g, _p, _r, _s = schema.episodes, schema.signals, schema.phases, schema.runs, schema.segments


Condition = sa.ColumnElement[bool]
Core = sa.ClauseElement | CreateTable | CreateIndex
_a, _b, _d, _m, _v = schema.seals, schema.brains, schema.declarations, schema.members, schema.evaluations


CORES: dict[str, Core] = {}
"""Text for SQLite -> what other databases compile."""


def _sql(core: Core, other: Core | None = None) -> str:
    """Return a statement as SQLite is told it; `other` is how all others say it."""
    text = compiled(core, DIALECT)
    CORES[text] = core if other is None else other
    return text


def compiled(core: Core, dialect: Dialect, literal: bool = False) -> str:
    """Return the text of a statement in a dialect; with `literal` its parameters stand in it."""
    text = core.compile(dialect=dialect, compile_kwargs={"literal_binds": True} if literal else {})
    return " ".join(str(text).split())


def _named(table: sa.Table, names: str) -> list[sa.Column[Any]]:
    return [table.c[name] for name in names.split()]


def _equal(table: sa.Table, names: str, nulls: bool = False) -> list[Condition]:
    """Return the condition that columns equal parameters; with `nulls` NULL equals NULL."""
    found = []
    for column in _named(table, names):
        value: sa.BindParameter[Any] = sa.bindparam(f"{column.name}_")
        found.append(column.is_not_distinct_from(value) if nulls else column == value)
    return found


def _values(table: sa.Table, *left_out: str) -> dict[str, Any]:
    return {column.name: sa.bindparam(column.name) for column in table.columns if column.name not in left_out}


def _insert(table: sa.Table, *left_out: str) -> str:
    return _sql(sa.insert(table).values(_values(table, *left_out)))


def _upsert(table: sa.Table, keys: str, changed: str, *left_out: str, where: Condition | None = None) -> str:
    def made(insert: Any) -> Any:
        values = insert(table).values(_values(table, *left_out))
        fresh = {name: values.excluded[name] for name in changed.split()}
        return values.on_conflict_do_update(index_elements=keys.split(), set_=fresh, where=where)

    return _sql(made(sqlite.insert), made(postgresql.insert))


def _update(table: sa.Table, values: str, *where: Condition) -> str:
    return _sql(sa.update(table).values({name: sa.bindparam(name) for name in values.split()}).where(*where))


def _delete(table: sa.Table, *where: Condition) -> str:
    return _sql(sa.delete(table).where(*where))


def _select(table: sa.Table, names: str, *where: Condition, order: str | sa.ColumnElement[Any] = "") -> str:
    query = sa.select(*_named(table, names)).where(*where)
    return _sql(query.order_by(*(_named(table, order) if isinstance(order, str) else [order])))


def _of_segment(table: sa.Table, order: str) -> str:
    names = " ".join(column.name for column in table.columns if column.name != "segment")
    return _select(table, names, *_equal(table, "segment"), order=order)


def _sealed(name: str) -> str:
    """Return the query for all rows of a run in a table that a seal covers, without numbers of the database."""
    table = schema.metadata.tables[f"stored_{name}"]
    run = table.c.number if name == "runs" else table.c.run
    keys = [column for column in table.primary_key.columns if column is not run]
    left_out = {
        run,
        *([table.c.head] if name == "runs" else []),
        *(keys if name not in ("phases", *schema.SEALED_LATER) else []),
    }
    columns = [column for column in table.columns if column not in left_out]
    return _sql(sa.select(*columns).where(run == sa.bindparam("run_")).order_by(*keys))


def create(dialect: Dialect) -> tuple[str, ...]:
    """Return the statements that make the tables, their indices, and the views."""
    tables = schema.metadata.sorted_tables
    indices = [index for table in tables for index in sorted(table.indexes, key=lambda index: index.name or "")]
    made = [compiled(CreateTable(table), dialect) for table in tables]
    made += [compiled(CreateIndex(index), dialect) for index in indices]
    shown = schema.SHOWN.items()
    return (*made, *(f"CREATE VIEW {name} AS {compiled(one.view(), dialect, literal=True)}" for name, one in shown))


CREATE = create(DIALECT)
INSERT_STORE = _insert(schema.store)
INSERT_RUN = _insert(_r, "number", "ended", "head")
INSERT_DECLARATION = _insert(_d, "number")
INSERT_MEMBER = _insert(_m, "number")
INSERT_EPISODE = _insert(_e, "number")
INSERT_SEGMENT = _insert(_s, "number")
INSERT_STEP = _insert(schema.steps)
INSERT_ACTION = _insert(schema.actions)
INSERT_RESET = _insert(schema.resets)
INSERT_BODY = _insert(schema.bodies)
INSERT_SPAWNED = _sql(
    *(
        i(schema.bodies).values(_values(schema.bodies)).on_conflict_do_nothing()
        for i in (sqlite.insert, postgresql.insert)
    )
)
SELECT_BODIES = _select(
    schema.bodies,
    "phase agent environment body role team group learn each position dynamic",
    *_equal(schema.bodies, "run"),
    order="phase position",
)
SEALED_LATER = {name: _sealed(name) for name in schema.SEALED_LATER}
_play = {"opponents": schema.opponents, "ratings": schema.ratings}
_PLACE = "run phase worker tick position"
UPSERT_PLAY = {name: _upsert(table, _PLACE, table.columns.keys()[-1]) for name, table in _play.items()}
SELECT_PLAY = {name: _select(table, table.columns.keys()[-1], *_equal(table, _PLACE)) for name, table in _play.items()}
DELETE_PLAY = [_delete(t, *_equal(t, "run"), t.c.phase >= sa.bindparam("first")) for t in _play.values()]
_t = schema.topics
INSERT_TOPIC = _insert(_t)
SELECT_TOPIC = _select(_t, "tick peer topic key value", *_equal(_t, "run phase mode worker number"))
SELECT_LAST_TOPICS = _sql(
    sa.select(_t.c.phase, _t.c.mode, _t.c.worker, sa.func.max(_t.c.number).label("last"))
    .where(*_equal(_t, "run"), _t.c.phase >= sa.bindparam("first"))
    .group_by(_t.c.phase, _t.c.mode, _t.c.worker)
)
DELETE_TOPICS = _delete(_t, *_equal(_t, "run phase mode worker"), _t.c.number > sa.bindparam("last"))
INSERT_RETURN = _insert(schema.returns)
INSERT_SIGNAL = _insert(_g, "number")
INSERT_BRAIN = _insert(_b, "number")
INSERT_EVALUATION = _insert(_v, "number_of_row")
INSERT_INCIDENT = _insert(schema.incidents, "number")
INSERT_LEDGER = _insert(schema.ledger)
INSERT_SEAL = _insert(_a)
UPSERT_PHASE = _upsert(_p, "run phase mode", "name status reason", "head")
UPSERT_POINT = _upsert(
    schema.points,
    "experiment point",
    "row repetition seed factors digest state run reason",
    where=schema.points.c.state != sa.literal_column("'done'"),
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
    _p.c.phase >= sa.bindparam("first"),
    sa.or_(_p.c.status == sa.bindparam("a"), _p.c.status == sa.bindparam("b")),
)
UPDATE_LEDGER = _update(schema.ledger, "commits", *_equal(schema.ledger, "run commits"))
UPDATE_MEMBER = _update(_m, "environment position", *_equal(_m, "number"))
UPDATE_SEGMENT = _update(_s, "episode", *_equal(_s, "number"))
DELETE_SEGMENT = _delete(_s, *_equal(_s, "number"))
DELETE_OPEN = _delete(_s, _s.c.episode.is_(None), _s.c.member.in_(sa.select(_m.c.number).where(*_equal(_m, "run"))))
DELETE_EPISODE = _delete(_e, *_equal(_e, "number"))
DELETE_SIGNALS = _delete(_g, *_equal(_g, "run"), _g.c.phase >= sa.bindparam("first"))
DELETE_BRAINS = _delete(_b, *_equal(_b, "run"), _b.c.phase >= sa.bindparam("first"))
DELETE_EVALUATION = _delete(_v, *_equal(_v, "run phase agent number"))
DELETE_SEALS = _delete(_a, *_equal(_a, "run"))
DELETE_RUN = _delete(_r, *_equal(_r, "run"))
SELECT_REVISION = _select(schema.store, "revision")
SELECT_RUN = _select(_r, "number", *_equal(_r, "run"))
SELECT_HEAD = _select(_r, "head", *_equal(_r, "number"))
SELECT_STARTED = _select(_r, "started", *_equal(_r, "number"))
SELECT_POINTS = _select(
    schema.points,
    "point row repetition seed factors digest state run reason",
    *_equal(schema.points, "experiment"),
    order="point",
)
SELECT_MEMBERS = _select(_m, "number phase kind name environment position", *_equal(_m, "run"), order="number")
SELECT_DECLARATIONS = _select(
    _d, "phase environment agent kind id dtype shape space", *_equal(_d, "run"), order="number"
)
SELECT_CHAINS = _select(_e, "phase mode worker environment episode digest", *_equal(_e, "run"), order="number")
SELECT_EPISODE = _select(_e, f"digest predecessor number {_OUTCOME}", *_equal(_e, f"{_CHAIN} episode"))
SELECT_CUT = _select(
    _e,
    "number phase mode worker environment reason digest predecessor",
    *_equal(_e, "run"),
    _e.c.phase >= sa.bindparam("first"),
    sa.or_(
        *(_e.c.reason == sa.bindparam(name) for name in "ab"), *(_e.c.reason.like(sa.bindparam(name)) for name in "cd")
    ),
    order=_e.c.number.desc(),
)
SELECT_LATER = _select(
    _e,
    "number phase mode worker environment episode digest predecessor",
    *_equal(_e, "run"),
    _e.c.phase >= sa.bindparam("first"),
    order=_e.c.number.desc(),
)
SELECT_NEWEST = _sql(sa.select(sa.func.max(_e.c.episode)).where(*_equal(_e, _CHAIN)))
SELECT_LEDGER = _select(schema.ledger, "commits", *_equal(schema.ledger, "run"))
SELECT_SIGNAL = _select(
    _g, "phase worker episode step signal issuer reason data round inner", *_equal(_g, "run ordinal")
)
SELECT_TOLERATED = _select(
    _g, "number", *_equal(_g, "run ordinal"), *_equal(_g, "phase worker episode data", nulls=True)
)
SELECT_EVALUATION = _select(_v, "episode metrics brain", *_equal(_v, "run phase agent number"))
SELECT_EVALUATIONS = _select(
    _v, "phase agent number", *_equal(_v, "run"), _v.c.phase >= sa.bindparam("first"), order="phase agent number"
)
SELECT_BRAIN = _select(
    _b, "number", *_equal(_b, "run"), *_equal(_b, "phase agent tag episode updates sha256 path", nulls=True)
)
SELECT_INCIDENT = _select(schema.incidents, "number", *_equal(schema.incidents, "run time name incarnation kind"))
SELECT_ALL = {name: _sealed(name) for name in schema.SEALED}
SELECT_ALL_EPISODES = _select(
    _e,
    f"number phase mode worker environment episode {_OUTCOME} digest predecessor",
    *_equal(_e, "run"),
    order="number",
)
_first = sa.exists().where(schema.resets.c.segment == _s.c.number)
_named_so: dict[str, Any] = {name: sa.literal_column(f"'{name}'") for name in ("agent", "actions", "resets", "steps")}
_table = sa.case(
    (_m.c.kind == _named_so["agent"], _named_so["actions"]), (_first, _named_so["resets"]), else_=_named_so["steps"]
)
_least = sa.select(sa.func.min(schema.actions.c.body)).where(schema.actions.c.segment == _s.c.number)
SELECT_SEGMENTS = _sql(
    sa.select(_s.c.number, _table.label("table"), _m.c.name, _least.scalar_subquery().label("body"))
    .select_from(_s.join(_m, _s.c.member == _m.c.number))
    .where(*_equal(_s, "episode"))
    .order_by(_s.c.number)
)
SELECT_STEPS = _of_segment(schema.steps, "step")
SELECT_ACTIONS = _of_segment(schema.actions, "step body")
SELECT_RESETS = _of_segment(schema.resets, "step")
SELECT_RETURNS = _of_segment(schema.returns, "body")
SELECT_SEALS = _select(_a, "position digests", *_equal(_a, "run name"), order="position")
COUNT_EPISODES = _sql(sa.select(sa.func.count()).select_from(_e).where(*_equal(_e, "run")))


def printed() -> str:
    """Return all statements as `texts.json` has them: by the names that they have here."""
    named = {name: made for name, made in globals().items() if name[0].isupper() and name.isupper()}
    del named["CORES"], named["DIALECT"]
    return json.dumps(named, indent=1) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("texts.json").write_text(printed())
