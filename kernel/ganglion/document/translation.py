"""Names and keys of other projects to ours, by the tables of alias plugins; each change leaves a note."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from ganglion.document.fault import Fault
from ganglion.document.marks import Node
from ganglion.document.spelling import PLACES

__all__ = ["Foreign", "Translation", "translate"]


class Foreign(Protocol):
    """Say what a name of another project means here; `registry.alias` describes the tables."""

    @property
    def name(self) -> str:
        """Our short name."""

    @property
    def params(self) -> Mapping[str, str]:
        """What becomes of arguments."""

    @property
    def customs(self) -> Mapping[str, Any]:
        """The table that knows the name."""


Ask: TypeAlias = Callable[[str, str], "Foreign | None"]  # (kind, name) -> what it means
Change: TypeAlias = Callable[[Node, str, str], Node]  # (map, its place, kind of its plugin or "") -> map

# The kind of the plugin that a map names, by the place that holds it and its key there; "": at any place.
_KINDS = {
    ("entry", "environment"): "environment",
    ("entry", "reward"): "reward",
    ("entry", "state_transformer"): "transformer",
    ("agent", "muscle"): "muscle",
    ("agent", "brain"): "brain",
    ("agent", "objective"): "objective",
    ("agent", "filters"): "filter",
    ("phase", "simulation"): "controller",
    ("", "conditions"): "condition",
}
_LIST = "[]"


@dataclass(slots=True)
class Translation:
    """Hold a document in our names, and what is to be said about it.

    `notes` has a line for each change; `versions` are values of `version` about which there is nothing to say.
    """

    root: Node
    faults: list[Fault] = field(default_factory=list)
    notes: list[Fault] = field(default_factory=list)
    versions: frozenset[str] = frozenset()


def translate(root: Node, ask: Ask) -> Translation:
    """Return a normalised document with the names and keys of other projects replaced by ours.

    A name that nobody knows stays, for the check to refuse. Without such a name nothing is changed.
    """
    done = Translation(root)
    names = _Names(ask, done)
    done.root = _walk(root, "document", "", names.change)
    for customs in names.customs:
        done.versions |= set(customs.get("versions", ()))
        done.root = _walk(done.root, "document", "", _Keys(customs, done).change)
    return done


def _walk(node: Node, place: str, kind: str, change: Change) -> Node:
    """Return a map with all maps at known places in it changed, the inner ones first."""
    if not isinstance(node.value, dict):
        return node
    parts: dict[str, Node] = {}
    for key, part in node.map.items():
        if (place, key) == ("document", "schedule"):
            parts[key] = _schedule(part, change)
            continue
        below = PLACES[place].parts.get(key)
        named = _KINDS.get((place, key)) or _KINDS.get(("", key), "")
        parts[key] = part if below is None else _part(part, below, named, change)
    return change(_with(node, parts), place, kind)


def _part(part: Node, place: str, kind: str, change: Change) -> Node:
    if not place.startswith("["):
        return _walk(part, place, kind, change)
    items = [_walk(item, place[1:-1], kind, change) for item in part.items]
    return part if all(a is b for a, b in zip(items, part.items, strict=True)) else part.like(items)


def _schedule(schedule: Node, change: Change) -> Node:
    entries = []
    for entry in schedule.items:
        phases = {name: _walk(phase, "phase", "", change) for name, phase in entry.map.items()}
        entries.append(_with(entry, phases))
    same = all(a is b for a, b in zip(entries, schedule.items, strict=True))
    return schedule if same else schedule.like(entries)


def _with(node: Node, parts: dict[str, Node], keys: dict[str, Node] | None = None) -> Node:
    """Return a map with these parts; the same node where they are those it has."""
    if keys is None and all(parts[key] is part for key, part in node.map.items()):
        return node
    return node.like(parts, keys)


class _Names:
    """Replace names of plugins, and what their constructors call otherwise; remember whose they were."""

    def __init__(self, ask: Ask, done: Translation) -> None:
        self._ask = ask
        self._known: dict[tuple[str, str], Foreign | None] = {}
        self._done = done
        self.customs: list[Mapping[str, Any]] = []

    def change(self, node: Node, place: str, kind: str) -> Node:
        """Return a map that names a plugin with our name."""
        written = node.text("name") if kind else None
        if written is None or not ("." in written or ":" in written):
            return node
        if (kind, written) not in self._known:
            self._known[kind, written] = self._ask(kind, written)
        found = self._known[kind, written]
        if found is None:
            return node
        if all(customs is not found.customs for customs in self.customs):
            self.customs.append(found.customs)
        name = node.map["name"]
        self._done.notes.append(name.fault(f"`{written}` is the {kind} `{found.name}`", "note"))
        parts = {**node.map, "name": name.like(found.name)}
        if found.params and "params" in node.map:
            parts["params"] = self._params(node.map["params"], found.params)
        return node.like(parts)

    def _params(self, params: Node, rules: Mapping[str, str]) -> Node:
        """Return arguments as our class takes them."""
        parts: dict[str, Node] = {}
        keys: dict[str, Node] = {}
        for key, part in params.map.items():
            rule = rules.get(key, key)
            name = key if rule == _LIST else rule
            if rule == _LIST and not isinstance(part.value, list):
                part = part.like([part], {})
            if name in parts or (name != key and name in params.map):
                self._done.faults.append(
                    params.keys[key].fault(f"`{key}` and `{name}` mean the same: give one of them")
                )
                continue
            if name != key:
                self._done.notes.append(params.keys[key].fault(f"argument `{key}` is `{name}`", "note"))
            parts[name], keys[name] = part, params.keys[key]
        return _with(params, parts, keys) if isinstance(params.value, dict) else params


class _Keys:
    """Move keys to where ours stand, and drop those that mean nothing here."""

    def __init__(self, customs: Mapping[str, Any], done: Translation) -> None:
        self._ignored: Mapping[str, Mapping[str, str]] = customs.get("ignored", {})
        self._moves = [tuple(row) for row in customs.get("moves", ())]
        self._done = done

    def change(self, node: Node, place: str, kind: str) -> Node:
        """Return a map of a place with our keys only."""
        for key, why in self._ignored.get(place, {}).items():
            if key in node.map:
                self._done.faults.append(node.keys[key].fault(f"`{key}` has no effect: {why}", "warning"))
                node = _without(node, key)
        if place == "agent":
            for part, argument, key in self._moves:
                node = self._moved(node, part, argument, key)
        return node

    def _moved(self, agent: Node, part: str, argument: str, key: str) -> Node:
        """Return an agent that has as a key of its own what was an argument of one of its parts."""
        holder = agent.map.get(part)
        params = holder.map.get("params") if holder is not None else None
        if holder is None or params is None or argument not in params.map:
            return agent
        mark, value = params.keys[argument], params.map[argument]
        if key in agent.map:
            message = f"`{argument}` of the {part} and `{key}` of the agent mean the same: give one of them"
            self._done.faults.append(mark.fault(message))
            return agent
        self._done.notes.append(mark.fault(f"`{argument}` of the {part} is `{key}` of the agent", "note"))
        holder = holder.like({**holder.map, "params": _without(params, argument)})
        return agent.like({**agent.map, part: holder, key: value}, {**agent.keys, key: mark})


def _without(node: Node, key: str) -> Node:
    """Return a map without a key."""
    parts = {name: part for name, part in node.map.items() if name != key}
    return node.like(parts, {name: mark for name, mark in node.keys.items() if name != key})
