"""Spellings: the names that documents may use, of Ganglion and of other projects."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ganglion.document.fault import Fault
from ganglion.document.marks import Node
from ganglion.document.model import Agent, Document, Entry, Form, Phase, forms_within
from ganglion.limits import DOCUMENT_FAULTS, INTEGER_MAX


def numbers(root: Node) -> list[Fault]:
    """Return a fault for each integer that no double holds; `seed` may have any size, `x-` keys are ignored."""
    message = f"expected an integer of at most {INTEGER_MAX}, found a larger one; text may have any digits"
    found: list[Fault] = []
    parts = [part for key, part in reversed(root.map.items()) if key != "seed" and not key.startswith("x-")]
    while parts and len(found) < DOCUMENT_FAULTS:
        node = parts.pop()
        parts += [*node.map.values(), *node.items]
        if type(node.value) is int and abs(node.value) > INTEGER_MAX:
            found.append(node.fault(message))
    return found


MODES = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "evaluate": "evaluate",
    "evaluation": "evaluate",
}


def component(name: str) -> str:
    """Return a component of a path, in double quotes if it has a dot or is empty."""
    return f'"{name}"' if "." in name or not name else name


def normalise(root: Node) -> tuple[Node, list[Fault]]:
    """Return the document in Ganglion's spelling, with paths, and the faults of keys given under two names.

    A normalised document does not change. Nodes of another form stay for the model to refuse.
    """
    faults: list[Fault] = []
    return _place(root, Document, "", faults), faults


def phases_of(root: Node) -> list[tuple[Node, Node]]:
    """Return (name, phase) of each sound entry of a normalised schedule: a map with one phase."""
    schedule = root.map.get("schedule")
    entries = [entry for entry in ([] if schedule is None else schedule.items) if len(entry.map) == 1]
    return [(entry.keys[name], phase) for entry in entries for name, phase in entry.map.items()]


def _place(node: Node, form: type[Form], path: str, faults: list[Fault]) -> Node:
    """Return a node of a form, a map or a list of maps, with its parts normalised."""
    if isinstance(node.value, list):
        return _list(node, form, path, faults)
    if form.short and isinstance(node.value, str):
        name = node.like(node.value, path=path)  # at the place of the text, which has no key `name`
        node = node.like({"name": name}, {"name": name})
    if not isinstance(node.value, dict):
        return walk(node, path)
    within = forms_within(form)
    entries: dict[str, Node] = {}
    keys: dict[str, Node] = {}
    for written, value in node.map.items():
        if form is Document and written.startswith("x-"):
            continue
        key = form.spellings.get(written, written)
        mark = node.keys[written]
        where = mark.path or _join(path, str(mark.value))
        if key in entries:
            message = f"`{written}` and `{keys[key].value}` mean the same: give one of them"
            faults.append(mark.fault(message, path=where))
            continue
        if written == "condition" and not isinstance(value.value, list):
            value = value.like([value], {})
        if key == "mode" and isinstance(value.value, str):
            value = value.like(MODES.get(value.value.lower(), value.value))
        keys[key] = walk(mark, where)
        if form is Document and key == "schedule":
            entries[key] = _schedule(value, where, faults)
        else:
            entries[key] = _place(value, within[key], where, faults) if key in within else walk(value, where)
    return node.like(entries, keys, path)


def _list(node: Node, form: type[Form], path: str, faults: list[Fault]) -> Node:
    entries = []
    for index, item in enumerate(node.items):
        address = label(item, form) if form in (Entry, Agent) else None
        entries.append(_place(item, form, _join(path, address or str(index)), faults))
    return node.like(entries, path=path)


def label(item: Node, form: type[Form] | None) -> str | None:
    """Return the name of an entry of a list: a phase's name, an environment's uid, else its `name`."""
    if form is Phase:
        return next(iter(item.map), None)
    if form is Entry:
        return item.map["environment"].text("uid") if "environment" in item.map else None
    return item.text("name")


def _schedule(node: Node, path: str, faults: list[Fault]) -> Node:
    """Return the schedule as a list of maps with one phase each."""
    if isinstance(node.value, dict):
        pairs = [(node.keys[name], phase) for name, phase in node.map.items()]
        node = node.like([mark.like({str(mark.value): phase}, {str(mark.value): mark}) for mark, phase in pairs], {})
    if not isinstance(node.value, list):
        return walk(node, path)
    entries = []
    for index, entry in enumerate(node.items):
        if not isinstance(entry.value, dict):
            entries.append(walk(entry, _join(path, str(index))))
            continue
        for name in entry.map:
            walk(entry.keys[name], _join(path, name))
        phases = {name: _place(phase, Phase, _join(path, name), faults) for name, phase in entry.map.items()}
        entries.append(entry.like(phases, path=_join(path, next(iter(phases), str(index)))))
    return node.like(entries, path=path)


def walk(node: Node, path: str) -> Node:
    """Set the paths of a node and the nodes below; a node at several places keeps its first path."""
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


Ask: TypeAlias = Callable[[str, str], Any]
"""Return the meaning of another project's name by kind and name, as `registry.alias` does; None without one."""
Change: TypeAlias = Callable[[Node, type[Form], str], Node]
"""Return another map for a map of a form, which names a plugin of a kind, or of none (`""`)."""

