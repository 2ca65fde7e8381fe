"""Record: readings, rewards and setpoints of an environment, by step and body, from the rows of a store."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import DocumentError, StoreError
from ganglion.peer.models import store_class
from ganglion.sdk.flow import Mode
from ganglion.sdk.spaces import parse_space
from ganglion.sdk.store import StoreReader
from ganglion_replay.sources import Place
from ganglion_replay.spool import NO_TIME, Episode, Source
from ganglion_replay.transcript import quoted, vectors

__all__ = ["Record"]

Array = NDArray[Any]
_KINDS = ("sensor", "actuator", "reward")
_WORDS = {"sensor": "readings", "actuator": "setpoints", "reward": "rewards"}
_FIELDS = {"sensor": "sensors", "actuator": "setpoints", "reward": "rewards"}


class Record:
    """Read the steps of one environment in one phase of a run.

    Args:
        place: The phase.
        environment: Its uid there.
        asked: Selects by `agent`, `mode`, `worker`.

    Attributes:
        columns: Kind (sensor, actuator, reward) -> pairs of local id and space, as text, in declared order.
        bodies: Agent and number of each body; empty in a phase without.
        static_model: The environment's own properties; None without any.

    Raises:
        StoreError: The run has no declarations of the environment, or the store cannot be read.
    """

    def __init__(self, place: Place, environment: str, asked: Mapping[str, Any]) -> None:
        self._place, self._environment, self._asked = place, environment, asked
        kind = store_class(place.uri)
        with kind.reader(place.uri) as reader:
            where = f"phase = {place.index} and environment = {quoted(environment)}"
            declared = list(reader.rows("declarations", [place.run], where=f"phase = {place.index}"))
            rows = [row for row in declared if row["agent"] is None and row["environment"] == environment]
            prefix = f"{environment}."
            self.columns = {
                what: [[row["id"].removeprefix(prefix), row["space"]] for row in rows if row["kind"] == what]
                for what in _KINDS
            }
            model = next((row["space"] for row in rows if row["kind"] == "static_world_model"), None)
            self.static_model = None if model is None else json.loads(model)
            self.bodies: list[tuple[str, int]] = []
            if "bodies" in reader.tables():
                rows = list(reader.rows("bodies", [place.run], where=where, columns=["agent", "body"]))
                self.bodies = [(row["agent"], row["body"]) for row in rows]
        only = asked.get("agent")
        known = [body[0] for body in self.bodies] or [row["agent"] for row in declared if row["agent"] is not None]
        self._agents = list(dict.fromkeys(known))
        self.bodies = [body for body in self.bodies if only is None or body[0] == only]
        self._spaces = {what: {uid: parse_space(text) for uid, text in self.columns[what]} for what in _KINDS}

    def check_agent(self, at: str) -> None:
        """Refuse a source with an agent that was not in the environment; DocumentError begins with its place."""
        only = self._asked.get("agent")
        if only is not None and only not in self._agents:
            text = f"expected one of {', '.join(self._agents)}, found `{only}`, which was not in `{self._environment}`"
            raise DocumentError(f"{at}.agent: {text}")

    def source(self, at: str, agent: str) -> Source:
        """Return the entry of an agent's bodies, or of all agents without bodies."""
        whose = self._place.run, agent, self._environment, self._place.index, self._place.name
        return Source(at, *whose, 1, True, self.columns["sensor"], self.columns["actuator"], self.columns["reward"])

    def episodes(self, flaws: list[str]) -> Iterator[tuple[str, Episode]]:
        """Yield agent and episode of each body, by worker and number; `flaws` gets a text for each incomplete one."""
        place, mode = self._place, self._asked.get("mode") or self._place.mode
        narrow = f"phase = {place.index} and mode = {quoted(mode)}"
        narrow += "" if self._asked.get("worker") is None else f" and worker = {self._asked['worker']}"
        where = f"{narrow} and environment = {quoted(self._environment)}"
        kind = store_class(place.uri)
        with ExitStack() as stack:

            def rows(table: str, columns: Sequence[str], where: str = where) -> Iterator[dict[str, Any]]:
                reader: StoreReader = stack.enter_context(kind.reader(place.uri))
                found = reader.rows(table, [place.run], where=where, columns=["worker", "episode", *columns])
                return stack.enter_context(closing(row for row in found))  # at an early end, before its reader

            time = ["simtime_ticks", "simtime_timestamp"]
            firsts = _Aligned(rows("resets", ["step", *time, "sensors"]))
            fields = [*_FIELDS.values(), "terminated", "truncated"]
            decisions = {
                agent: _Aligned(
                    rows(
                        "actions",
                        ["body", "tick", "terminated", "truncated", "policy", "policy_version"],
                        f"{where} and agent = {quoted(agent)}",
                    )
                )
                for agent in dict.fromkeys(agent for agent, _ in self.bodies)
            }
            steps = rows("steps", ["step", "tick", *time, *fields])
            for key, together in groupby(steps, key=lambda row: (row["worker"], row["episode"])):
                text = f"run {place.run}, phase {place.index}, environment {self._environment}, worker {key[0]}"
                text += f", episode {key[1]}"
                taken = {agent: one.of(key) for agent, one in decisions.items()}
                yield from self._episode(Mode(mode), key, list(together), firsts.of(key), taken, text, flaws)

    def _episode(
        self,
        mode: Mode,
        key: tuple[int, int],
        rows: list[dict[str, Any]],
        firsts: list[dict[str, Any]],
        decisions: Mapping[str, list[dict[str, Any]]],
        text: str,
        flaws: list[str],
    ) -> Iterator[tuple[str, Episode]]:
        if not self.bodies:
            played = {("", 0): [(row, self._local(row)) for row in rows]}
            begun = {("", 0): (0, self._local(firsts[0])["sensor"], firsts[0])} if firsts else {}
        else:
            played, begun = {}, {}
            for row in rows:
                for body, values in self._by_body(row).items():
                    played.setdefault(body, []).append((row, values))
            for row in firsts:
                for body, values in self._by_body(row).items():
                    begun[body] = row["step"], values["sensor"], row
        last = max(row["step"] for row in rows)
        for body in sorted(played):
            if self.bodies and body not in self.bodies:
                continue
            mine = played[body]
            where = f"{text}, body {body[0]}/{body[1]}" if self.bodies else text
            if body not in begun:
                flaws.append(f"{where}: its first readings were not recorded")
                continue
            start, first, begin = begun[body]
            if [row["step"] for row, _ in mine] != list(range(start + 1, start + 1 + len(mine))):
                flaws.append(f"{where}: steps are missing")
                continue
            made = {row["tick"]: row for row in decisions.get(body[0], ()) if row["body"] == body[1]}
            yield body[0], self._taken(mode, key, body, (start, first, begin), mine, made, last, where)

    def _taken(
        self,
        mode: Mode,
        key: tuple[int, int],
        body: tuple[str, int],
        begin: tuple[int, Mapping[str, Any], Mapping[str, Any]],
        rows: list[tuple[dict[str, Any], dict[str, dict[str, Any]]]],
        made: Mapping[int, Mapping[str, Any]],
        last: int,
        where: str,
    ) -> Episode:
        """Return readings, setpoints and rewards of one body in an episode, with the flags of its environment."""
        count = len(rows)
        own = [(bool(row["terminated"]), bool(row["truncated"])) for row, _ in rows]
        terminated, truncated = (np.array([flags[i] for flags in own]) for i in (0, 1))
        early = rows[-1][0]["step"] < last
        if self.bodies and (early or len(rows[-1][0]["sensors"]) > len(rows[-1][1]["sensor"])):  # beside others
            end = made[max(made)] if made else {}
            ends = [bool(end.get(flag)) for flag in ("terminated", "truncated")]
            if not any(ends) and early:  # it ended before it ever decided
                ends = list(own[-1]) if any(own[-1]) else [True, False]
            if not early and not any(own[-1]):
                ends[1] = False  # by a cap or a budget, not by the environment
            terminated[-1], truncated[-1] = ends
        decided = np.array([row["tick"] in made for row, _ in rows]) if self.bodies else np.ones(count, bool)
        policies: list[str] = []
        by = [made.get(row["tick"], {}) for row, _ in rows]
        numbers = np.full(count, -1, np.int64)
        for i, one in enumerate(by):
            if one.get("policy") is not None:
                policies += [] if one["policy"] in policies else [one["policy"]]
                numbers[i] = policies.index(one["policy"])
        versions = [-1 if one.get("policy_version") is None else one["policy_version"] for one in by]
        seen = [begin[1], *(values["sensor"] for _, values in rows)]
        observations = self._columns("sensor", seen, where)
        times = [begin[2], *(row for row, _ in rows)]
        steps = {
            **self._columns("actuator", [values["actuator"] for _, values in rows], where),
            **self._columns("reward", [values["reward"] for _, values in rows], where),
            "terminated": terminated,
            "truncated": truncated,
            "own": np.array([1 * one + 2 * other for one, other in own], np.int8),
            "decided": decided,
            "policy": numbers,
            "policy_version": np.array(versions, np.int64),
            "ticks": np.array([-1 if row["tick"] is None else row["tick"] for row, _ in rows], np.int64),
        }
        observations |= {
            "time": np.array([NO_TIME if t["simtime_ticks"] is None else t["simtime_ticks"] for t in times], np.int64),
            **dict(zip(("stamp", "zone"), np.array([_stamp(t["simtime_timestamp"]) for t in times]).T, strict=True)),
        }
        return Episode(mode, key[0], body[1], key[1], -1, observations, steps, start=begin[0], policies=policies)

    def _columns(self, what: str, rows: Sequence[Mapping[str, Any]], where: str) -> dict[str, Array]:
        """Return an array of each id, `[rows, size]` of the dtype of its space, named by kind and place."""
        found = {}
        for i, (uid, space) in enumerate(self._spaces[what].items()):
            values = [row.get(uid) for row in rows]
            if any(value is None for value in values):
                text = f"{where}: {_WORDS[what]} of `{uid}` were not recorded in some step"
                raise StoreError(f"{text}; an environment plays what was recorded in each")
            found[f"{what} {i}"] = vectors(values, space, uid, where)
        return found

    def _local(self, row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the values of a row by kind and local id."""
        prefix = f"{self._environment}."
        return {
            what: {uid.removeprefix(prefix): value for uid, value in (row.get(name) or {}).items()}
            for what, name in _FIELDS.items()
        }

    def _by_body(self, row: Mapping[str, Any]) -> dict[tuple[str, int], dict[str, dict[str, Any]]]:
        """Return the values of a row by body, kind and local id."""
        found: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
        for what, values in self._local(row).items():
            for uid, value in values.items():
                name, _, whose = uid.removesuffix("]").rpartition("[")
                agent, _, number = whose.rpartition("/")
                found.setdefault((agent, int(number)), {kind: {} for kind in _KINDS})[what][name] = value
        return found


def _stamp(text: str | None) -> tuple[int, int]:
    """Return a timestamp in microseconds since 1970, and its offset in microseconds; `NO_TIME` if missing.

    A timestamp without a zone counts as UTC.
    """
    if text is None:
        return NO_TIME, NO_TIME
    moment, unit = dt.datetime.fromisoformat(text), dt.timedelta(microseconds=1)
    offset = moment.utcoffset()
    moment = moment if offset is not None else moment.replace(tzinfo=dt.UTC)
    since = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // unit
    return since, NO_TIME if offset is None else offset // unit


class _Aligned:
    """Split rows that are sorted by worker and episode into episodes."""

    def __init__(self, rows: Iterator[dict[str, Any]]) -> None:
        self._groups = groupby(rows, key=lambda row: (row["worker"], row["episode"]))
        self._at: tuple[int, int] | None = None
        self._found: list[dict[str, Any]] = []

    def of(self, key: tuple[int, int]) -> list[dict[str, Any]]:
        """Return the rows of an episode; empty without any."""
        while self._at is None or self._at < key:
            group = next(self._groups, None)
            if group is None:
                return []
            self._at, self._found = group[0], list(group[1])
        return self._found if self._at == key else []
