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

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    ForeignKey,
    FromClause,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Select,
    Table,
    Text,
    UniqueConstraint,
    case,
    func,
    select,
)

REVISION = 3  # counts changes of this file that an existing store does not have; each has a step in migration.py

metadata = MetaData()
Number = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows only where the type is exactly INTEGER


def _parent(name: str, column: str, **options: Any) -> Column[int]:
    """Return a column that refers to a row above; it goes when that row goes."""
    return Column(name, Number, ForeignKey(column, ondelete="CASCADE"), **options)


store = Table(
    "ganglion_store",  # says whose file this is
    metadata,
    Column("revision", Integer, primary_key=True),
)

runs = Table(
    "stored_runs",
    metadata,
    Column("number", Number, primary_key=True),  # in order of start
    Column("run", Text, nullable=False, unique=True),
    Column("uid", Text, nullable=False),
    Column("experiment", Text, nullable=False),
    Column("seed", Text, nullable=False),  # of any size
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("started", Text),
    Column("ended", Text),
    Column("document", Text),
    Column("plan_digest", Text),
    Column("head", LargeBinary),  # digest of all that the run has, once it has ended
)

phases = Table(
    "stored_phases",
    metadata,
    _parent("run", "stored_runs.number", primary_key=True),
    Column("phase", Integer, primary_key=True),
    Column("mode", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("head", LargeBinary),  # digest of the newest episodes of all workers, in every transaction
    sqlite_with_rowid=False,
)

declarations = Table(
    "stored_declarations",
    metadata,
    Column("number", Number, primary_key=True),
    _parent("run", "stored_runs.number", nullable=False),
    Column("phase", Integer, nullable=False),
    Column("environment", Text, nullable=False),  # empty for the lists of agents: two NULLs would be two keys
    Column("agent", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("id", Text, nullable=False),
    Column("space", Text),
    Column("unit", Text),
    Column("dtype", Text),
    Column("shape", Text, nullable=False),  # a JSON list
    UniqueConstraint("run", "phase", "environment", "agent", "kind", "position"),
)

members = Table(
    "stored_members",  # environments and agents of a phase
    metadata,
    Column("number", Number, primary_key=True),
    _parent("run", "stored_runs.number", nullable=False),
    Column("phase", Integer, nullable=False),
    Column("kind", Text, nullable=False),  # environment, agent
    Column("name", Text, nullable=False),
    Column("environment", Text),  # the one that an agent is in, if it is only one
    Column("position", Integer, nullable=False),  # in document order: that of the declarations, not of the first row
    UniqueConstraint("run", "phase", "kind", "name"),
)

episodes = Table(
    "stored_episodes",
    metadata,
    Column("number", Number, primary_key=True),
    _parent("run", "stored_runs.number", nullable=False),
    Column("phase", Integer, nullable=False),
    Column("mode", Text, nullable=False),
    Column("worker", Integer, nullable=False),
    Column("environment", Text, nullable=False),  # empty where it spans several
    Column("episode", Integer, nullable=False),
    Column("steps", Integer, nullable=False),
    Column("terminated", Boolean, nullable=False),
    Column("truncated", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
    Column("round", Integer, nullable=False),
    Column("inner", Integer, nullable=False),  # steps of an evaluation within its round
    Column("digest", LargeBinary, nullable=False),
    Column("predecessor", LargeBinary, nullable=False),  # digest of the worker's episode before; empty for the first
    UniqueConstraint("run", "phase", "mode", "worker", "environment", "episode"),
)

segments = Table(
    "stored_segments",
    metadata,
    Column("number", Number, primary_key=True),
    _parent("member", "stored_members.number", nullable=False, index=True),
    _parent("episode", "stored_episodes.number", index=True),  # NULL: open
)

# Rows are clustered by segment: reading an episode reads neighbouring pages, and no second index is written.
steps = Table(
    "stored_steps",
    metadata,
    _parent("segment", "stored_segments.number", primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("tick", BigInteger),
    Column("simtime_ticks", BigInteger),
    Column("simtime_timestamp", Text),
    Column("sensors", LargeBinary, nullable=False),
    Column("setpoints", LargeBinary, nullable=False),
    Column("rewards", LargeBinary, nullable=False),
    Column("terminated", Boolean, nullable=False),
    Column("truncated", Boolean, nullable=False),
    Column("world_state", LargeBinary),  # what a state transformer left in place
    sqlite_with_rowid=False,
)

actions = Table(
    "stored_actions",
    metadata,
    _parent("segment", "stored_segments.number", nullable=False),
    Column("body", Integer, nullable=False),  # the columns stand as in the records, the key as in the order of rows
    Column("step", Integer, nullable=False),
    Column("tick", BigInteger),
    Column("sensors", LargeBinary, nullable=False),
    Column("setpoints", LargeBinary, nullable=False),
    Column("proposed", LargeBinary),
    Column("rewards", LargeBinary, nullable=False),
    Column("objective", Float),
    Column("terminated", Boolean, nullable=False),
    Column("truncated", Boolean, nullable=False),
    Column("statistics", LargeBinary),
    PrimaryKeyConstraint("segment", "step", "body"),
    sqlite_with_rowid=False,
)

returns = Table(
    "stored_returns",  # summed when the episode is sealed: a query could not unpack `rewards`
    metadata,
    _parent("segment", "stored_segments.number", primary_key=True),
    Column("body", Integer, primary_key=True),
    Column("steps", Integer, nullable=False),
    Column("return", Float),  # None where nothing was known
    Column("objective", Float),
    sqlite_with_rowid=False,
)

signals = Table(
    "stored_signals",
    metadata,
    Column("number", Number, primary_key=True),
    _parent("run", "stored_runs.number", nullable=False),
    Column("phase", Integer),
    Column("worker", Integer),
    Column("episode", Integer),
    Column("step", Integer),
    Column("signal", Text, nullable=False),
    Column("issuer", Text, nullable=False),
    Column("reason", Text),
    Column("data", Text),  # JSON
    Column("round", Integer, nullable=False),
    Column("inner", Integer, nullable=False),
    Column("ordinal", Integer),  # counted by who gives it: the same signal again is the same row
    Index("ix_stored_signals_run", "run", "ordinal"),
)

brains = Table(
    "stored_brains",
    metadata,
    Column("number", Number, primary_key=True),
    _parent("run", "stored_runs.number", nullable=False, index=True),
    Column("phase", Integer, nullable=False),
    Column("agent", Text, nullable=False),
    Column("tag", Text, nullable=False),
    Column("episode", Integer),
    Column("updates", Integer),
    Column("created", Text),
    Column("bytes", BigInteger),
    Column("sha256", Text),
    Column("path", Text),
)

evaluations = Table(
    "stored_evaluations",
    metadata,
    Column("number_of_row", Number, primary_key=True),
    _parent("run", "stored_runs.number", nullable=False, index=True),
    Column("phase", Integer, nullable=False),
    Column("agent", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("episode", Integer),
    Column("metrics", Text, nullable=False),  # a JSON object of finite numbers
    Column("brain", Text),
    Column("completed", Text),
    UniqueConstraint("run", "phase", "agent", "number"),
)

incidents = Table(
    "stored_incidents",
    metadata,
    Column("number", Number, primary_key=True),
    _parent("run", "stored_runs.number", nullable=False, index=True),
    Column("time", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("incarnation", Integer),
    Column("kind", Text, nullable=False),
    Column("position", Text),
    Column("detail", Text),
)

ledger = Table(
    "stored_ledger",  # tells after a commit whose outcome is unknown whether it was carried out
    metadata,
    _parent("run", "stored_runs.number", primary_key=True),
    Column("commits", Integer, nullable=False),
    sqlite_with_rowid=False,
)

seals = Table(
    "stored_seals",  # digests of the rows of a run that belong to no episode, made when it ends
    metadata,
    _parent("run", "stored_runs.number", primary_key=True),
    Column("name", Text, primary_key=True),  # of the table
    Column("position", Integer, primary_key=True),
    Column("digests", LargeBinary, nullable=False),  # of so many rows, one behind the other
    sqlite_with_rowid=False,
)

points = Table(
    "stored_points",  # of experiments, which are there before their runs
    metadata,
    Column("experiment", Text, primary_key=True),
    Column("point", Integer, primary_key=True),
    Column("row", Integer, nullable=False),
    Column("repetition", Integer, nullable=False),
    Column("seed", Text, nullable=False),  # of any size
    Column("factors", Text, nullable=False),  # a JSON object
    Column("digest", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("run", Text),  # by id: a run that was removed leaves its point
    Column("reason", Text),
    sqlite_with_rowid=False,
)

SEALED = ("runs", "phases", "declarations", "members", "signals", "brains", "evaluations", "incidents")
"""The tables whose rows are sealed when a run ends, in this order; episodes seal their own rows."""


@dataclass(frozen=True)
class Shown:
    """Describe a table as its readers see it.

    `columns` are in the order in which they are shown, `order` sorts the rows, `number` is the run's. `decoded` tells
    which columns are value lists (by the kind of their declaration), `json` which are JSON text, and `member` which
    environment or agent the value lists belong to.
    """

    source: FromClause
    columns: Mapping[str, ColumnElement[Any]]
    order: tuple[ColumnElement[Any], ...]
    number: ColumnElement[Any] = field(default_factory=lambda: runs.c.number)
    decoded: Mapping[str, str] = field(default_factory=dict)
    packed: frozenset[str] = frozenset()
    json: frozenset[str] = frozenset()
    member: ColumnElement[Any] | None = None
    member_kind: str = ""

    def select(self, *columns: ColumnElement[Any]) -> Select[Any]:
        """Return a query for the given columns, without condition or order."""
        return select(*columns).select_from(self.source)

    def view(self) -> Select[Any]:
        """Return the query that is the view: all shown columns under their names."""
        return self.select(*(column.label(name) for name, column in self.columns.items()))


def _columns(source: FromClause, names: str) -> dict[str, ColumnElement[Any]]:
    return {name: source.c[name] for name in names.split()}


def _of_runs(table: Table) -> FromClause:
    return table.join(runs, table.c.run == runs.c.number)


def _evaluate_last(mode: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((mode == "evaluate", 1), else_=0)


RUN = {"run": runs.c.run}
EPISODE_KEY = _columns(episodes, "phase mode worker")
VALUES = {"sensors": "sensor", "setpoints": "actuator", "rewards": "reward"}


def _of_segments(table: Table) -> FromClause:
    # From the small to the large: runs, their episodes, their segments, rows.
    joined = table.join(segments, table.c.segment == segments.c.number)
    joined = joined.join(episodes, segments.c.episode == episodes.c.number)
    joined = joined.join(members, segments.c.member == members.c.number)
    return joined.join(runs, episodes.c.run == runs.c.number)


_EPISODE_ORDER = (
    runs.c.number,
    episodes.c.phase,
    _evaluate_last(episodes.c.mode),
    episodes.c.worker,
    members.c.position,
    members.c.number,
    episodes.c.episode,
)

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
        | {"environment": func.nullif(episodes.c.environment, "", type_=Text)}
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
        (*_EPISODE_ORDER, steps.c.step),
        decoded=VALUES,
        packed=frozenset({"world_state"}),
        member=members.c.name,
        member_kind="environment",
    ),
    "actions": Shown(
        _of_segments(actions),
        RUN
        | EPISODE_KEY
        | {"agent": members.c.name, "environment": members.c.environment}
        | {"body": actions.c.body, "episode": episodes.c.episode}
        | _columns(actions, "step tick sensors setpoints proposed rewards objective terminated truncated statistics")
        # Proposals are kept where filters changed them; elsewhere what was proposed is what was applied.
        | {"proposed": func.coalesce(actions.c.proposed, actions.c.setpoints)},
        (*_EPISODE_ORDER, actions.c.step, actions.c.body),
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
            func.coalesce(signals.c.phase, -1),
            signals.c.round,
            signals.c.inner,
            func.coalesce(signals.c.worker, 2**31),  # of a phase: after those of its workers
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
            "environment": func.nullif(declarations.c.environment, "", type_=Text),
            "agent": func.nullif(declarations.c.agent, "", type_=Text),
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
    "returns": Shown(
        _of_segments(returns),
        RUN
        | EPISODE_KEY
        | {"agent": members.c.name, "environment": members.c.environment}
        | {"body": returns.c.body, "episode": episodes.c.episode}
        | _columns(returns, "steps return objective"),
        (*_EPISODE_ORDER, returns.c.body),
    ),
    "points": Shown(
        points.outerjoin(runs, points.c.run == runs.c.run),
        _columns(points, "run experiment point row repetition seed state reason factors digest"),
        (points.c.experiment, points.c.point),
        json=frozenset({"factors", "seed"}),
    ),
}