_LIST = "[]"
AS_IT_IS = "as it is"
"""How the note ends on a class of another project that is played unmodified."""


@dataclass(slots=True)
class Translation:
    """Hold a document in Ganglion's names, with its faults and notes."""

    root: Node
    faults: list[Fault] = field(default_factory=list)
    notes: list[Fault] = field(default_factory=list)  # one note for each change
    customs: list[Mapping[str, Any]] = field(default_factory=list)  # the tables whose names the document uses

    @property
    def versions(self) -> frozenset[str]:
        """Return the versions of other projects for which the document may have been written."""
        return frozenset(version for customs in self.customs for version in customs.get("versions", ()))

    def told(self, mark: Node, message: str) -> None:
        """Record a change."""
        self.notes.append(mark.fault(message, "note"))


def translate(root: Node, ask: Ask) -> Translation:
    """Return a normalised document with the names and keys of other projects replaced by Ganglion's.

    An unknown name stays, for the check to refuse. With `real` at a project's switch, all names of classes are the
    project's own.
    """
    done, host = Translation(root), ""
    for key, switch in [(key, ask("switch", key)) for key in root.map]:
        if switch is not None:
            if root.map[key].value == "real":
                host, done.customs = switch.name, [switch.customs]
            else:
                done.faults.append(root.map[key].fault(f"expected `real`, found {root.map[key].found()}"))
            root = root.without(key)
    change = functools.partial(_renamed, ask=functools.cache(ask), done=done, host=host)
    done.root = _walk(root, Document, "", change)
    for customs in done.customs:
        done.root = _walk(done.root, Document, "", functools.partial(_moved, customs=customs, done=done))
    return done


def _walk(node: Node, form: type[Form], kind: str, change: Change) -> Node:
    """Return a tree with all maps of forms changed, inner maps first."""
    if isinstance(node.value, list):
        items = []
        for item in node.items:
            if form is Phase and item.map:  # an entry of the schedule: a map with a phase
                items.append(item.like({name: _walk(phase, Phase, kind, change) for name, phase in item.map.items()}))
            else:
                items.append(_walk(item, form, kind, change))
        return node.like(items)
    if not isinstance(node.value, dict):
        return node
    within = forms_within(form)
    parts = {
        key: _walk(part, within[key], form.kinds.get(key, ""), change) if key in within else part
        for key, part in node.map.items()
    }
    return change(node.like(parts), form, kind)


def _renamed(node: Node, form: type[Form], kind: str, ask: Ask, done: Translation, host: str) -> Node:
    """Return a map with Ganglion's name of the plugin and the arguments of its class."""
    written = node.text("name") if kind else None
    if written is None or ("." not in written and ":" not in written):
        return node
    found = None if host and kind not in ("condition", "controller") else ask(kind, written)
    theirs = ask("hosted", f"{host}:{written}" if host else written) if found is None else None
    if theirs is not None:
        whose = f"of {theirs.origin}, " * bool(theirs.origin)
        limit = theirs.customs.get("limits", {}).get(kind)
        done.told(node.map["name"], f"`{written}` is the {kind} {whose}as it is{f', but {limit}' * bool(limit)}")
        done.customs = done.customs or [theirs.customs]
    if found is None:  # else a class beside the document, or a fault
        return node if not host or theirs is None else node.put("name", node.map["name"].like(f"{host}:{written}"))
    if all(customs is not found.customs for customs in done.customs):
        done.customs.append(found.customs)
    name = node.map["name"]
    done.told(name, f"`{written}` is the {kind} `{found.name}`")
    node = node.put("name", name.like(found.name))
    params = node.map.get("params")
    if not found.params or params is None or not isinstance(params.value, dict):
        return node
    parts: dict[str, Node] = {}
    keys: dict[str, Node] = {}
    for key, part in params.map.items():
        rule, mark = found.params.get(key, key), params.keys[key]
        ours = key if rule == _LIST else rule
        if rule == _LIST and not isinstance(part.value, list):
            part = part.like([part], {})
        if ours in parts or (ours != key and ours in params.map):
            done.faults.append(mark.fault(f"`{key}` and `{ours}` mean the same: give one of them"))
            continue
        if ours != key:
            done.told(mark, f"argument `{key}` is `{ours}`")
        parts[ours], keys[ours] = part, mark
    return node.put("params", params.like(parts, keys))


def _moved(node: Node, form: type[Form], kind: str, customs: Mapping[str, Any], done: Translation) -> Node:
    """Return a map without keys that have no effect; arguments of an agent's parts that are keys here are moved."""
    for key, why in customs.get("ignored", {}).get(form.__name__.lower(), {}).items():
        if key in node.map:
            done.faults.append(node.keys[key].fault(f"`{key}` has no effect: {why}", "warning"))
            node = node.without(key)
    for part, argument, key in customs.get("moves", ()) if form is Agent else ():
        holder = node.map.get(part)
        params = None if holder is None else holder.map.get("params")
        if holder is None or params is None or argument not in params.map:
            continue
        mark = params.keys[argument]
        if key in node.map:
            message = f"`{argument}` of the {part} and `{key}` of the agent mean the same: give one of them"
            done.faults.append(mark.fault(message))
            continue
        done.told(mark, f"`{argument}` of the {part} is `{key}` of the agent")
        node = node.put(part, holder.put("params", params.without(argument))).put(key, params.map[argument], mark)
    return node
