"""Recordings that documents name: what `replay` of an agent can mean in its phase."""

from __future__ import annotations

from collections.abc import Iterator

from ganglion.document.cascade import Expanded
from ganglion.document.fault import Fault
from ganglion.document.marks import Node

__all__ = ["REPLAY", "in_vain", "reads", "replay_faults", "replays"]

REPLAY = "recorded"  # the plugin of the group `replay` that carries out the key


def replays(agent: Node) -> list[Node]:
    """Return the entries of an agent's `replay`."""
    found = agent.map.get("replay")
    return [] if found is None else [item for item in found.items if isinstance(item.value, dict)]


def reads(agent: Node) -> list[Node]:
    """Return the maps of an agent that name runs and phases to read from: `load`, then the entries of `replay`."""
    load = agent.map.get("load")
    return [*([] if load is None else [load]), *replays(agent)]


def replay_faults(agent: Node) -> Iterator[Fault]:
    """Yield what is wrong where an agent without a brain is to learn from recordings."""
    found = agent.map.get("replay")
    if found is None or not found.items:
        return
    mark, name, brain = agent.keys["replay"], agent.text("name"), agent.map.get("brain")
    if brain is None or brain.value is None or brain.text("name") == "none":
        yield mark.fault(f"agent `{name}` has no brain that could learn: `replay` needs one")


def in_vain(phase: Expanded) -> Iterator[Fault]:
    """Yield a warning for each `replay` in a phase in which no brain learns."""
    mode = None if phase.config is None else phase.config.text("mode")
    if mode in (None, "train"):
        return
    for agent in phase.agents.values():
        if replays(agent):
            message = f"no brain learns in a phase of mode `{mode}`: `replay` has no effect"
            yield agent.keys["replay"].fault(message, "warning")
