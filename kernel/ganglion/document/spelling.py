"""Accepted spellings to ours: one table of the places of a document, walked once; every node learns its path."""

from __future__ import annotations

from dataclasses import dataclass, field

from ganglion.document.fault import Fault
from ganglion.document.marks import Node

__all__ = ["MODES", "PLACES", "Place", "component", "normalise", "phases_of", "walk"]

MODES = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "evaluate": "evaluate",
    "evaluation": "evaluate",
}


@dataclass(frozen=True)
class Place:
    """Describe one kind of map in a document.

    `spellings` are other names of its keys, `parts` the places of its values (`[x]`: a list of x). `short`: text stands
    for `{name: text}`. `entry` is the key by whose text an entry of a list is addressed.
    """

    spellings: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    short: bool = False
    entry: str | None = None


_PARAMS = {"parameters": "params"}
_CONDITIONS = {"condition": "conditions"}
_RECORDED = {"agent_name": "agent", "experiment_id": "experiment_run", "phase_name": "phase"}

PLACES: dict[str, Place] = {
    "document": Place({"experiment": "experiment_uid"}, {"schedule": "schedule", "run_config": "run_config"}),
    "run_config": Place(_CONDITIONS, {"conditions": "[plugin]"}),
    "phase": Place(
        {},
        {
            "environments": "[entry]",
            "agents": "[agent]",
            "simulation": "simulation",
            "phase_config": "phase_config",
        },
    ),
    "phase_config": Place({"workers": "worker", **_CONDITIONS}, {"conditions": "[plugin]"}),
    "simulation": Place({**_PARAMS, **_CONDITIONS}, {"conditions": "[plugin]"}, short=True),
    "entry": Place(
        {},
        {"environment": "environment", "reward": "plugin", "state_transformer": "plugin"},
        entry="environment",
    ),
    "environment": Place(_PARAMS),
    "agent": Place(
        {},
        {
            "muscle": "plugin",
            "brain": "plugin",
            "objective": "plugin",
            "filters": "[plugin]",
            "load": "load",
            "replay": "[replay]",
        },
        entry="name",
    ),
    "plugin": Place(_PARAMS, short=True),
    "load": Place(_RECORDED),
    "replay": Place(_RECORDED),
}


def component(name: str) -> str:
    """Return a component of a path: in double quotes where it holds a dot or is empty."""
    return f'"{name}"' if "." in name or not name else name


def normalise(root: Node) -> tuple[Node, list[Fault]]:
    """Return the document in our spelling, with paths, and the faults of those that were given twice.

    Doing it again changes nothing. What has not the expected form is left as it is, for the model to refuse.
    """
    faults: list[Fault] = []
    return _place(root, "document", "", faults), faults


def phases_of(root: Node) -> list[tuple[Node, Node]]:
    """Return (name, phase) of each sound entry of a normalised schedule: a map with one phase."""
    schedule = root.map.get("schedule")
    entries = [entry for entry in ([] if schedule is None else schedule.items) if len(entry.map) == 1]
    return [(entry.keys[name], phase) for entry in entries for name, phase in entry.map.items()]


def _place(node: Node, kind: str, path: str, faults: list[Fault]) -> Node:
    """Return the node of a place with its parts normalised."""
    if kind.startswith("["):
        return _list(node, kind[1:-1], path, faults)
    if kind == "schedule":
        return _schedule(node, path, faults)
    place = PLACES[kind]
    if place.short and isinstance(node.value, str):
        name = node.like(node.value)
        name.path = path  # the text itself stands there, not a key `name` below it
        node = node.like({"name": name}, {"name": name})
    if not isinstance(node.value, dict):
        return walk(node, path)
    entries: dict[str, Node] = {}
    keys: dict[str, Node] = {}
    for written, value in node.map.items():
        if kind == "document" and written.startswith("x-"):
            continue
        key = place.spellings.get(written, written)
        mark = node.keys[written]
        where = mark.path or _join(path, str(mark.value))
        if key in entries:
            other = keys[key].value
            faults.append(
                mark.fault(f"`{written}` and `{other}` mean the same: give one of them", path=where)
            )
            continue
        if written == "condition" and not isinstance(value.value, list):
            value = value.like([value], {})
        keys[key] = walk(mark, where)
        entries[key] = _part(value, place.parts.get(key), key, where, faults)
    done = node.like(entries, keys)
    done.path = path
    return done


def _part(value: Node, kind: str | None, key: str, path: str, faults: list[Fault]) -> Node:
    """Return a value of a map, normalised as its own place."""
    if key == "mode" and isinstance(value.value, str):
        value = value.like(MODES.get(value.value.lower(), value.value))
    return walk(value, path) if kind is None else _place(value, kind, path, faults)


def _list(node: Node, kind: str, path: str, faults: list[Fault]) -> Node:
    entries = []
    for index, item in enumerate(node.items):
        entries.append(_place(item, kind, _join(path, _address(item, kind) or str(index)), faults))
    if not isinstance(node.value, list):
        return walk(node, path)
    done = node.like(entries)
    done.path = path
    return done


def _address(item: Node, kind: str) -> str | None:
    """Return the name by which an entry of a list is addressed, None where it has none."""
    key = PLACES[kind].entry
    if kind == "entry":
        return item.map["environment"].text("uid") if "environment" in item.map else None
    return item.text(key) if key is not None and kind == "agent" else None


def _schedule(node: Node, path: str, faults: list[Fault]) -> Node:
    """Return the schedule as a list of maps with one phase each."""
    if isinstance(node.value, dict):
        pairs = [(node.keys[name], phase) for name, phase in node.map.items()]
        node = node.like(
            [mark.like({str(mark.value): phase}, {str(mark.value): mark}) for mark, phase in pairs], {}
        )
    entries = []
    for index, entry in enumerate(node.items):
        if not isinstance(entry.value, dict):
            entries.append(walk(entry, _join(path, str(index))))
            continue
        phases = {}
        for name, phase in entry.map.items():
            where = _join(path, name)
            walk(entry.keys[name], where)
            phases[name] = _place(phase, "phase", where, faults)
        done = entry.like(phases)
        done.path = _join(path, next(iter(phases), str(index)))
        entries.append(done)
    if not isinstance(node.value, list):
        return walk(node, path)
    done = node.like(entries)
    done.path = path
    return done


def walk(node: Node, path: str) -> Node:
    """Give a node and what is below it their paths; a node that stands at several places keeps the first."""
    if node.path:
        return node
    node.path = path
    for key, part in node.map.items():
        walk(node.keys[key], _join(path, key))
        walk(part, _join(path, key))
    for index, part in enumerate(node.items):
        walk(part, _join(path, str(index)))
    return node


def _join(path: str, name: str) -> str:
    return f"{path}.{component(name)}" if path else component(name)
