"""Source: values of runs, read from a store: which runs are meant, which of them are alike, a value per episode."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ganglion.cli.extension import UsageError, nearest
from ganglion_plot.curve import Array, Series

if TYPE_CHECKING:
    from ganglion.sdk import StoreReader

OF_EPISODES = ("return", "objective", "length")
"""What every run has; other names are ids of sensors, setpoints and rewards, or names of statistics."""

BY = ("agent", "worker", "phase", "run")
_ELEMENT = re.compile(r"(?P<id>.+?)\[(?P<index>\d+(?:,\d+)*)\]\Z")
_COLUMN = {"sensor": "sensors", "actuator": "setpoints", "reward": "rewards"}
_PLACE = ("phase", "mode", "worker", "agent", "environment", "body", "episode")
_SHOWN_MAX = 20  # names in one sentence


@dataclass(frozen=True, slots=True)
class Alike:
    """Name runs that differ only in the seed: their label, and their ids in order."""

    label: str
    runs: list[str] = field(default_factory=list)


def runs_meant(reader: StoreReader, words: Sequence[str]) -> list[str]:
    """Return the ids of runs that are meant by words: each a run, or the uid of an experiment, which is all its runs.

    Raises:
        UsageError: A word means nothing, or an experiment without a run.
    """
    tables = reader.tables()
    found: dict[str, None] = {}
    for word in words:
        rows = _points(reader, f"experiment = {_quoted(word)}") if "points" in tables else []
        of_sweep = [row["run"] for row in rows if row["run"] is not None]
        if rows and not of_sweep:
            raise UsageError(f"experiment {word}: none of its {len(rows)} points has a run yet")
        for run in of_sweep or [reader.resolve(word)]:
            found[run] = None
    stored = {row["run"] for row in reader.rows("runs", list(found), columns=["run"])}
    return [run for run in found if run in stored]  # of a sweep some may have been removed


def alike(
    reader: StoreReader, runs: Sequence[str], results: Path, apart: bool, note: Callable[[str], None]
) -> list[Alike]:
    """Return runs by what they are without their seed: points of one row of a sweep, or equal documents.

    Args:
        reader: The store.
        runs: Ids, in the order in which the answer has them.
        results: Where the folders of runs are, with their documents.
        apart: Take each run by itself.
        note: Called with a sentence about a run that can only be taken by itself.
    """
    uids = {row["run"]: row["uid"] for row in reader.rows("runs", list(runs))}
    points = {row["run"]: row for row in _points(reader, None) if row["run"] in uids} if len(runs) > 1 else {}
    found: dict[Any, tuple[str, list[str]]] = {}
    for run in runs:
        point = points.get(run)
        key: Any = run
        label = str(uids[run])
        if point is not None:
            factors = ", ".join(f"{name}={_short(value)}" for name, value in (point["factors"] or {}).items())
            label = factors or str(point["experiment"])
            key = run if apart else (point["experiment"], point["row"])
        elif not apart and len(runs) > 1:
            key = _document(results / run) or run
            if key == run:
                note(f"run {run}: {results / run / 'resolved.yml'} is not there, so it is a curve of its own")
        found.setdefault(key, (label, []))[1].append(run)
    groups = list(found.values())
    texts = [own[0] if len(own) == 1 and own[0] not in points else label for label, own in groups]
    texts = [
        f"{text} ({len(own)} runs)" if len(own) > 1 else text for text, (_, own) in zip(texts, groups, strict=True)
    ]
    if len(set(texts)) < len(texts):
        texts = [
            f"{text}: {own[0]}" if texts.count(text) > 1 else text for text, (_, own) in zip(texts, groups, strict=True)
        ]
    return [Alike(text, own) for text, (_, own) in zip(texts, groups, strict=True)]


def _points(reader: StoreReader, where: str | None) -> list[dict[str, Any]]:
    return list(reader.rows("points", (), where=where)) if "points" in reader.tables() else []


def _document(folder: Path) -> str | None:
    """Return the document of a run without its seed."""
    try:
        text = (folder / "resolved.yml").read_text(encoding="utf-8")
    except OSError:
        return None
    return "\n".join(line for line in text.splitlines() if not line.startswith("seed:"))


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# -- values ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Choice:
    """Say which values are wanted: `what`, of which mode, phases and agents; None: those that are looked at first."""

    what: str = "return"
    by: str = "agent"
    mode: str | None = None
    phases: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


@dataclass(slots=True)
class _Places:
    """Gather a value per episode by place: (worker, agent, environment, body) -> phase -> episode -> sums."""

    sums: dict[tuple[Any, ...], dict[tuple[int, int], list[float]]] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any], value: float, steps: float) -> None:
        place = (row["worker"], row.get("agent"), row.get("environment"), row.get("body"))
        entry = self.sums.setdefault(place, {}).setdefault((row["phase"], row["episode"]), [0.0, 0.0, 0.0])
        entry[0] += value
        entry[1] += 1.0
        entry[2] = max(entry[2], steps)


def series_of(reader: StoreReader, groups: Sequence[Alike], choice: Choice) -> tuple[list[Series], list[str]]:
    """Return the series of all runs, each with the key (group, run, agent, phase, worker), and the runs without any.

    A part of the key that `choice.by` does not ask for is None; the agent is there always where values have one.

    Raises:
        UsageError: There is no such value, phase, mode or agent in any of the runs.
    """
    runs = [run for group in groups for run in group.runs]
    phases = _phases(reader, runs, choice)
    read = _read(reader, runs, choice.what)
    if choice.agents:
        _check_agents(reader, runs, choice)
    found: list[Series] = []
    empty: list[str] = []
    for number, group in enumerate(groups):
        for run in group.runs:
            places = _Places()
            chosen = phases[run]
            for row, value, steps in read(run, _where(chosen, choice.agents, choice.what)) if chosen else ():
                if value is not None and np.isfinite(value):
                    places.add(row, float(value), float(steps))
            own = list(_series(number, run, places, choice.by, {phase: name for phase, _, name in chosen}))
            found += own
            if not own:
                empty.append(run)
    return found, empty


def _series(number: int, run: str, places: _Places, by: str, names: Mapping[int, str]) -> Iterator[Series]:
    """Yield the series of one run; phases follow one another, unless each is to have curves of its own."""
    offsets: dict[int, tuple[float, float]] = {}
    before = (0.0, 0.0)
    for phase in sorted(names):
        offsets[phase] = (0.0, 0.0) if by == "phase" else before
        lasts, taken = [-1.0], [0.0]
        for cells in places.sums.values():
            own = [(episode, entry[2]) for (p, episode), entry in cells.items() if p == phase]
            lasts += [float(episode) for episode, _ in own]
            taken.append(sum(steps for _, steps in own))
        before = (before[0] + max(lasts) + 1.0, before[1] + max(taken))
    for (worker, agent, _, _), cells in places.sums.items():
        of: list[int | None] = [*sorted(names)] if by == "phase" else [None]
        for part in of:
            chosen = sorted(place for place in cells if part in (None, place[0]))
            if not chosen:
                continue
            taken_so_far: dict[int, float] = {}
            episodes, steps, values = [], [], []
            for p, episode in chosen:
                total, count, length = cells[p, episode]
                taken_so_far[p] = taken_so_far.get(p, 0.0) + length
                episodes.append(offsets[p][0] + episode)
                steps.append(offsets[p][1] + taken_so_far[p])
                values.append(total / count)
            key = (
                number,
                run if by == "run" else None,
                agent,
                None if part is None else names[part],
                worker if by == "worker" else None,
            )
            yield Series(key, run, _array(episodes), _array(steps), _array(values))


def _array(values: Sequence[float]) -> Array:
    return np.array(values, dtype=np.float64)


def _phases(reader: StoreReader, runs: Sequence[str], choice: Choice) -> dict[str, list[tuple[int, str, str]]]:
    """Return the phases to read of each run: number, mode, name."""
    rows = list(reader.rows("phases", list(runs)))
    modes = dict.fromkeys(row["mode"] for row in rows)
    mode = choice.mode or next((name for name in ("train", "test", "evaluate") if name in modes), None)
    if choice.mode is not None and choice.mode not in modes and rows:
        raise UsageError(f"--mode {choice.mode}: there is no episode of it; there are: {', '.join(modes)}")
    names = dict.fromkeys(str(row["name"]) for row in rows)
    numbers = {str(row["phase"]) for row in rows}
    for word in choice.phases:
        if word not in names and word not in numbers and rows:
            near = nearest(word, names) or f"; there are: {', '.join(names)}"
            raise UsageError(f"--phase: there is no phase `{word}`{near}")
    if choice.phases and choice.mode is None:
        mode = None
    found: dict[str, list[tuple[int, str, str]]] = {run: [] for run in runs}
    for row in rows:
        wanted = not choice.phases or row["name"] in choice.phases or str(row["phase"]) in choice.phases
        own_mode = row["mode"] != "evaluate" if mode is None else row["mode"] == mode
        if wanted and own_mode:
            found[row["run"]].append((row["phase"], row["mode"], str(row["name"])))
    return found


def _where(phases: Sequence[tuple[int, str, str]], agents: Sequence[str], what: str) -> str:
    modes = ", ".join(_quoted(mode) for mode in dict.fromkeys(mode for _, mode, _ in phases))
    text = f"phase in ({', '.join(str(phase) for phase, _, _ in phases)}) and mode in ({modes})"
    if agents and what in ("return", "objective"):
        text += f" and agent in ({', '.join(map(_quoted, agents))})"
    return text


def _check_agents(reader: StoreReader, runs: Sequence[str], choice: Choice) -> None:
    if choice.what not in ("return", "objective"):
        raise UsageError(f"--agent: expected --what return or objective, which agents have, found {choice.what}")
    rows = reader.rows("declarations", list(runs), columns=["agent"])
    agents = dict.fromkeys(str(row["agent"]) for row in rows if row["agent"])
    for name in choice.agents:
        if name not in agents:
            near = nearest(name, agents) or f"; there are: {_listed(list(agents))}"
            raise UsageError(f"--agent: there is no agent `{name}`{near}")


Read = Callable[[str, str], Iterator[tuple[Mapping[str, Any], "float | None", float]]]


def _read(reader: StoreReader, runs: Sequence[str], what: str) -> Read:
    """Return what yields (row, value, steps of the episode so far) of one run."""
    if what in ("return", "objective"):
        columns = [*_PLACE, "steps", what]
        return lambda run, where: (
            (row, row[what], row["steps"]) for row in reader.rows("returns", [run], where=where, columns=columns)
        )
    if what == "length":
        columns = [name for name in (*_PLACE, "steps") if name not in ("agent", "body")]
        return lambda run, where: (
            (row, row["steps"], row["steps"]) for row in reader.rows("episodes", [run], where=where, columns=columns)
        )
    element = _ELEMENT.match(what)
    name = element["id"] if element else what
    index = tuple(map(int, element["index"].split(","))) if element else ()
    declared = {row["id"]: row for row in reader.rows("declarations", list(runs)) if row["environment"]}
    if name in declared:
        return _read_id(reader, declared[name], what, index)
    if what in declared:
        return _read_id(reader, declared[what], what, ())
    names = _statistics(reader, runs)
    if what in names:
        return _read_statistic(reader, what)
    known = [*OF_EPISODES, *declared, *names]
    ends = [name for name in known if name.endswith(f".{what}")]
    near = f"; did you mean `{ends[0]}`?" if ends else nearest(what, known)
    raise UsageError(f"--what: there is no `{what}`{near or f'; there are: {_listed(known)}'}")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return ", ".join(names[:_SHOWN_MAX]) + more


def _read_id(reader: StoreReader, declared: Mapping[str, Any], what: str, index: tuple[int, ...]) -> Read:
    column = _COLUMN.get(declared["kind"])
    if column is None:
        raise UsageError(f"--what {what}: expected a sensor, an actuator or a reward, found a {declared['kind']}")
    shape = declared["shape"]
    shape = tuple(ast.literal_eval(shape) if isinstance(shape, str) else shape or ())
    if len(index) != len(shape) or any(i >= n for i, n in zip(index, shape, strict=True)):
        first = ",".join("0" for _ in shape)
        wanted = f"an element, as in {declared['id']}[{first}]" if shape else "no element: it is one number"
        raise UsageError(f"--what {what}: expected {wanted}; its shape is {shape}")
    environment, full = declared["environment"], declared["id"]
    columns = [*(name for name in _PLACE if name not in ("agent", "body")), "step", column]

    def read(run: str, where: str) -> Iterator[tuple[Mapping[str, Any], float | None, float]]:
        narrowed = f"{where} and environment = {_quoted(environment)}"
        for row in reader.rows("steps", [run], where=narrowed, columns=columns):
            value = (row[column] or {}).get(full)
            if value is None:
                continue
            numbers = np.asarray(value, dtype=np.float64)
            if numbers.ndim == len(shape) + 1:  # of several bodies: their mean
                numbers = numbers.mean(axis=0)
            yield row, float(numbers[index]), row["step"]

    return read


def _statistics(reader: StoreReader, runs: Sequence[str]) -> list[str]:
    """Return the names of statistics: noted with decisions, or told to the topic `stats`."""
    found: dict[str, None] = {}
    columns = ["topic", "key"]
    for row in reader.rows("topics", list(runs), where="topic = 'stats'", columns=columns):
        found[str(row["key"])] = None
    for row in reader.rows("actions", list(runs), where="statistics is not null", columns=["statistics"]):
        found.update(dict.fromkeys(row["statistics"]))
    return list(found)


def _read_statistic(reader: StoreReader, name: str) -> Read:
    columns = [*_PLACE, "step", "statistics"]

    def read(run: str, where: str) -> Iterator[tuple[Mapping[str, Any], float | None, float]]:
        narrowed = f"{where} and statistics is not null"
        for row in reader.rows("actions", [run], where=narrowed, columns=columns):
            if name in row["statistics"]:
                yield row, row["statistics"][name], row["step"]
        told: dict[tuple[Any, ...], int] = {}
        narrowed = f"{where} and topic = 'stats' and key = {_quoted(name)}"
        for row in reader.rows("topics", [run], where=narrowed):
            if isinstance(row["value"], int | float):  # a row when an episode ends: its number is the episode's
                place = (row["phase"], row["mode"], row["worker"], row["peer"])
                told[place] = told.get(place, -1) + 1
                yield row | {"agent": row["peer"], "episode": told[place]}, row["value"], 1.0

    return read
