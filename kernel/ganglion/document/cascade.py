"""The cascade: each phase as it stands after what it inherits, with the places of all its parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ganglion.document.fault import Fault, nearest
from ganglion.document.marks import Node
from ganglion.document.recovery import INNER
from ganglion.limits import PHASES_PER_RUN, PROCESSES_PER_RUN

__all__ = ["DEFINING", "Expanded", "cascade", "expand"]

DEFINING = ("name", "command", "attach")  # an environment or a muscle with one of these is defined anew
_ACTS = ("load", "replay")  # acts of one phase, not properties: never inherited
_LEARNT = ("brain", "muscle", "objective")


@dataclass(slots=True)
class Expanded:
    """Hold a phase after the cascade: maps in document order, by uid and by agent's name."""

    mark: Node
    given: Node
    environments: dict[str, Node] = field(default_factory=dict)
    agents: dict[str, Node] = field(default_factory=dict)
    simulation: Node | None = None
    config: Node | None = None
    recovery: Node | None = None
    faults: list[Fault] = field(default_factory=list)
    vain: list[Fault] = field(default_factory=list)  # of removals of what is not there
    crowd: Fault | None = None  # too much for a run: the phases behind this one are not expanded

    @property
    def name(self) -> str:
        """Return the phase's name."""
        return str(self.mark.value)

    def plain(self) -> dict[str, object]:
        """Return the phase as plain values."""
        parts = (self.simulation, self.config, self.recovery)
        simulation, config, recovery = (None if part is None else part.plain() for part in parts)
        return {
            "environments": [node.plain() for node in self.environments.values()],
            "agents": [node.plain() for node in self.agents.values()],
            "simulation": simulation,
            "phase_config": config,
            "recovery": recovery,
        }


def cascade(phases: list[tuple[Node, Node]], replace: bool) -> list[Expanded]:
    """Return every phase expanded from the one before and what the document gives for it.

    With `replace` each key that a phase gives takes the place of the inherited one as a whole. The last one has a
    `crowd` where the bounds on phases and processes end the expansion.
    """
    done: list[Expanded] = []
    for mark, given in phases:
        phase = expand(done[-1] if done else None, mark, given, replace)
        phase.crowd = _crowd(phase, len(done))
        done.append(phase)
        if phase.crowd is not None:
            break
    return done


def _crowd(phase: Expanded, index: int) -> Fault | None:
    """Return what is wrong with a phase that is one too many, or has more in it than could be started."""
    if index >= PHASES_PER_RUN:
        message = f"expected at most {PHASES_PER_RUN} phases, found more (limit phases_per_run)"
        return phase.mark.fault(message)
    needed = 1 + len(phase.environments) + len(phase.agents)  # its controller, one worker, no brains
    if needed <= PROCESSES_PER_RUN:
        return None
    message = f"phase `{phase.name}` needs at least {needed} processes, a run may have {PROCESSES_PER_RUN}"
    return phase.mark.fault(f"{message} (limit processes_per_run)")


def expand(before: Expanded | None, mark: Node, given: Node, replace: bool = False) -> Expanded:
    """Return a phase expanded from the phase before it; that one stays as it is."""
    phase = Expanded(mark, given)
    if before is not None:
        phase.environments = dict(before.environments)
        phase.agents = {name: _without(agent, *_ACTS) for name, agent in before.agents.items()}
        phase.simulation, phase.config, phase.recovery = before.simulation, before.config, before.recovery
    if replace:
        phase.environments = {} if "environments" in given.map else phase.environments
        phase.agents = {} if "agents" in given.map else phase.agents
    _environments(phase)
    _agents(phase)
    parts = given.map
    phase.simulation = _named(phase.simulation, parts.get("simulation"), replace)
    phase.config = (
        parts.get("phase_config", phase.config)
        if replace
        else _merge(phase.config, parts.get("phase_config"))
    )
    inherited = None if replace and "recovery" in parts else phase.recovery
    phase.recovery = _change(inherited, parts.get("recovery"), *INNER)
    return phase


def _entities(phase: Expanded, key: str, inner: str | None, name: str) -> Iterator[tuple[str, Node, Node]]:
    """Yield (name, entry, node of the name) of each sound entry; one that is named twice is a fault."""
    seen: set[str] = set()
    for entry in phase.given.map.get(key, phase.mark).items:
        holder = entry if inner is None else entry.map.get(inner, phase.mark)
        label = holder.text(name)
        if label is None:
            continue
        node = holder.map[name]
        if label in seen:
            phase.faults.append(
                node.fault(f"duplicate {name} `{label}`: each stands once in the {key} of a phase")
            )
            continue
        seen.add(label)
        yield label, entry, node


