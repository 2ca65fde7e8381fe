"""Imported: sessions of files as a run in a store, in which every body has episodes of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ganglion.errors import UsageError
from ganglion.peer.models import shown, store_class
from ganglion.peer.results.records import declaration_rows
from ganglion.sdk.session import Session
from ganglion.sdk.store import StoreWriter
from ganglion_replay.files import Form, ImportedSessions, parse_space, place_of, split

__all__ = ["store_sessions"]

_COMMIT_STEPS = 10_000  # rows per transaction
_KINDS = {"sensor": "sensors", "actuator": "actuators", "reward": "rewards"}
_FLAGS = (1, 2)  # terminated, truncated


@dataclass
class _Phase:
    """Hold the bodies of a phase in order of appearance, its columns and modes."""

    name: str
    modes: dict[str, None] = field(default_factory=dict)
    bodies: dict[tuple[str, str, int], Form] = field(default_factory=dict)
    episodes: int = 0


def store_sessions(
    sessions: ImportedSessions, uri: str, run: str | None, origin: str, progress: Callable[[Session], None]
) -> list[str]:
    """Write sessions into a store, one run for each run of the sessions; return the ids.

    Sessions are read twice, first to check all of them. Each body has episodes of its own, whatever was recorded.
    Files lack the rest of a run: models, signals, metrics, seeds of episodes.

    Args:
        sessions: Of files.
        uri: Of the store, which is made if missing.
        run: The id of the new run; None is that of the files.
        origin: The source in words, for the reason of the run.
        progress: Called with each written session.

    Raises:
        UsageError: The store has a run of that id, an id was given for several runs, or agents see an environment with
            different columns.
        StoreError: A file has a fault, or the store cannot be written; the store does not change.
    """
    runs: dict[str, dict[int, _Phase]] = {}
    for session in sessions:
        _note(runs.setdefault(session.run, {}), session)
    if not runs:
        raise UsageError(f"{origin}: expected at least one session, found none")
    if run is not None and len(runs) > 1:
        raise UsageError(f"{origin}: expected sessions of one run for --run {run}, found {', '.join(runs)}")
    names = {old: run or old for old in runs}
    kind = store_class(uri)
    known: set[str] = set()
    if _is_there(uri):
        with kind.reader(uri) as reader:
            known = {row["run"] for row in reader.rows("runs", columns=["run"])}
    for name in names.values():
        if Path(name).name != name or name.startswith("."):
            raise UsageError(
                f"{origin}: expected a run's id that can be the name of a folder, found {name!r}: --run ID"
            )
        if name in known:
            raise UsageError(f"{shown(uri)}: run {name} is there already; import it under another id: --run ID")
    begun: list[str] = []
    try:
        for old, name in names.items():
            with kind.writer(uri, name) as writer:
                begun.append(name)
                _write(
                    writer, runs[old], (session for session in sessions if session.run == old), name, origin, progress
                )
    except BaseException:
        if begun:
            kind.remove(uri, begun)
        raise
    return list(names.values())


def _is_there(uri: str) -> bool:
    return not uri.startswith("sqlite:///") or Path(uri.removeprefix("sqlite:///")).exists()


def _note(phases: dict[int, _Phase], session: Session) -> None:
    phase = phases.setdefault(session.phase, _Phase(session.phase_name or f"phase-{session.phase}"))
    phase.modes.setdefault(session.mode.value)
    form = Form.of(session)
    whose = session.agent, session.environment, session.body
    for (_, environment, _), other in phase.bodies.items():
        if environment == session.environment and other.columns != form.columns:
            text = f"expected equal columns of all bodies in environment `{environment}` of a phase, found others"
            raise UsageError(f"{place_of(session)}: {text}: import the agents one by one, or name the files by `path`")
    phase.bodies.setdefault(whose, form)


def _order(phase: _Phase) -> list[tuple[str, str, int]]:
    """Return the bodies in the order of agents, environments and numbers."""
    agents = list(dict.fromkeys(agent for agent, _, _ in phase.bodies))
    environments = list(dict.fromkeys(environment for _, environment, _ in phase.bodies))
    return sorted(phase.bodies, key=lambda one: (agents.index(one[0]), environments.index(one[1]), one[2]))


def _write(
    writer: StoreWriter,
    phases: dict[int, _Phase],
    sessions: Iterator[Session],
    run: str,
    origin: str,
    progress: Callable[[Session], None],
) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    uid = run.rpartition("-")[0] if run.rpartition("-")[2].isdigit() and run.rpartition("-")[0] else run
    head = {"uid": uid, "experiment": uid, "seed": "0", "document": "", "started": now}
    writer.apply("import", [["run", head]])
    for index, phase in sorted(phases.items()):
        writer.apply("import", list(_opening(index, phase)))
    waiting = 0
    for session in sessions:
        phase = phases[session.phase]
        writer.apply("import", list(_rows(session, phase)))
        waiting += len(session)
        if waiting >= _COMMIT_STEPS:
            writer.commit()
            waiting = 0
        progress(session)
    closing = [
        ["phase", index, phase.name, mode, "finished", "imported"]
        for index, phase in sorted(phases.items())
        for mode in phase.modes
    ]
    writer.apply("import", [*closing, ["end", "finished", f"imported from {origin}", now]])
    writer.commit()


def _opening(index: int, phase: _Phase) -> Iterator[list[Any]]:
    """Yield the records before the rows of a phase."""
    seen: set[str] = set()
    pairs = {(agent, environment): form for (agent, environment, _), form in phase.bodies.items()}
    for (_, environment), form in pairs.items():
        if environment not in seen:
            yield from _declared(index, environment, None, form)
        seen.add(environment)
    for (agent, environment), form in pairs.items():
        yield from _declared(index, environment, agent, form)
    for mode in phase.modes:
        yield ["phase", index, phase.name, mode, "running", None]
    yield ["bodies", index, [[*body, None, None, None, True, True, "latest"] for body in _order(phase)]]


def _declared(index: int, environment: str, agent: str | None, form: Form) -> Iterator[list[Any]]:
    for kind, name in _KINDS.items():
        rows = [{"id": uid, "space": parse_space(text).to_wire()} for uid, text in getattr(form, name)]
        yield ["declare", index, environment, agent, kind, declaration_rows(rows)]


def _rows(session: Session, phase: _Phase) -> Iterator[list[Any]]:
    """Yield the records of a session: first readings, steps, decisions, and the seal of its episode."""
    order = _order(phase)
    whose = session.agent, session.environment, session.body
    seat, place = (
        np.array([[one for one in order if one[at] == whose[at]].index(whose)], "<u2").tobytes() for at in (1, 0)
    )
    count = len(session)
    readings, setpoints, rewards = (_blocks(parts) for parts in split(session, phase.bodies[whose]))
    ticks = session.ticks.tolist()
    episode = np.array([session.episode], "<i4").tobytes()
    flags = [
        bytes([bool(one) * _FLAGS[0] + bool(other) * _FLAGS[1]])
        for one, other in zip(session.terminated, session.truncated, strict=True)
    ]
    at = [session.phase, session.mode.value, session.worker]
    yield ["resets", *at, session.environment, [[episode, 0, max(ticks[0], 0), None, None, seat, readings[0]]]]
    known = count if session.has_final else count - 1  # a step needs the readings after it
    steps = [
        [
            *(episode, np.array([i + 1], "<i4").tobytes(), ticks[i], None, None, seat),
            *(readings[i + 1], setpoints[i], rewards[i], flags[i]),
            *(bool(session.terminated[i]), bool(session.truncated[i]), None),
        ]
        for i in range(known)
    ]
    if steps:
        yield ["body_steps", *at, session.environment, steps]
    policy, version = session.policy, session.policy_version
    yield [
        "body_actions",
        *at,
        session.agent,
        [
            [
                *(place, episode, np.array([i], "<i4").tobytes(), np.array([ticks[i]], "<i4").tobytes()),
                *(readings[i], setpoints[i], None, rewards[i]),
                *(np.array([session.objectives[i]], "<f8").tobytes(), flags[i], None),
                None if policy is None else str(policy[i]),
                None if version is None else np.array([version[i]], "<i8").tobytes(),
            ]
            for i in range(count)
        ],
    ]
    over = bool(session.terminated[-1]), bool(session.truncated[-1])
    reason = "terminated" if over[0] else "truncated" if over[1] else "open"
    timeline = f"{session.environment}[{session.agent}/{session.body}]"
    yield ["episode", *at, timeline, session.episode, count, *over, reason, phase.episodes]
    phase.episodes += 1


def _blocks(columns: list[np.ndarray[Any, Any]]) -> list[bytes]:
    """Return the values of each row as bytes, column after column."""
    lines = [
        [row.tobytes() for row in np.ascontiguousarray(column).astype(column.dtype.newbyteorder("<"))]
        for column in columns
    ]
    return [b"".join(parts) for parts in zip(*lines, strict=True)]
