"""Values that are set from outside (`--set PATH=VALUE`), put into the tree before it is checked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ganglion.document.fault import Fault, nearest
from ganglion.document.marks import Node, compose
from ganglion.document.source import Source
from ganglion.document.spelling import PLACES

__all__ = ["Nowhere", "override", "path_of", "put"]

_COMPONENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^."]+)')
_ENTRY_KEYS = frozenset({"environment", "reward", "state_transformer", "remove", "recovery"})
_MADE = frozenset(
    {
        "params",
        "phase_config",
        "run_config",
        "simulation",
        "recovery",
        "deadlines_s",
        "load",
        "variables",
        "environment",
    }
)  # maps that may be missing in a document and are made when a path leads through them


class Nowhere(Exception):
    """Say why a path leads nowhere."""


def path_of(text: str) -> list[str]:
    """Return the components of a dotted path; those with dots stand in double quotes.

    Raises:
        ValueError: the text is no path.
    """
    parts: list[str] = []
    at = 0
    while True:
        found = _COMPONENT.match(text, at)
        if found is None:
            raise ValueError(f"expected components divided by dots, found {text!r}")
        parts.append(found[2] if found[1] is None else re.sub(r"\\(.)", r"\1", found[1]))
        at = found.end()
        if at == len(text):
            return parts
        if text[at] != ".":
            raise ValueError(f"expected a dot after {text[:at]!r}, found {text[at]!r}")
        at += 1


def override(root: Node, settings: Sequence[str], option: str = "--set") -> tuple[Node, list[Fault]]:
    """Return a normalised document with `PATH=VALUE` settings put in, in order, and the faults of those that fail.

    The values are YAML; they and their faults are located at the option. Entries of lists are named by phase, uid,
    agent or index. The given tree stays as it is.
    """
    faults: list[Fault] = []
    for setting in settings:
        source = Source(f"{option} {setting}", inline=True)
        path, equals, text = setting.partition("=")
        here = Node(None, source)
        if not equals:
            faults.append(here.fault("expected PATH=VALUE"))
            continue
        value, wrong = compose(source, text)
        faults += wrong
        if wrong:
            continue
        try:
            root = put(root, path_of(path), Node(None, source) if value is None else value)
        except (Nowhere, ValueError) as error:
            faults.append(here.fault(str(error)))
    return root, faults


def put(root: Node, path: Sequence[str], value: Node, place: str = "document") -> Node:
    """Return a tree in which a value stands at a path; every node on the way is new, no other one changes.

    `place` is what the tree is (a row of `spelling.PLACES`): a normalised run document, or anything (`""`).

    Raises:
        Nowhere: the path leads nowhere.
    """
    return _put(root, list(path), value, place)


def _put(node: Node, path: list[str], value: Node, place: str) -> Node:
    if not path:
        return value
    if place == "schedule":
        return _put_phase(node, path, value)
    if isinstance(node.value, list):
        return _put_item(node, path, value, place)
    if not isinstance(node.value, dict):
        raise Nowhere(f"the path leads nowhere: before `{path[0]}` stands {node.found()}")
    known = PLACES.get(place)
    key = path[0] if known is None or path[0] in node.map else known.spellings.get(path[0], path[0])
    if place == "entry" and key not in _ENTRY_KEYS and key not in node.map:
        key, path = "environment", ["environment", *path]
    below = known.parts.get(key, "") if known is not None else ""
    if key in node.map:
        part = _put(node.map[key], path[1:], value, below)
    elif len(path) == 1:
        part = value
    elif key in _MADE:
        part = _put(value.like({}, {}), path[1:], value, below)
    else:
        raise Nowhere(f"the path leads nowhere: there is no `{key}`{nearest(key, node.map)}")
    keys = node.keys if key in node.keys else {**node.keys, key: value.like(key, {})}
    return node.like({**node.map, key: part}, keys)


def _put_phase(node: Node, path: list[str], value: Node) -> Node:
    """Go on in the phase of that name, or of that index."""
    names = [name for entry in node.items for name in entry.map]
    wanted = path[0]
    if wanted not in names and wanted.isdecimal() and int(wanted) < len(names):
        wanted = names[int(wanted)]
    if wanted not in names:
        raise Nowhere(f"the path leads nowhere: there is no phase `{wanted}`{nearest(wanted, names)}")
    entries = []
    for entry in node.items:
        if wanted in entry.map:
            entry = entry.like({**entry.map, wanted: _put(entry.map[wanted], path[1:], value, "phase")})
        entries.append(entry)
    return node.like(entries)


def _put_item(node: Node, path: list[str], value: Node, place: str) -> Node:
    """Go on in the entry of that uid, name or index."""
    kind = place.strip("[]")
    labels = [_label(item, kind) for item in node.items]
    name = path[0]
    if name in labels:
        index = labels.index(name)
    elif name.isdecimal() and int(name) < len(labels):
        index = int(name)
    else:
        like = nearest(name, [label for label in labels if label])
        raise Nowhere(f"the path leads nowhere: there is no entry `{name}`{like}")
    items = list(node.items)
    items[index] = _put(items[index], path[1:], value, kind)
    return node.like(items)


def _label(item: Node, kind: str) -> str | None:
    """Return by what an entry of a list is named: an environment's uid, else its name."""
    if kind == "entry":
        return item.map["environment"].text("uid") if "environment" in item.map else None
    return item.text("name")
