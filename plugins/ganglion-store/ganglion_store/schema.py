"""The schema: the tables as they rest, and what each table shows to its readers.

Rows rest in tables `stored_*`, which are joined by numbers; users see views with the documented names. A row of
`stored_steps` or `stored_actions` belongs to a *segment*: what one environment or one agent contributed to one
episode. A segment without an episode is open, and no view shows it: the seal is the insertion of the episode.

This is the only place where tables are described.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import SchemaItem
from sqlalchemy.sql.functions import GenericFunction

REVISION = 5  # counts changes of this file that an existing store does not have; each has a step in migration.py

metadata = sa.MetaData()
# SQLite numbers rows only where the type is exactly INTEGER.
Number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


class instr(GenericFunction[int]):  # noqa: N801 - the name of the function
    """Return where a text is in another, from 1 on; 0 where it is not."""

    type = sa.Integer()
    inherit_cache = True


@compiles(instr, "postgresql")
def _instr(element: instr, compiler: Any, **options: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **options)})"


# SQLite compares texts byte by byte and has integers of 64 bits only; so do others.
_TYPES: Mapping[str, Any] = {
    "text": sa.Text().with_variant(sa.Text(collation="C"), "postgresql"),
    "int": sa.Integer().with_variant(sa.BigInteger(), "postgresql"),
    "big": sa.BigInteger,
    "real": sa.Float,
    "flag": sa.Boolean,
    "blob": sa.LargeBinary,
    "number": Number,
}


def _table(name: str, columns: str, *more: SchemaItem, **options: Any) -> sa.Table:
    """Return a table; its columns are `name:type`, with `?` where NULL may stand, and `*` for parts of the key.

    `>runs` is a number of a row of that table; a row goes when the row that it refers to goes.
    """
    made: list[sa.Column[Any]] = []
    for column in columns.split():
        title, _, kind = column.partition(":")
        known: dict[str, Any] = {"primary_key": True} if kind.endswith("*") else {"nullable": kind.endswith("?")}
        kind = kind.rstrip("*?")
        if kind.startswith(">"):
            parent = sa.ForeignKey(f"stored_{kind[1:]}.number", ondelete="CASCADE")
            made.append(sa.Column(title, Number, parent, **known))
        else:
            made.append(sa.Column(title, _TYPES[kind], **known))
    return sa.Table(name, metadata, *made, *more, **options)


store = _table("ganglion_store", "revision:int*")  # says whose file this is

# A seed may be of any size, and is text. `head` is the digest of all that the run has, once it has ended.
runs = _table(
    "stored_runs",
    "number:number* run:text uid:text experiment:text seed:text status:text reason:text? started:text? ended:text? "
    "document:text? plan_digest:text? head:blob?",
    sa.UniqueConstraint("run"),
)

# `head` is the digest of the newest episodes of all workers, in every transaction.
phases = _table(
    "stored_phases",
    "run:>runs* phase:int* mode:text* name:text status:text reason:text? head:blob?",
    sqlite_with_rowid=False,
)

# `environment` is empty for the lists of agents: two NULLs would be two keys. `shape` is a JSON list.
declarations = _table(
    "stored_declarations",
    "number:number* run:>runs phase:int environment:text agent:text kind:text position:int id:text space:text? "
    "unit:text? dtype:text? shape:text",
    sa.UniqueConstraint("run", "phase", "environment", "agent", "kind", "position"),
)

# The environments and agents of a phase. `environment` is the one that an agent is in, if it is only one; `position` is
# in document order: that of the declarations, not of the first row.
members = _table(
    "stored_members",
    "number:number* run:>runs phase:int kind:text name:text environment:text? position:int",
    sa.UniqueConstraint("run", "phase", "kind", "name"),
)

# `environment` is empty where an episode spans several, and `<environment>[<agent>/<b>]` where it is of one body.
# `inner` are the steps of an evaluation within its round; `predecessor` is the digest of the worker's episode before,
# empty for the first.
episodes = _table(
    "stored_episodes",
    "number:number* run:>runs phase:int mode:text worker:int environment:text episode:int steps:int terminated:flag "
    "truncated:flag reason:text round:int inner:int digest:blob predecessor:blob",
    sa.UniqueConstraint("run", "phase", "mode", "worker", "environment", "episode"),
)

# A segment without an episode is open.
segments = _table(
    "stored_segments",
    "number:number* member:>members episode:>episodes?",
    sa.Index("ix_stored_segments_member", "member"),
    sa.Index("ix_stored_segments_episode", "episode"),
)

# Rows are clustered by segment: reading an episode reads neighbouring pages, and no second index is written.
# `world_state` is what a state transformer left in place; `bodies` are the numbers of those that took part, each of two
# bytes, in a phase with bodies: then a value list has the values of each, one behind the other. If one of them was
# spawned they are positions of eight bytes, the highest first, behind ff ff.
steps = _table(
    "stored_steps",
    "segment:>segments* step:int* tick:big? simtime_ticks:big? simtime_timestamp:text? sensors:blob setpoints:blob "
    "rewards:blob terminated:flag truncated:flag world_state:blob? bodies:blob?",
    sqlite_with_rowid=False,
)

# First readings: those of a begin and of a reset at step 0, those of a body that came later at the last step before.
resets = _table(
    "stored_resets",
    "segment:>segments* step:int* tick:big? simtime_ticks:big? simtime_timestamp:text? sensors:blob bodies:blob?",
    sqlite_with_rowid=False,
)

# The columns stand as in the records, the key as in the order of rows. `policy` is where the model comes from by which
# a body decided, `policy_version` the number of its update, in a phase with bodies. `late_reward` is what fell due for
# its group after it had ended, at its last row.
actions = _table(
    "stored_actions",
    "segment:>segments body:int step:int tick:big? sensors:blob setpoints:blob proposed:blob? rewards:blob "
    "objective:real? terminated:flag truncated:flag statistics:blob? policy:text? policy_version:big? "
    "late_reward:real?",
    sa.PrimaryKeyConstraint("segment", "step", "body"),
    sqlite_with_rowid=False,
)

# Summed when an episode is sealed: a query could not unpack `rewards`. NULL where nothing was known.
returns = _table(
    "stored_returns", "segment:>segments* body:int* steps:int return:real? objective:real?", sqlite_with_rowid=False
)

# `data` is JSON; `ordinal` is counted by the issuer: the same signal again is the same row.
signals = _table(
    "stored_signals",
    "number:number* run:>runs phase:int? worker:int? episode:int? step:int? signal:text issuer:text reason:text? "
    "data:text? round:int inner:int ordinal:int?",
    sa.Index("ix_stored_signals_run", "run", "ordinal"),
)

brains = _table(
    "stored_brains",
    "number:number* run:>runs phase:int agent:text tag:text episode:int? updates:int? created:text? bytes:big? "
    "sha256:text? path:text?",
    sa.Index("ix_stored_brains_run", "run"),
)

# `metrics` is a JSON object of finite numbers.
evaluations = _table(
    "stored_evaluations",
    "number_of_row:number* run:>runs phase:int agent:text number:int episode:int? metrics:text brain:text? "
    "completed:text?",
    sa.UniqueConstraint("run", "phase", "agent", "number"),
    sa.Index("ix_stored_evaluations_run", "run"),
)

incidents = _table(
    "stored_incidents",
    "number:number* run:>runs time:text name:text incarnation:int? kind:text position:text? detail:text?",
    sa.Index("ix_stored_incidents_run", "run"),
)

# The bodies of a phase, in the order of agents, environments and numbers; `each`: they have episodes of their own.
# Behind those of the document stand those that environments spawned (`dynamic`), for whose numbers 32 bits of the
# position are.
bodies = _table(
    "stored_bodies",
    "run:>runs* phase:int* position:int* agent:text environment:text body:int role:text? team:text? group:text? "
    "learn:flag policy:text dynamic:flag each:flag",
    sqlite_with_rowid=False,
)

# What environments and agents told beside the steps, and what was set: `peer` is a uid; `value` is JSON. Numbers are
# counted within a worker: what a run that went back says again has the same ones.
topics = _table(
    "stored_topics",
    "run:>runs* phase:int* mode:text* worker:int* number:int* tick:big peer:text topic:text key:text value:text?",
    sqlite_with_rowid=False,
)

# By which model bodies that play by a pool decide from a tick on, as the number of its update; and how good the sides
# of an environment are after an episode. `position` is that of the body in the table of bodies.
opponents = _table(
    "stored_opponents", "run:>runs* phase:int* worker:int* tick:big* position:int* version:big", sqlite_with_rowid=False
)
ratings = _table(
    "stored_ratings", "run:>runs* phase:int* worker:int* tick:big* position:int* rating:real", sqlite_with_rowid=False
)

# Tells after a commit whose outcome is unknown whether it was carried out.
ledger = _table("stored_ledger", "run:>runs* commits:int", sqlite_with_rowid=False)

# Digests of the rows of a run that belong to no episode, made when it ends: in `digests` of so many rows of the table
# `name`, one behind the other.
seals = _table("stored_seals", "run:>runs* name:text* position:int* digests:blob", sqlite_with_rowid=False)

# The points of experiments, which are there before their runs. `factors` is a JSON object; `run` is an id: a run that
# was removed leaves its point.
points = _table(
    "stored_points",
    "experiment:text* point:int* row:int repetition:int seed:text factors:text digest:text state:text run:text? "
    "reason:text?",
    sqlite_with_rowid=False,
)

SEALED = ("runs", "phases", "declarations", "members", "signals", "brains", "evaluations", "incidents")
"""The tables whose rows are sealed when a run ends, in this order; episodes seal their own rows."""

SEALED_LATER = ("bodies", "opponents", "ratings", "topics")
"""Those that are sealed behind them where they have rows of a run."""


@dataclass(frozen=True)
class Shown:
    """Describe a table as its readers see it.

    `columns` are in the order in which they are shown, `order` sorts the rows, `number` is the run's. `decoded` tells
    which columns are value lists (by the kind of their declaration), `json` which are JSON text, and `member` which
    environment or agent the value lists belong to, `bodies` to which bodies of it.
    """

    source: sa.FromClause
    columns: Mapping[str, sa.ColumnElement[Any]]
    order: tuple[sa.ColumnElement[Any], ...]
    number: sa.ColumnElement[Any] = field(default_factory=lambda: runs.c.number)
    decoded: Mapping[str, str] = field(default_factory=dict)
    packed: frozenset[str] = frozenset()
    json: frozenset[str] = frozenset()
    member: sa.ColumnElement[Any] | None = None
    member_kind: str = ""
    bodies: sa.ColumnElement[Any] | None = None

    def select(self, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
        """Return a query for the given columns, without condition or order."""
        return sa.select(*columns).select_from(self.source)

    def view(self) -> sa.Select[Any]:
        """Return the query that is the view: all shown columns under their names."""
        return self.select(*(column.label(name) for name, column in self.columns.items()))


def _columns(source: sa.FromClause, names: str) -> dict[str, sa.ColumnElement[Any]]:
    return {name: source.c[name] for name in names.split()}


def _of_runs(table: sa.Table) -> sa.FromClause:
    return table.join(runs, table.c.run == runs.c.number)


def _evaluate_last(mode: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.case((mode == "evaluate", 1), else_=0)


RUN = {"run": runs.c.run}


def _of_play(table: sa.Table) -> Shown:
    same = [getattr(bodies.c, name) == getattr(table.c, name) for name in ("run", "phase", "position")]
    shown = RUN | _columns(table, "phase worker tick") | _columns(bodies, "agent environment body")
    order = (runs.c.number, *(table.c[name] for name in ("phase", "tick", "worker", "position")))
    last = table.columns.keys()[-1]
    return Shown(_of_runs(table).join(bodies, sa.and_(*same)), shown | _columns(table, last), order)


EPISODE_KEY = _columns(episodes, "phase mode worker")
VALUES = {"sensors": "sensor", "setpoints": "actuator", "rewards": "reward"}


def _of_segments(table: sa.Table) -> sa.FromClause:
    # From the small to the large: runs, their episodes, their segments, rows.
    joined = table.join(segments, table.c.segment == segments.c.number)
    joined = joined.join(episodes, segments.c.episode == episodes.c.number)
    joined = joined.join(members, segments.c.member == members.c.number)
    return joined.join(runs, episodes.c.run == runs.c.number)


def _agents(table: sa.Table) -> dict[str, sa.ColumnElement[Any]]:
    whose = episodes.c.environment
    own = sa.func.substr(whose, 1, sa.func.instr(whose.concat("["), "[") - 1, type_=sa.Text)
    environment = sa.case((whose == "", members.c.environment), else_=own)
    agent = {"agent": members.c.name, "environment": environment}
    return RUN | EPISODE_KEY | agent | {"body": table.c.body, "episode": episodes.c.episode}


_EPISODE_ORDER = (
    runs.c.number,
    episodes.c.phase,
    _evaluate_last(episodes.c.mode),
    episodes.c.worker,
    members.c.position,
    members.c.number,
    episodes.c.episode,
)


# Bodies with episodes of their own are at the same step of equal ones: the first number, of two bytes, the lower first;
# behind them those that were spawned, by their positions.
def _body_order(table: sa.Table) -> tuple[sa.ColumnElement[Any], ...]:
    return tuple(sa.func.substr(table.c.bodies, *part) for part in ((2, 1), (1, 1), (3, 8)))


SHOWN: dict[str, Shown] = {
    "runs": Shown(
        runs,
        _columns(runs, "run uid experiment seed status reason started ended"),
        (runs.c.number,),
        json=frozenset({"seed"}),  # text, because it may be larger than the integers of a database
    ),
    "phases": Shown(
        _of_runs(phases),
        RUN | _columns(phases, "phase name mode status reason"),
        (runs.c.number, phases.c.phase, _evaluate_last(phases.c.mode)),
    ),
    "episodes": Shown(
        _of_runs(episodes),
        RUN
        | EPISODE_KEY
        | {"environment": sa.func.nullif(episodes.c.environment, "", type_=sa.Text)}
        | _columns(episodes, "episode steps terminated truncated reason"),
        (runs.c.number, episodes.c.phase, episodes.c.round, episodes.c.inner, episodes.c.worker, episodes.c.number),
    ),
    "steps": Shown(
        _of_segments(steps),
        RUN
        | EPISODE_KEY
        | {"environment": members.c.name, "episode": episodes.c.episode}
        | _columns(
            steps,
            "step tick simtime_ticks simtime_timestamp sensors setpoints rewards terminated truncated world_state",
        ),
        (*_EPISODE_ORDER, steps.c.step, *_body_order(steps)),
        decoded=VALUES,
        packed=frozenset({"world_state"}),
        member=members.c.name,
        member_kind="environment",
        bodies=steps.c.bodies,
    ),
    "resets": Shown(
        _of_segments(resets),
        RUN
        | EPISODE_KEY
        | {"environment": members.c.name, "episode": episodes.c.episode}
        | _columns(resets, "step tick simtime_ticks simtime_timestamp sensors"),
        (*_EPISODE_ORDER, resets.c.step, *_body_order(resets)),
        decoded={"sensors": "sensor"},
        member=members.c.name,
        member_kind="environment",
        bodies=resets.c.bodies,
    ),
    "actions": Shown(
        _of_segments(actions),
        _agents(actions)
        | _columns(actions, "step tick sensors setpoints proposed rewards objective terminated truncated statistics")
        # Proposals are kept where filters changed them; elsewhere what was proposed is what was applied.
        | {"proposed": sa.func.coalesce(actions.c.proposed, actions.c.setpoints)}
        | _columns(actions, "policy policy_version late_reward"),
        (*_EPISODE_ORDER, actions.c.step, actions.c.body, episodes.c.environment),
        decoded=VALUES | {"proposed": "actuator"},
        packed=frozenset({"statistics"}),
        member=members.c.name,
        member_kind="agent",
    ),
    "signals": Shown(
        _of_runs(signals),
        RUN | _columns(signals, "phase worker episode step signal issuer reason data"),
        (
            runs.c.number,
            sa.func.coalesce(signals.c.phase, -1),
            signals.c.round,
            signals.c.inner,
            sa.func.coalesce(signals.c.worker, 2**31),  # of a phase: after those of its workers
            signals.c.number,
        ),
        json=frozenset({"data"}),
    ),
    "brains": Shown(
        _of_runs(brains),
        RUN | _columns(brains, "phase agent tag episode updates created bytes sha256 path"),
        (runs.c.number, brains.c.number),
    ),
    "evaluations": Shown(
        _of_runs(evaluations),
        RUN | _columns(evaluations, "phase agent number episode metrics brain completed"),
        (runs.c.number, evaluations.c.number_of_row),
        json=frozenset({"metrics"}),
    ),
    "declarations": Shown(
        _of_runs(declarations),
        RUN
        | {
            "phase": declarations.c.phase,
            "environment": sa.func.nullif(declarations.c.environment, "", type_=sa.Text),
            "agent": sa.func.nullif(declarations.c.agent, "", type_=sa.Text),
        }
        | _columns(declarations, "kind position id space unit dtype shape"),
        (runs.c.number, declarations.c.number),
        json=frozenset({"shape"}),
    ),
    "incidents": Shown(
        _of_runs(incidents),
        RUN | _columns(incidents, "time name incarnation kind position detail"),
        (runs.c.number, incidents.c.number),
    ),
    "bodies": Shown(
        _of_runs(bodies),
        RUN | _columns(bodies, "phase agent environment body role team group learn policy dynamic"),
        (runs.c.number, bodies.c.phase, bodies.c.position),
    ),
    **{name: _of_play(table) for name, table in (("opponents", opponents), ("ratings", ratings))},
    "topics": Shown(
        _of_runs(topics),
        RUN | _columns(topics, "phase mode worker tick peer topic key value"),
        (runs.c.number, topics.c.phase, _evaluate_last(topics.c.mode), topics.c.worker, topics.c.number),
        json=frozenset({"value"}),
    ),
    "returns": Shown(
        _of_segments(returns),
        _agents(returns) | _columns(returns, "steps return objective"),
        (*_EPISODE_ORDER, returns.c.body, episodes.c.environment),
    ),
    "points": Shown(
        points.outerjoin(runs, points.c.run == runs.c.run),
        _columns(points, "run experiment point row repetition seed state reason factors digest"),
        (points.c.experiment, points.c.point),
        json=frozenset({"factors", "seed"}),
    ),
}
