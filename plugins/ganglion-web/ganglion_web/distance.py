"""Distance: how far a phase is from the values that its conditions wait for, by stored rows and events."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganglion.cli.extension import GanglionError, PhasePlan, PluginPlan, registry
from ganglion.sdk import EpisodeMeans, EpisodeView, EvaluationView, Mode, PhaseView, TerminationCondition, WorkerView

if TYPE_CHECKING:
    from ganglion.sdk import StoreReader

EPISODES_MAX = 1_000
"""The newest episodes of each worker to read."""

OBJECTIVES_MAX = 200
"""The newest decisions of an episode to read: the longest mean that is shown exactly."""


def conditions(
    plan: PhasePlan, reader: StoreReader | None, run: str, taken: Mapping[int, Mapping[str, Any]], status: str | None
) -> list[dict[str, Any]]:
    """Return the conditions of a phase: name, parameters, and, while the phase runs, `distances`.

    A distance is `what`, `now` and `wanted`. `taken` maps each worker to its last report of steps. A mean over
    decisions is of the newest stored episode of each worker, since decisions are not reported earlier.
    """
    named = [(one, "episode") for one in plan.episode_conditions] + [(one, "phase") for one in plan.phase_conditions]
    found: list[dict[str, Any]] = [
        {"name": one.name, "params": dict(one.params), "of": of, "distances": []} for one, of in named
    ]
    if status not in ("running", "paused") or reader is None:
        return found
    phase = _phase(plan, reader, run)
    made = [_made(one) for one, _ in named]
    reads = any(one is not None and one.has_episode_part() and "objectives" in one.reads for one in made)
    objectives = _objectives(plan, reader, run, phase) if reads else {}
    steps = {worker: told for worker, told in taken.items() if told.get("phase") == plan.index and told.get("steps")}
    episodes = [
        EpisodeView(
            worker,
            phase.mode,
            int(steps.get(worker, {}).get("episode", 0)),
            int(steps.get(worker, {}).get("steps", 0)),
            objectives=objectives.get(worker, {}),
        )
        for worker in sorted({*steps, *objectives})
    ]
    for row, condition in zip(found, made, strict=True):
        if condition is not None:
            row["distances"] = [
                {"what": what, "now": now, "wanted": wanted}
                for what, now, wanted in condition.distances(phase, episodes)
            ]
    return found


def _made(plan: PluginPlan) -> TerminationCondition | None:
    """Return the condition of an installed plugin; None for any other: the page runs no code of a document."""
    with contextlib.suppress(GanglionError, TypeError, ValueError):
        registry.locate("condition", plan.name, local=False)
        made: TerminationCondition = registry.load("condition", plan.name)(**plan.params)
        return made
    return None


def _phase(plan: PhasePlan, reader: StoreReader, run: str) -> PhaseView:
    """Return the conditions' view of the phase, with the newest episodes of each worker."""
    quoted = run.replace("'", "''")
    own = f"run = '{quoted}' AND phase = {int(plan.index)} AND mode = '{Mode(plan.mode).value}'"
    _, newest = reader.query(f"SELECT MAX(episode) FROM episodes WHERE {own}")  # noqa: S608 - quoted
    last = next(iter(newest))[0]
    _, rows = reader.query(
        f"SELECT worker, episode, agent, MAX(steps), SUM(objective) FROM returns WHERE {own} "  # noqa: S608 - quoted
        f"AND episode > {(last or 0) - EPISODES_MAX} GROUP BY worker, episode, agent ORDER BY worker, episode"
    )
    workers: dict[int, dict[int, tuple[int, dict[str, float]]]] = {number: {} for number in range(plan.workers)}
    for worker, episode, agent, steps, objective in rows:
        _, means = workers.setdefault(worker, {}).setdefault(episode, (steps, {}))
        if objective is not None and steps:
            means[agent] = objective / steps
    views = [
        WorkerView(worker, [EpisodeMeans(episode, steps, means) for episode, (steps, means) in episodes.items()])
        for worker, episodes in workers.items()
    ]
    return PhaseView(Mode(plan.mode), views, evaluations=_evaluations(reader, run, plan.index), episodes=plan.episodes)


def _objectives(plan: PhasePlan, reader: StoreReader, run: str, phase: PhaseView) -> dict[int, dict[str, list[float]]]:
    """Return worker -> agent -> the objectives of the last decisions of its newest stored episode."""
    found: dict[int, dict[str, list[float]]] = {}
    for view in phase.workers:
        if not view.finished:
            continue
        last = view.finished[-1]
        where = (
            f"phase = {int(plan.index)} and mode = '{phase.mode.value}' and worker = {view.worker} "
            f"and episode = {last.episode} and step >= {last.steps - OBJECTIVES_MAX} and objective is not null"
        )
        for row in reader.rows("actions", [run], where=where, columns=["agent", "objective"]):
            found.setdefault(view.worker, {}).setdefault(row["agent"], []).append(row["objective"])
    return found


def _evaluations(reader: StoreReader, run: str, phase: int) -> Sequence[EvaluationView]:
    found: dict[int, dict[str, Mapping[str, float]]] = {}
    for row in reader.rows("evaluations", [run], where=f"phase = {int(phase)}"):
        found.setdefault(row["number"], {})[row["agent"]] = row["metrics"]
    return [EvaluationView(number, metrics) for number, metrics in sorted(found.items())]
