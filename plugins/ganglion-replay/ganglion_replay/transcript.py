"""Transcript: the episodes of one agent in one phase of a run, from the rows of a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import StoreError
from ganglion.sdk.flow import Mode
from ganglion.sdk.seed import words
from ganglion.sdk.spaces import Ragged, Space, parse_space
from ganglion.sdk.store import StoreReader
from ganglion_replay.spool import Episode

__all__ = ["Transcript", "quoted", "vectors"]

Array = NDArray[Any]
_ROW = ["worker", "episode", "environment", "body", "step", "tick", "sensors", "setpoints", "rewards", "objective"]
_FLAGS = ["terminated", "truncated"]
_POLICY = ["policy", "policy_version"]
_KINDS = ("sensor", "actuator", "reward")


def quoted(text: str) -> str:
    """Return a text as a literal of a store's conditions."""
    return "'" + text.replace("'", "''") + "'"


class Transcript:
    """Read the episodes of one agent.

    Args:
        reader: For the rows of decisions, read in one query.
        aside: Another reader of the same store, for the closing readings.
        run: Id of the run.
        phase: Index and name of its phase.
        agent: Its name there.

    Attributes:
        columns: Kind (sensor, actuator, reward) -> pairs of id and space, as text, in recorded order. Ids are full, or
            local if the agent had bodies in several environments.
        environments: Those of the agent, in the order of its columns.
        bodies: Environment and number of each of its bodies, in a phase with bodies.
        grouped: Whether these were of several groups, so that each environment has columns of its own.

    `only` selects one environment of an agent with bodies.
    """

    def __init__(
        self,
        reader: StoreReader,
        aside: StoreReader,
        run: str,
        phase: tuple[int, str],
        agent: str,
        only: str | None = None,
    ) -> None:
        self._reader, self._aside = reader, aside
        self._run, self._agent = run, agent
        self._index, self._name = phase
        rows = list(
            reader.rows(
                "declarations",
                [run],
                where=f"phase = {self._index}",
                columns=["environment", "agent", "kind", "id", "space"],
            )
        )
        mine = [row for row in rows if row["agent"] == agent]
        if only is not None:  # bodies of several groups are declared for each environment
            mine = [row for row in mine if row["environment"] in (None, only)]
        self.grouped = any(row["environment"] is not None for row in mine)
        self.columns = {kind: [[row["id"], row["space"]] for row in mine if row["kind"] == kind] for kind in _KINDS}
        homes = {row["id"]: row["environment"] for row in rows if row["agent"] is None}
        own = [uid for kind in ("sensor", "actuator") for uid, _ in self.columns[kind]]
        self.environments = list(dict.fromkeys(homes[uid] for uid in own if uid in homes))
        self._homes = homes
        self.bodies = self._bodies_of(only)
        if self.bodies:
            self.environments = list(dict.fromkeys(environment for environment, _ in self.bodies))
        self._homes_at = {environment: place for place, environment in enumerate(self.environments)}
        self._spaces = {kind: {uid: parse_space(text) for uid, text in self.columns[kind]} for kind in _KINDS}
        found = next(iter(reader.rows("runs", [run], columns=["seed"])))
        self._seed = int(found["seed"])

    def _bodies_of(self, only: str | None) -> list[tuple[str, int]]:
        if "bodies" not in self._reader.tables():
            return []
        where = f"phase = {self._index} and agent = {quoted(self._agent)}"
        rows = self._reader.rows("bodies", [self._run], where=where, columns=["environment", "body"])
        found = [(row["environment"], row["body"]) for row in rows]
        return found if only is None or not any(uid == only for uid, _ in found) else [p for p in found if p[0] == only]

    def full(self, uid: str, environment: str | None) -> str:
        """Return the full id of a column in an environment in which the agent had bodies; None: without bodies."""
        return uid if environment is None or uid in self._homes else f"{environment}.{uid}"

    def episodes(
        self, mode: str, worker: int | None, flaws: list[str], begun: Mapping[int, int] | None = None
    ) -> Iterator[Episode]:
        """Yield the episodes of a mode, by worker and number; `flaws` gets a sentence for each incomplete one.

        `begun` has the first number of each worker's episodes. An episode with missing decisions is left out; one
        without an end or closing readings is yielded.
        """
        self._only = "" if worker is None else f" and worker = {worker}"
        if begun:
            rest = " and ".join(f"worker != {number}" for number in begun)
            parts = [f"worker = {number} and episode >= {first}" for number, first in begun.items()]
            self._only += f" and ({' or '.join(f'({part})' for part in (*parts, rest))})"
        where = f"phase = {self._index} and mode = {quoted(mode)} and agent = {quoted(self._agent)}{self._only}"
        if len(self.environments) == 1 and self.bodies:
            where += f" and environment = {quoted(self.environments[0])}"
        known = self._reader.tables()["actions"]
        columns = [*_ROW, *_FLAGS, *(name for name in _POLICY if name in known)]
        rows = self._reader.rows("actions", [self._run], where=where, columns=columns)
        ends: Any = self._ends_of_bodies(Mode(mode)) if self.bodies else self._ends(Mode(mode))
        for key, together in groupby(rows, key=lambda row: (row["worker"], row["episode"])):
            each: dict[tuple[str, int], list[dict[str, Any]]] = {}
            for row in together:
                each.setdefault((row["environment"], row["body"]), []).append(row)
            for environment, body in sorted(each, key=lambda pair: (self._homes_at.get(pair[0], 0), pair[1])):
                one = each[environment, body]
                place = f"run {self._run}, phase {self._index}, worker {key[0]}, episode {key[1]}"
                place += f", body {environment}/{body}" if self.bodies else ""
                if [row["step"] for row in one] != list(range(len(one))):
                    flaws.append(f"{place}: decisions are missing")
                    continue
                yield self._episode(Mode(mode), one, ends, place, flaws)

    def _episode(self, mode: Mode, rows: list[dict[str, Any]], ends: Any, place: str, flaws: list[str]) -> Episode:
        worker, body, number, environment = (rows[0][key] for key in ("worker", "body", "episode", "environment"))
        if self.bodies:
            seen = ends[environment].of(worker, number).get(f"{self._agent}/{body}")
            closing = None if seen is None else {uid: seen.get(uid) for uid in rows[-1]["sensors"]}
        else:
            closing = self._closing(mode, worker, number, rows[-1]["sensors"], ends)
        if not (rows[-1]["terminated"] or rows[-1]["truncated"]):
            flaws.append(f"{place}: it has no end")
        if closing is None:
            flaws.append(f"{place}: its closing readings are missing")
        readings = [*(row["sensors"] for row in rows), *([] if closing is None else [closing])]
        path = ["phase", self._name, mode.value, "environment", self.environments[0], "worker", worker]
        seed = int.from_bytes(words(self._seed, [*path, "episode", number])[:8], "little") >> 11
        several = bool(self.bodies) and len(self.environments) > 1
        home = environment if self.bodies else None
        return Episode(
            mode=mode,
            worker=worker,
            body=body,
            episode=number,
            seed=-1 if self.bodies else seed,
            place=self.environments.index(environment) if several else -1,
            observations=self._matrix("sensor", readings, home, place),
            steps={
                "actions": self._matrix("actuator", [row["setpoints"] for row in rows], home, place),
                "rewards": self._rewards([row["rewards"] for row in rows], home),
                "objectives": np.array(
                    [np.nan if row["objective"] is None else row["objective"] for row in rows], np.float64
                ),
                "terminated": np.array([bool(row["terminated"]) for row in rows]),
                "truncated": np.array([bool(row["truncated"]) for row in rows]),
                "ticks": np.array([-1 if row["tick"] is None else row["tick"] for row in rows], np.int64),
                **_policies(rows),
            },
        )

    def _closing(
        self, mode: Mode, worker: int, episode: int, last: Mapping[str, Any], ends: Mapping[str, _Ends]
    ) -> dict[str, Any] | None:
        """Return the readings after the last decision; an environment that was not stepped keeps its readings."""
        found: dict[str, Any] = {}
        for environment, closing in ends.items():
            readings = closing.of(worker, episode)
            if readings is None:
                where = f"{self._steps(mode, environment)} and worker = {worker} and episode = {episode}"
                rows = self._aside.rows(
                    "steps", [self._run], where=where, columns=["sensors"], order=["-step"], limit=1
                )
                readings = next((row["sensors"] for row in rows), {})
            found |= readings
        if not found:
            return None
        return {uid: found.get(uid, value) for uid, value in last.items()}

    def _ends(self, mode: Mode) -> dict[str, _Ends]:
        """Return the last readings of most episodes, by environment; a query for each takes many times longer.

        The result has episodes that an environment ended, and those that were cut off after the longest length.
        """
        place = f"phase = {self._index} and mode = {quoted(mode.value)}"
        rows = self._aside.rows("episodes", [self._run], where=place, columns=["steps"], order=["-steps"], limit=1)
        longest = next((row["steps"] for row in rows), 0)
        found = {}
        for environment in self.environments:
            where = f"{self._steps(mode, environment)}{self._only} and "
            where += f"(terminated = true or truncated = true or step = {longest})"
            columns = ["worker", "episode", "sensors"]
            found[environment] = _Ends(self._aside.rows("steps", [self._run], where=where, columns=columns))
        return found

    def _ends_of_bodies(self, mode: Mode) -> dict[str, _EndsOfBodies]:
        """Return the lookups of last readings of bodies, by environment."""
        columns = ["worker", "episode", "sensors"]
        asked = {environment: self._steps(mode, environment) + self._only for environment in self.environments}
        rows = {uid: self._aside.rows("steps", [self._run], where=w, columns=columns) for uid, w in asked.items()}
        return {environment: _EndsOfBodies(found) for environment, found in rows.items()}

    def _steps(self, mode: Mode, environment: str) -> str:
        """Return the condition for the rows of an environment."""
        place = f"phase = {self._index} and mode = {quoted(mode.value)}"
        return f"{place} and environment = {quoted(environment)}"

    def _matrix(self, kind: str, rows: Sequence[Mapping[str, Any]], home: str | None, place: str) -> Array:
        """Return values of an agent, or of its body in an environment, as `[rows, columns]`."""
        spaces = self._spaces[kind]
        dtypes = [space.dtype for space in spaces.values()]
        found = np.empty(
            (len(rows), sum(space.size for space in spaces.values())), np.result_type(*dtypes) if dtypes else np.float64
        )
        begin = 0
        for uid, space in spaces.items():
            name = self.full(uid, home)
            values = [row.get(name) for row in rows]
            if any(value is None for value in values):
                raise StoreError(f"{place}: no value of `{uid}` was recorded in some decision")
            found[:, begin : begin + space.size] = vectors(values, space, uid, place)
            begin += space.size
        return found

    def _rewards(self, rows: Sequence[Mapping[str, Any]], home: str | None) -> Array:
        spaces = {self.full(uid, home): space for uid, space in self._spaces["reward"].items()}
        found = np.full((len(rows), sum(space.size for space in spaces.values())), np.nan)
        for line, row in zip(found, rows, strict=True):
            begin = 0
            for uid, space in spaces.items():
                if row.get(uid) is not None:
                    line[begin : begin + space.size] = np.ravel(row[uid])
                begin += space.size
        return found


