"""The request of an entry of `replay`, in words, and the choice of a phase of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ganglion.run import model
from ganglion.run.model import Wish

__all__ = ["missing", "pick_phase", "told", "wish_of"]

_OF_LOAD = ("agent", "experiment_run", "instance", "phase", "base")


def wish_of(entry: Mapping[str, Any], agent: str, uid: str, run: str) -> Wish:
    """Return the request of an entry of `replay`; missing keys have the defaults of `load`.

    Args:
        entry: In Ganglion's spelling, without missing keys.
        agent: The agent with the entry.
        uid: Of this document.
        run: Id of this run.
    """
    asked = {"agent": agent, **{key: entry[key] for key in _OF_LOAD if key in entry}}
    found = model.wish_of(asked, agent, uid, run)
    assert found is not None, "an agent is always asked for"
    return found


def told(entry: Mapping[str, Any], wish: Wish) -> str:
    """Return the request in words."""
    only = [f"{key} {entry[key]}" for key in ("mode", "environment", "worker") if key in entry]
    source = str(wish).removeprefix("the model of ").replace("that left one", "with that agent")
    if not wish.agent:
        source = source.removeprefix("agent `` from ").replace("with that agent", "with that environment")
    return f"recorded episodes of {source}{''.join(f', {part}' for part in only)}"


def pick_phase(wish: Wish, names: Mapping[int, str], having: Sequence[int], run: str) -> int | str:
    """Return the wanted phase of a run, or why there is none; `having` are the phases with the agent."""
    whose = f"agent `{wish.agent}`" if wish.agent else "environment that is meant"
    if wish.phase is not None:
        index = next((i for i in sorted(names) if wish.phase in (i, names[i])), None)
        if index is None:
            return f"run {run} has no phase `{wish.phase}` that could be meant"
        if index in having:
            return index
        return f"phase `{names[index]}` of run {run} has not the {whose}"
    return max(having) if having else f"run {run} has no rows of an {whose}"


def missing(at: str, entry: Mapping[str, Any], wish: Wish, places: Sequence[tuple[str, str]]) -> str:
    """Return the text of the fault: the request, and a line for each searched place."""
    lines = [f"{at}: {told(entry, wish)} were not found", *(f"  in {place}: {why}" for place, why in places)]
    return "\n".join(lines)
