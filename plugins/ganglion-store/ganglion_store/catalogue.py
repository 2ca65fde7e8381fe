"""The catalogue of a reader: which runs there are, and what they declared."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select

from ganglion_store import schema
from ganglion_store.declarations import shape_of
from ganglion_store.schema import Shown
from ganglion_store.values import Declared

Key = tuple[int, str, str, str]  # phase, environment or agent, name, kind


class Catalogue:
    """Look up declarations; those of a run are read when the first of its value lists is."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._of_run: dict[int, dict[Key, list[Declared]]] = {}

    def runs(self) -> dict[str, int]:
        """Return the numbers of all runs by their ids, in order of start."""
        runs = schema.runs.c
        rows = self._connection.execute(select(runs.run, runs.number).order_by(runs.number))
        return {row[0]: row[1] for row in rows}

    def declared(self, run: int, phase: int, member_kind: str, member: str, kind: str) -> Sequence[Declared]:
        """Return what an environment or an agent declared; empty if nothing of this kind."""
        key = (phase, member_kind, member, kind)
        known = self._of_run.get(run, {}).get(key)
        if known is None:  # not read yet, or declared since by a run that goes on
            self._of_run[run] = self._read(run)
            known = self._of_run[run].setdefault(key, [])
        return known

    def ids(self, shown: Shown, runs: Sequence[int]) -> dict[str, list[str]]:
        """Return the ids in each column of value lists, of some runs or of all: in declared order, each once."""
        d, r = schema.declarations.c, schema.runs.c
        owner = d.environment if shown.member_kind == "environment" else d.agent
        query = select(d.kind, d.id).join(schema.runs, d.run == r.number).where(owner != "")
        if runs:
            query = query.where(d.run.in_(runs))
        found: dict[str, dict[str, None]] = {}
        for kind, name in self._connection.execute(query.order_by(d.number)):
            found.setdefault(kind, {})[name] = None
        return {column: list(found.get(kind, ())) for column, kind in shown.decoded.items()}

    def _read(self, run: int) -> dict[Key, list[Declared]]:
        d = schema.declarations.c
        query = select(d.phase, d.environment, d.agent, d.kind, d.id, d.dtype, d.shape)
        lists: dict[Key, list[Declared]] = {}
        rows = self._connection.execute(query.where(d.run == run).order_by(d.number))
        for phase, environment, agent, kind, name, dtype, shape in rows:
            member = ("environment", environment) if environment else ("agent", agent)
            lists.setdefault((phase, *member, kind), []).append(Declared(name, dtype, shape_of(shape)))
        return lists
