"""Makes `statements.py` from the schema: `python -m ganglion_store.generate`."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BindParameter,
    Column,
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

__all__ = ["text"]

_DIALECT = sqlite.dialect(paramstyle="qmark")
_BRAIN = ("phase", "agent", "tag", "episode", "updates", "sha256", "path")
_SEALED_OUTCOME = "steps terminated truncated reason round inner digest predecessor"
_PHASE = ("run", "phase", "mode")
_OUTCOME = ("steps", "terminated", "truncated", "reason", "round", "inner")
_POINT = ("row", "repetition", "seed", "factors", "digest", "state", "run", "reason")

_HEAD = '''"""What a writer says to SQLite; made from `schema.py` by `python -m ganglion_store.generate`, never edited.

It rests here compiled: the import of SQLAlchemy would take longer than all else that a writer does at its start.
"""
'''


def _sql(statement: Insert | Select[Any] | Update | Delete | CreateTable | CreateIndex) -> str:
    return " ".join(str(statement.compile(dialect=_DIALECT)).split())


def _create() -> list[str]:
    tables = schema.metadata.sorted_tables
    made = [_sql(CreateTable(table)) for table in tables]
    made += [
        _sql(CreateIndex(index)) for table in tables for index in sorted(table.indexes, key=lambda i: i.name or "")
    ]
    for name, shown in schema.SHOWN.items():
        view = shown.view().compile(dialect=_DIALECT, compile_kwargs={"literal_binds": True})
        made.append(f"CREATE VIEW {name} AS {' '.join(str(view).split())}")
    return made


def _insert(table: Table, *left_out: str) -> str:
    names = [column.name for column in table.columns if column.name not in left_out]
    return _sql(insert(table).values({name: bindparam(name) for name in names}))


def _statements() -> dict[str, str]:
    """Return the statements by the names that they have in `statements.py`."""
    s, e, r = schema.segments, schema.episodes, schema.runs
    chain = (e.c.run, e.c.phase, e.c.mode, e.c.worker, e.c.environment, e.c.episode)
    keyed: dict[str, BindParameter[Any]] = {column.name: bindparam(f"{column.name}_") for column in chain}
    phase = sqlite.insert(schema.phases).values(
        {column.name: bindparam(column.name) for column in schema.phases.columns if column.name != "head"}
    )
    phase = phase.on_conflict_do_update(
        index_elements=["run", "phase", "mode"],
        set_={name: phase.excluded[name] for name in ("name", "status", "reason")},
    )
    points = schema.points.c
    point = sqlite.insert(schema.points).values(
        {column.name: bindparam(column.name) for column in schema.points.columns}
    )
    point = point.on_conflict_do_update(
        index_elements=["experiment", "point"],
        set_={name: point.excluded[name] for name in _POINT},
        where=points.state != literal_column("'done'"),
    )
    p, g, b, ev = schema.phases, schema.signals, schema.brains, schema.evaluations
    lost = schema.incidents
    of_run = select(schema.members.c.number).where(schema.members.c.run == bindparam("run_"))
    return {
        "INSERT_STORE": _insert(schema.store),
        "INSERT_RUN": _insert(r, "number", "ended", "head"),
        "INSERT_DECLARATION": _insert(schema.declarations, "number"),
        "INSERT_MEMBER": _insert(schema.members, "number"),
        "INSERT_EPISODE": _insert(e, "number"),
        "INSERT_SEGMENT": _insert(s, "number"),
        "INSERT_STEP": _insert(schema.steps),
        "INSERT_ACTION": _insert(schema.actions),
        "INSERT_RETURN": _insert(schema.returns),
        "INSERT_SIGNAL": _insert(schema.signals, "number"),
        "INSERT_BRAIN": _insert(schema.brains, "number"),
        "INSERT_EVALUATION": _insert(schema.evaluations, "number_of_row"),
        "INSERT_INCIDENT": _insert(schema.incidents, "number"),
        "INSERT_LEDGER": _insert(schema.ledger),
        "INSERT_SEAL": _insert(schema.seals),
        "UPSERT_PHASE": _sql(phase),
        "UPSERT_POINT": _sql(point),
        "UPDATE_POINT": _sql(
            update(schema.points)
            .values(state=bindparam("s"), run=bindparam("r"), reason=bindparam("t"))
            .where(points.experiment == bindparam("e"), points.point == bindparam("n"))
        ),
        "SELECT_POINTS": _sql(
            select(*_named(schema.points, "point row repetition seed factors digest state run reason"))
            .where(points.experiment == bindparam("e"))
            .order_by(points.point)
        ),
        "UPDATE_REVISION": _sql(update(schema.store).values(revision=bindparam("r"))),
        "UPDATE_RUN": _sql(
            update(r)
            .values(status=bindparam("s"), reason=bindparam("t"), ended=bindparam("u"))
            .where(r.c.number == bindparam("n"))
        ),
        "UPDATE_RUN_HEAD": _sql(update(r).values(head=bindparam("h")).where(r.c.number == bindparam("n"))),
        "UPDATE_PHASE_HEAD": _sql(
            update(p).values(head=bindparam("h")).where(*(p.c[name] == bindparam(name) for name in _PHASE))
        ),
        "UPDATE_CUT_PHASES": _sql(
            update(p)
            .values(status=bindparam("s"), reason=bindparam("t"))
            .where(
                p.c.run == bindparam("r"),
                p.c.phase >= bindparam("p"),
                or_(p.c.status == bindparam("a"), p.c.status == bindparam("b")),
            )
        ),
        "UPDATE_LEDGER": _sql(
            update(schema.ledger)
            .values(commits=bindparam("c"))
            .where(schema.ledger.c.run == bindparam("r"), schema.ledger.c.commits == bindparam("d"))
        ),
        "UPDATE_MEMBER": _sql(
            update(schema.members)
            .values(environment=bindparam("e"), position=bindparam("p"))
            .where(schema.members.c.number == bindparam("n"))
        ),
        "UPDATE_SEGMENT": _sql(update(s).values(episode=bindparam("e")).where(s.c.number == bindparam("n"))),
        "DELETE_SEGMENT": _sql(delete(s).where(s.c.number == bindparam("n"))),
        "DELETE_OPEN": _sql(delete(s).where(s.c.episode.is_(None), s.c.member.in_(of_run))),
        "DELETE_EPISODE": _sql(delete(e).where(e.c.number == bindparam("n"))),
        "DELETE_SIGNALS": _sql(delete(g).where(g.c.run == bindparam("r"), g.c.phase >= bindparam("p"))),
        "DELETE_BRAINS": _sql(delete(b).where(b.c.run == bindparam("r"), b.c.phase >= bindparam("p"))),
        "DELETE_EVALUATION": _sql(
            delete(ev).where(
                ev.c.run == bindparam("r"),
                ev.c.phase == bindparam("p"),
                ev.c.agent == bindparam("a"),
                ev.c.number == bindparam("n"),
            )
        ),
        "DELETE_SEALS": _sql(delete(schema.seals).where(schema.seals.c.run == bindparam("r"))),
        "DELETE_RUN": _sql(delete(r).where(r.c.run == bindparam("r"))),
        "SELECT_REVISION": _sql(select(schema.store.c.revision)),
        "SELECT_RUN": _sql(select(r.c.number).where(r.c.run == bindparam("r"))),
        "SELECT_MEMBERS": _sql(
            select(*_named(schema.members, "number phase kind name environment position"))
            .where(schema.members.c.run == bindparam("r"))
            .order_by(schema.members.c.number)
        ),
        "SELECT_DECLARATIONS": _sql(
            select(*_named(schema.declarations, "phase environment agent kind id dtype shape"))
            .where(schema.declarations.c.run == bindparam("r"))
            .order_by(schema.declarations.c.number)
        ),
        "SELECT_CHAINS": _sql(
            select(e.c.phase, e.c.mode, e.c.worker, e.c.environment, e.c.episode, e.c.digest)
            .where(e.c.run == bindparam("r"))
            .order_by(e.c.number)
        ),
        "SELECT_EPISODE": _sql(
            select(e.c.digest, e.c.predecessor, e.c.number, *_named(e, " ".join(_OUTCOME))).where(
                *(column == keyed[column.name] for column in chain)
            )
        ),
        "SELECT_CUT": _sql(
            select(*_named(e, "number phase mode worker environment reason digest predecessor"))
            .where(
                e.c.run == bindparam("r"),
                e.c.phase >= bindparam("p"),
                or_(
                    e.c.reason == bindparam("a"),
                    e.c.reason == bindparam("b"),
                    e.c.reason.like(bindparam("c")),
                    e.c.reason.like(bindparam("d")),
                ),
            )
            .order_by(e.c.number.desc())
        ),
        "SELECT_LATER": _sql(
            select(*_named(e, "number phase mode worker environment episode digest predecessor"))
            .where(e.c.run == bindparam("r"), e.c.phase >= bindparam("p"))
            .order_by(e.c.number.desc())
        ),
        "SELECT_NEWEST": _sql(
            select(func.max(e.c.episode)).where(*(column == keyed[column.name] for column in chain[:-1]))
        ),
        "SELECT_LEDGER": _sql(select(schema.ledger.c.commits).where(schema.ledger.c.run == bindparam("r"))),
        "SELECT_HEAD": _sql(select(r.c.head).where(r.c.number == bindparam("r"))),
        "SELECT_SIGNAL": _sql(
            select(*_named(g, "phase worker episode step signal issuer reason data round inner")).where(
                g.c.run == bindparam("r"), g.c.ordinal == bindparam("o")
            )
        ),
        "SELECT_TOLERATED": _sql(
            select(g.c.number).where(
                g.c.run == bindparam("r"),
                g.c.ordinal == bindparam("o"),
                *(
                    getattr(g.c, name).is_not_distinct_from(bindparam(name))
                    for name in ("phase", "worker", "episode", "data")
                ),
            )
        ),
        "SELECT_EVALUATION": _sql(
            select(*_named(ev, "episode metrics brain")).where(
                ev.c.run == bindparam("r"),
                ev.c.phase == bindparam("p"),
                ev.c.agent == bindparam("a"),
                ev.c.number == bindparam("n"),
            )
        ),
        "SELECT_EVALUATIONS": _sql(
            select(*_named(ev, "phase agent number"))
            .where(ev.c.run == bindparam("r"), ev.c.phase >= bindparam("p"))
            .order_by(ev.c.phase, ev.c.agent, ev.c.number)
        ),
        "SELECT_BRAIN": _sql(
            select(b.c.number).where(
                b.c.run == bindparam("r"), *(b.c[name].is_not_distinct_from(bindparam(name)) for name in _BRAIN)
            )
        ),
        "SELECT_INCIDENT": _sql(
            select(lost.c.number).where(
                *(lost.c[name] == bindparam(name) for name in ("run", "time", "name", "incarnation", "kind"))
            )
        ),
        **{f"SELECT_ALL_{name.upper()}": _sql(query) for name, query in _sealed().items()},
        "SELECT_ALL_EPISODES": _sql(
            select(*_named(e, "number phase mode worker environment episode"), *_named(e, _SEALED_OUTCOME))
            .where(e.c.run == bindparam("r"))
            .order_by(e.c.number)
        ),
        "SELECT_SEGMENTS": _sql(
            select(s.c.number, schema.members.c.kind, schema.members.c.name)
            .select_from(s.join(schema.members, s.c.member == schema.members.c.number))
            .where(s.c.episode == bindparam("e"))
            .order_by(s.c.number)
        ),
        "SELECT_STEPS": _of_segment(schema.steps, "step"),
        "SELECT_ACTIONS": _of_segment(schema.actions, "step", "body"),
        "SELECT_RETURNS": _of_segment(schema.returns, "body"),
        "SELECT_SEALS": _sql(
            select(schema.seals.c.position, schema.seals.c.digests)
            .where(schema.seals.c.run == bindparam("r"), schema.seals.c.name == bindparam("n"))
            .order_by(schema.seals.c.position)
        ),
        "COUNT_EPISODES": _sql(select(func.count()).select_from(e).where(e.c.run == bindparam("r"))),
    }


def _of_segment(table: Table, *order: str) -> str:
    """Return the query for the rows of a segment, in the order in which they came."""
    query = select(*(column for column in table.columns if column.name != "segment"))
    query = query.where(table.c.segment == bindparam("s"))
    return _sql(query.order_by(*(table.c[name] for name in order)))


def _sealed() -> dict[str, Select[Any]]:
    """Return the queries for all rows of a run in the tables that a seal covers, without numbers of the database."""
    found = {}
    for name in schema.SEALED:
        table = schema.metadata.tables[f"stored_{name}"]
        run = table.c.number if name == "runs" else table.c.run
        keys = [column for column in table.primary_key.columns if column is not run]
        left_out = {run, *([table.c.head] if name == "runs" else [])}
        # Else the key is only a number of the database.
        left_out |= set(keys) if name != "phases" else set()
        columns = [column for column in table.columns if column not in left_out]
        found[name] = select(*columns).where(run == bindparam("r")).order_by(*keys)
    return found


def _named(table: Table, names: str) -> list[Column[Any]]:
    return [table.c[name] for name in names.split()]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # double quotes, as the formatter has them


def _literal(text: str) -> str:
    lines = textwrap.wrap(text, 104, break_long_words=False, break_on_hyphens=False)
    if len(lines) == 1:
        return _quoted(text)
    quoted = [_quoted(line + " ") for line in lines[:-1]] + [_quoted(lines[-1])]
    return "(\n" + "".join(f"    {line}\n" for line in quoted) + ")"


def text() -> str:
    """Return what `statements.py` has to contain."""
    statements = _statements()
    names = ["CREATE", "REVISION", *statements]
    parts = [_HEAD, "from __future__ import annotations\n"]
    parts.append("__all__ = [\n" + "".join(f'    "{name}",\n' for name in sorted(names)) + "]\n")
    parts.append(f"REVISION = {schema.REVISION}\n")
    parts += [f"{name} = {_literal(statement)}" for name, statement in statements.items()]
    created = "".join(textwrap.indent(_literal(statement), "    ") + ",\n" for statement in _create())
    parts.append(f"\nCREATE = (\n{created})\n")
    return "\n".join(parts)


if __name__ == "__main__":
    Path(__file__).with_name("statements.py").write_text(text(), encoding="utf-8")