def _removed(entities: dict[str, Node], phase: Expanded, label: str, entry: Node) -> bool:
    """Take an entity out if its entry says so; say whether it does."""
    flag = entry.map.get("remove")
    if flag is None or flag.value is not True:
        return False
    if entities.pop(label, None) is None:
        like = nearest(label, entities)
        phase.vain.append(flag.fault(f"there is no `{label}` to remove in phase `{phase.name}`{like}"))
    return True


def _environments(phase: Expanded) -> None:
    for uid, entry, _ in _entities(phase, "environments", "environment", "uid"):
        if _removed(phase.environments, phase, uid, entry):
            continue
        inherited = phase.environments.get(uid)
        definition = entry.map["environment"]
        full = any(_given(definition, key) for key in DEFINING)
        if inherited is None or full:
            _warn_dropped(phase, inherited, entry, definition)
            phase.environments[uid] = _without(entry, "remove")
            continue
        entry = _without(entry, "remove")
        merged, changed = _merge(inherited, entry), _change(inherited.map["environment"], definition)
        assert merged is not None
        assert changed is not None
        merged = merged.like({**merged.map, "environment": changed}, merged.keys)
        phase.environments[uid] = _recovery(merged, inherited, entry)


def _given(node: Node, key: str) -> bool:
    """Say whether a form is really given: `attach: false` and `command: ~` give none."""
    return key in node.map and node.map[key].value not in (None, False)


def _warn_dropped(phase: Expanded, inherited: Node | None, entry: Node, definition: Node) -> None:
    if inherited is None:
        return
    for key in ("reward", "state_transformer"):
        old = inherited.map.get(key)
        if old is not None and old.value is not None and key not in entry.map:
            uid = definition.text("uid")
            message = f"this full definition of `{uid}` drops its {key} of an earlier phase"
            phase.faults.append(definition.fault(message, "warning"))


def _agents(phase: Expanded) -> None:
    for name, entry, _ in _entities(phase, "agents", None, "name"):
        if _removed(phase.agents, phase, name, entry):
            continue
        inherited = phase.agents.get(name)
        entry = _without(entry, "remove")
        if inherited is None:
            phase.agents[name] = entry
            continue
        merged = _merge(inherited, entry)
        assert merged is not None
        parts = dict(merged.map)
        for key in _LEARNT:
            if key in entry.map:
                part = _named(inherited.map.get(key), entry.map[key])
                assert part is not None
                parts[key] = part
        phase.agents[name] = _recovery(merged.like(parts, merged.keys), inherited, entry)


def _named(inherited: Node | None, given: Node | None, replace: bool = False) -> Node | None:
    """Return a `{name, params}` after the cascade: with a name it replaces, without one its params merge."""
    if given is None:
        return inherited
    whole = "name" in given.map or any(_given(given, key) for key in DEFINING)
    if replace or inherited is None or whole or not isinstance(given.value, dict):
        return given
    return _change(inherited, given)


def _merge(inherited: Node | None, given: Node | None) -> Node | None:
    """Return two maps merged key by key, each value as a whole; what is newly given stands behind."""
    if given is None or inherited is None:
        return inherited if given is None else given
    if not isinstance(given.value, dict):
        return given
    return given.like({**inherited.map, **given.map}, {**inherited.keys, **given.keys})


def _change(inherited: Node | None, given: Node | None, *inner: str) -> Node | None:
    """Return two maps merged key by key; the maps at `inner`, if not given at `params`, are merged key by key too."""
    merged = _merge(inherited, given)
    if merged is None or inherited is None or given is None or not isinstance(merged.value, dict):
        return merged
    for key in inner or ("params",):
        if inherited.map.get(key) and key in given.map:
            part = _merge(inherited.map[key], given.map[key])
            assert part is not None
            merged = merged.like({**merged.map, key: part}, merged.keys)
    return merged


def _recovery(merged: Node, inherited: Node, given: Node) -> Node:
    """Return an entry whose `recovery` is merged too."""
    part = _change(inherited.map.get("recovery"), given.map.get("recovery"), *INNER)
    return merged if part is None else merged.like({**merged.map, "recovery": part}, merged.keys)


def _without(node: Node, *keys: str) -> Node:
    """Return a map without some keys; the same node where it has none of them."""
    if not any(key in node.map for key in keys):
        return node
    entries = {key: value for key, value in node.map.items() if key not in keys}
    return node.like(entries, {key: mark for key, mark in node.keys.items() if key not in keys})