def _policies(rows: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    """Return the model and the update that chose each action, if recorded for all."""
    found = {name: [row.get(name) for row in rows] for name in _POLICY}
    return {name: np.array(values) for name, values in found.items() if None not in values}


def vectors(values: Sequence[Any], space: Space, uid: str, place: str) -> Array:
    """Return one value per row as rows of vectors."""
    try:
        if isinstance(space, Ragged):
            return np.array(list(map(space.to_vector, values))).reshape(len(values), space.size)
        return np.asarray(values, dtype=space.dtype).reshape(len(values), space.size)
    except (ValueError, OverflowError) as error:
        raise StoreError(f"{place}: values of `{uid}` are none of {space.to_string():.100}") from error


class _Ends:
    """Look up the last row of each episode in rows sorted by worker and episode; call in that order."""

    def __init__(self, rows: Iterator[dict[str, Any]]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def of(self, worker: int, episode: int) -> dict[str, Any] | None:
        """Return the readings of the last row of an episode, None without rows."""
        found: dict[str, Any] | None = None
        while self._next is not None and (self._next["worker"], self._next["episode"]) <= (worker, episode):
            mine = (self._next["worker"], self._next["episode"]) == (worker, episode)
            found = self._next["sensors"] if mine else None
            self._next = next(self._rows, None)
        return found


class _EndsOfBodies:
    """Look up the last readings of each body in rows of steps, like `_Ends`."""

    def __init__(self, rows: Iterator[dict[str, Any]]) -> None:
        self._groups = groupby(rows, key=lambda row: (row["worker"], row["episode"]))
        self._at: tuple[int, int] | None = None
        self._found: dict[str, dict[str, Any]] = {}

    def of(self, worker: int, episode: int) -> dict[str, dict[str, Any]]:
        """Return the last readings in an episode: body -> full id -> value."""
        while self._at is None or self._at < (worker, episode):
            group = next(self._groups, None)
            if group is None:
                break
            self._at, rows = group
            self._found = {}
            for row in rows:
                for uid, value in row["sensors"].items():
                    name, _, body = uid.removesuffix("]").rpartition("[")
                    self._found.setdefault(body, {})[name] = value
        return self._found if self._at == (worker, episode) else {}
