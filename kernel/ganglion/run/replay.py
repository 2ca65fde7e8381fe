"""Recorded episodes that a brain learns from before it acts: what `replay` asks for, which run and phase that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ganglion.run import model
from ganglion.run.model import Wish
from ganglion.run.plan import AgentPlan, PhasePlan, Plan

__all__ = ["homeless", "missing", "pick_phase", "replaying", "told", "wish_of"]

_OF_LOAD = ("agent", "experiment_run", "instance", "phase", "base")


def replaying(phase: PhasePlan) -> list[AgentPlan]:
    """Return the agents of a phase whose brains learn from recorded episodes first."""
    if phase.mode != "train":
        return []
    return [agent for agent in phase.agents if agent.replay and agent.brain is not None]


def wish_of(entry: Mapping[str, Any], agent: str, uid: str, run: str) -> Wish:
    """Return what an entry of `replay` asks for; missing keys are filled in as those of `load`.

    Args:
        entry: In our spelling, without what it leaves open.
        agent: Whose `replay` it is.
        uid: Of this document.
        run: Id of this run.
    """
    asked = {"agent": agent, **{key: entry[key] for key in _OF_LOAD if key in entry}}
    found = model.wish_of(asked, agent, uid, run)
    assert found is not None, "an agent is always asked for"
    return found


def told(entry: Mapping[str, Any], wish: Wish) -> str:
    """Return what is looked for in words."""
    only = [f"{key} {entry[key]}" for key in ("mode", "environment", "worker") if key in entry]
    source = str(wish).removeprefix("the model of ").replace("that left one", "with that agent")
    return f"recorded episodes of {source}{''.join(f', {part}' for part in only)}"


def pick_phase(wish: Wish, names: Mapping[int, str], having: Sequence[int], run: str) -> int | str:
    """Return the phase of a run that is meant, or why there is none; `having` are those with the agent."""
    if wish.phase is not None:
        index = next((i for i in sorted(names) if wish.phase in (i, names[i])), None)
        if index is None:
            return f"run {run} has no phase `{wish.phase}` that could be meant"
        if index in having:
            return index
        return f"phase `{names[index]}` of run {run} has not the agent `{wish.agent}`"
    return max(having) if having else f"run {run} has no rows of an agent `{wish.agent}`"


def missing(at: str, entry: Mapping[str, Any], wish: Wish, places: Sequence[tuple[str, str]]) -> str:
    """Return the sentence of the fault: what was looked for, and where; one line per place."""
    lines = [f"{at}: {told(entry, wish)} were not found", *(f"  in {place}: {why}" for place, why in places)]
    return "\n".join(lines)


def homeless(plan: Plan, run: str) -> list[str]:
    """Return a fault for each entry that a run without a store cannot serve: rows are kept in stores only."""
    faults = []
    for agent in (agent for phase in plan.phases for agent in replaying(phase)):
        for at, entry in zip(agent.replay_at, agent.replay, strict=True):
            if entry.get("base") is None:
                what = told(entry, wish_of(entry, agent.name, plan.uid, run))
                faults.append(f"{at}: {what} are read from a store, and this run has none (--store none)")
    return faults
