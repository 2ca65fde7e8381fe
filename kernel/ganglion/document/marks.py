"""YAML with marks: nodes that know their file, line and column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NoReturn, TypeAlias

import yaml

from ganglion import limits
from ganglion.document.fault import Fault, placed

Value: TypeAlias = "str | int | float | bool | list[Node] | dict[str, Node] | None"

_INTEGER_DIGITS_MAX = 4_000  # Python refuses integers of more than 4,300 digits
_MESSAGE_MAX = 1_000  # characters of a name in a path
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, eq=False)
class Source:
    """Hold a text and its name; an `inline` source (an option) has no lines to show."""

    name: str
    text: str = ""
    inline: bool = False

    @cached_property
    def lines(self) -> list[str]:
        """Return the lines, at least one, without their ends."""
        return self.text.split("\n")

    def line(self, number: int) -> str:
        """Return a line, counted from 0; behind the last one nothing."""
        return self.lines[number].rstrip("\r") if number < len(self.lines) else ""


_NO_KEYS: dict[str, Any] = {}  # shared by all nodes that are no maps: a dictionary costs more than a scalar


class Node:
    """Hold one value of a document with its place: text, number, boolean, null, a list or a map of nodes.

    A node with an anchor is at several places. Nodes never change: another value is another node.
    """

    __slots__ = ("column", "height", "keys", "line", "path", "size", "source", "value", "width")

    def __init__(self, value: Value, source: Source, line: int = 0, column: int = 0, width: int = 1) -> None:
        self.value = value
        self.source = source
        self.line, self.column, self.width = line, column, width  # from 0; the number of characters in the line
        self.keys = _NO_KEYS  # the nodes of a map's keys
        self.path = ""  # set by `walk`
        self.size, self.height = 1, 0  # of the expanded value

    def like(self, value: Value, keys: dict[str, Node] | None = None, path: str | None = None) -> Node:
        """Return a node with another value at the same place."""
        node = Node(value, self.source, self.line, self.column, self.width)
        node.keys = self.keys if keys is None else keys
        node.path = self.path if path is None else path
        return node

    def put(self, key: str, value: Node, mark: Node | None = None) -> Node:
        """Return a map with another value at a key; `mark` is the key's node."""
        return self.like(
            {**self.map, key: value}, {**self.keys, key: mark or self.keys.get(key) or value.like(key, {})}
        )

    def without(self, *keys: str) -> Node:
        """Return a map without some keys; the same node if it has none of them."""
        if not any(key in self.map for key in keys):
            return self
        entries = {key: value for key, value in self.map.items() if key not in keys}
        return self.like(entries, {key: mark for key, mark in self.keys.items() if key not in keys})

    @property
    def map(self) -> dict[str, Node]:
        """Return the entries of a map; of anything else an empty map."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[Node]:
        """Return the entries of a list; of anything else an empty list."""
        return self.value if isinstance(self.value, list) else []

    def get(self, key: str) -> Node | None:
        """Return the node at a key of a map; None if missing or null."""
        node = self.map.get(key)
        return None if node is None or node.value is None else node

    def entries(self, key: str) -> list[Node]:
        """Return the entries of the list at a key of a map; of anything else an empty list."""
        return self.map[key].items if key in self.map else []

    def text(self, key: str) -> str | None:
        """Return the text at a key of a map; None without text."""
        node = self.map.get(key)
        return node.value if node is not None and isinstance(node.value, str) else None

    def plain(self) -> Any:
        """Return the value as plain lists, maps and scalars, with new objects at every place."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def place(self) -> str:
        """Return `file:line:column`, lines and columns from 1."""
        return self.source.name if self.source.inline else f"{self.source.name}:{self.line + 1}:{self.column + 1}"

    @property
    def at(self) -> str:
        """Return place and path, as plans keep them."""
        return f"{self.place()}: {self.path}"

    def fault(
        self, message: str, severity: Literal["error", "warning", "note"] = "error", path: str | None = None
    ) -> Fault:
        """Return a fault at this node."""
        path = self.path if path is None else path
        if len(message) > _MESSAGE_MAX:
            message = message[: _MESSAGE_MAX - 3] + "..."
        if self.source.inline:
            return Fault(severity, self.source.name, 0, 0, path, message)
        text = self.source.line(self.line)
        return Fault(severity, self.source.name, self.line + 1, self.column + 1, path, message, text, self.width)

    def found(self) -> str:
        """Return the value in words, for the end of `expected ..., found ...`."""
        value = self.value
        if isinstance(value, str):
            return f"the text {value if len(value) <= 60 else value[:57] + '...'!r}"
        if value is None or isinstance(value, bool):
            return {None: "nothing", True: "true", False: "false"}[value]
        if isinstance(value, dict):
            return "a map"
        return "a list" if isinstance(value, list) else f"the number {value}"


_TAG = "tag:yaml.org,2002:"


def _integer(text: str) -> int:
    if len(text) > _INTEGER_DIGITS_MAX:
        raise ValueError(f"expected a number of at most {_INTEGER_DIGITS_MAX} digits, found {len(text)}")
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _float(text: str) -> float:
    return float(text.replace(".", "", 1) if text[-1] in "fFnN" else text)


CORE: dict[str, tuple[str, Callable[[str], Value]]] = {
    "null": ("~|null|Null|NULL|", lambda text: None),
    "bool": ("true|True|TRUE|false|False|FALSE", lambda text: text.lower() == "true"),
    "int": ("[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", _integer),
    "float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", _float),
}
"""The core schema of YAML 1.2.2, 10.3.2, in which `yes` is text: tag -> pattern of plain text, conversion."""
_CORE = {tag: re.compile(pattern) for tag, (pattern, _) in CORE.items()}


class _Stop(Exception):
    """End the composition: the rest of the text cannot be read."""


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is eight times as fast as the loader in Python


class _Composer:
    """Make nodes of the events of one document, within the bounds of `limits`; collect all faults."""

    def __init__(self, source: Source, text: str) -> None:
        self.source = source
        self.faults: list[Fault] = []
        self.spread: Any = None  # the last scalar of several lines: perhaps with a forgotten quote
        self._events = yaml.parse(text, Loader=_LOADER)
        self._anchors: dict[str, Node | None] = {}  # None while the anchored value is incomplete
        self._depth = self._values = self._collections = self._aliases = 0

    def document(self) -> Node | None:
        """Return the document's root, None without a document."""
        root, event = None, [next(self._events), next(self._events)][1]
        if isinstance(event, yaml.DocumentStartEvent):
            root = self._node(next(self._events))
            event = [next(self._events), next(self._events)][1]
        if not isinstance(event, yaml.StreamEndEvent):
            self._refuse(event, "expected one document in a file, found a second one")
        return root

    def _node(self, event: Any) -> Node:
        """Return the value that begins with an event; count the value before making it."""
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        node = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else self._collection(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _refuse(self, event: Any, message: str) -> NoReturn:
        """Record a fault and end the composition."""
        self.faults.append(self._at(None, event).fault(message))
        raise _Stop

    def _wrong(self, fault: Fault) -> None:
        """Record a fault and continue, unless there are enough faults."""
        self.faults.append(fault)
        if len(self.faults) >= limits.DOCUMENT_FAULTS:
            raise _Stop

    def _at_most(self, bound: int, words: str, found: int, event: Any) -> None:
        if found > bound:
            self._refuse(event, f"expected at most {bound} {words}")

    def _count(self, event: Any, values: int = 1, height: int = 0) -> None:
        """Count expanded values and levels before any value is made."""
        self._values += values
        words = "values with all aliases expanded, found more (limit document_nodes)"
        self._at_most(limits.DOCUMENT_NODES, words, self._values, event)
        self._at_most(limits.DOCUMENT_DEPTH, "levels, found more (limit document_depth)", self._depth + height, event)

    def _at(self, value: Value, event: Any) -> Node:
        """Return a node at the place of an event."""
        start, end = event.start_mark, event.end_mark
        width = end.column - start.column if start.line == end.line else 1
        return Node(value, self.source, start.line, start.column, max(1, width))

    def _alias(self, event: Any) -> Node:
        self._aliases += 1
        self._at_most(limits.DOCUMENT_ALIASES, "aliases (limit document_aliases)", self._aliases, event)
        if event.anchor not in self._anchors:
            self._refuse(event, f"the alias *{event.anchor} has no anchor &{event.anchor} before it")
        node = self._anchors[event.anchor]
        if node is None:
            self._refuse(event, f"the alias *{event.anchor} is inside its own anchor")
        self._count(event, node.size, node.height)
        return node

    def _scalar(self, event: Any) -> Node:
        """Return a scalar's node; a tag outside of the core schema, or unfit for the text, is a fault."""
        self._count(event)
        text = event.value
        if len(text) > limits.SCALAR_BYTES // 4:
            self._at_most(limits.SCALAR_BYTES, "bytes in one value (limit scalar_bytes)", len(text.encode()), event)
        if event.start_mark.line != event.end_mark.line:
            self.spread = event
        node = self._at(text, event)
        tag = None if event.tag in (None, "!") else event.tag.removeprefix(_TAG)
        if tag == "str" or (tag is None and not event.implicit[0]):
            return node
        if tag is not None and tag not in CORE:
            self._wrong(node.fault(_tag_refused(event.tag)))
            return node
        plain = next((known for known, pattern in _CORE.items() if pattern.fullmatch(text)), None)
        if tag not in (None, plain) and (tag, plain) != ("float", "int"):
            self._wrong(node.fault(f"expected a value of the tag !!{tag}, found {node.found()}"))
        elif plain is not None:
            try:
                value: Any = CORE[plain][1](text)
                node.value = float(value) if tag == "float" else value
            except (OverflowError, ValueError) as error:
                self._wrong(node.fault(str(error)))
                node.value = 0
        return node

    def _collection(self, event: Any) -> Node:
        """Return the node of a list or a map."""
        self._collections += 1
        words = "lists and maps, found more (limit document_collections)"
        self._at_most(limits.DOCUMENT_COLLECTIONS, words, self._collections, event)
        self._count(event, height=1)
        is_map = isinstance(event, yaml.MappingStartEvent)
        node = self._at(None, event)
        node.width = node.height = 1
        if event.tag not in (None, "!", _TAG + ("map" if is_map else "seq")):
            self._wrong(node.fault(_tag_refused(event.tag)))
        self._depth += 1
        if is_map:
            self._map(node)
        else:
            node.value = [self._part(node, inner) for inner in self._until(yaml.SequenceEndEvent)]
        self._depth -= 1
        return node

    def _until(self, end: type[Any]) -> Iterator[Any]:
        while not isinstance(event := next(self._events), end):
            yield event

    def _part(self, node: Node, event: Any) -> Node:
        """Return the part of a collection that begins with an event."""
        part = self._node(event)
        node.size += part.size
        node.height = max(node.height, 1 + part.height)
        return part

    def _map(self, node: Node) -> None:
        """Fill a map; a key that is no text, or repeated, is a fault."""
        entries: dict[str, Node] = {}
        node.value, node.keys, merges = entries, {}, False
        for event in self._until(yaml.MappingEndEvent):
            key = self._part(node, event)
            if isinstance(event, yaml.AliasEvent):
                key = self._at(key.value, event)  # at its use
            if not node.keys and (key.line, key.column) == (node.line, node.column):
                node.width = key.width  # a block map begins with its first key
            name = key.value
            if not isinstance(name, str):
                self._wrong(key.fault(f"expected text as a key, found {key.found()}; write it in quotes"))
            elif name in node.keys:
                first = node.keys[name].line + 1
                self._wrong(key.fault(f"duplicate key `{name}`, first given in line {first}"))
            else:
                node.keys[name] = key
                merges |= name == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]
            part = self._part(node, next(self._events))
            if isinstance(name, str) and node.keys[name] is key:
                entries[name] = part
        if merges:
            self._merge(node)

    def _merge(self, node: Node) -> None:
        """Replace `<<` by the entries of its maps; the map's own keys win, then earlier maps."""
        own, mark = node.map, node.keys.pop("<<")
        merged: dict[str, Node] = {}
        for part in own["<<"].items or [own["<<"]]:
            if not isinstance(part.value, dict):
                message = f"expected a map or a list of maps after <<, found {part.found()}"
                self._wrong(mark.fault(message))
                continue
            for key, value in part.map.items():
                if key not in own and key not in merged:
                    merged[key], node.keys[key] = value, part.keys[key]
        node.value = {}
        for key, value in own.items():  # document order: merged entries are at the place of `<<`
            node.value.update(merged if key == "<<" else {key: value})


def _tag_refused(tag: str) -> str:
    shown = "!!" + tag[len(_TAG) :] if tag.startswith(_TAG) else tag
    return f"the tag {shown} is refused: documents hold text, numbers, booleans, null, lists and maps only"


def compose(source: Source, text: str) -> tuple[Node | None, list[Fault]]:
    """Return the tree of a document and the faults of its YAML.

    The tree is None if the text cannot be read to its end. Faults are tags that would build objects, duplicate keys,
    keys that are no text, and values beyond the bounds of `limits` (counted before their expansion).
    """
    found = _UNPRINTABLE.search(text)
    if found:
        line, begin = text.count("\n", 0, found.start()), text.rfind("\n", 0, found.start()) + 1
        node = Node(None, source, line, found.start() - begin)
        return None, [node.fault(f"the character {found.group()!a} is not allowed in a document")]
    composer = _Composer(source, text)
    try:
        return composer.document(), composer.faults
    except _Stop:
        pass
    except yaml.MarkedYAMLError as error:
        composer.faults.append(_not_yaml(source, error, composer.spread))
    return None, composer.faults


_PARAMETER = re.compile(r"parameter '(\w+)'|\b(\w+)[`']?(?:: expected| is | must )")


def pointed(faults: Iterable[Fault], source: str, text: str) -> list[Fault]:
    """Return the faults that plugins find in a document, with its lines; one that names a parameter is at its key."""
    lines, root = text.split("\n"), None
    found = []
    for fault in faults:
        words = [one or other for one, other in _PARAMETER.findall(fault.message)]
        if words and fault.file == source:
            root = root or compose(Source(source, text), text)[0]
            key = None if root is None else _parameter(root, fault, words)
            if key is not None:
                path = f"{fault.path.removesuffix('.name')}.params.{key.value}"
                fault = replace(fault, line=key.line + 1, column=key.column + 1, width=key.width, path=path)
        found.append(placed(fault, source, lines))
    return found


def _parameter(root: Node, fault: Fault, words: list[str]) -> Node | None:
    """Return the key of the first of these parameters that the plugin at a fault is given; None without one."""
    rest = [root]
    while rest:
        node = rest.pop()
        name = node.map.get("name")
        if name is not None and (name.line + 1, name.column + 1) == (fault.line, fault.column):
            given = [part for child in node.map.values() for part in (child, *child.items)]
            return next((part.keys[word] for word in words for part in given if word in part.keys), None)
        rest += [*node.map.values(), *node.items]
    return None


def _not_yaml(source: Source, error: yaml.MarkedYAMLError, spread: Any) -> Fault:
    """Return the fault of a text that is not YAML, where its cause seems to be: a quote, a tab, a missing colon."""
    mark, context = error.problem_mark or error.context_mark, error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    said = ", ".join(part for part in (error.context, error.problem) if part)
    if error.context == "while scanning a quoted scalar" and context is not None:
        line, column, said = context.line, context.column, "the quote that is opened here is not closed"
    elif spread is not None and spread.style in ("'", '"') and spread.end_mark.line == line:
        said = f"the quote that is opened here is closed in line {line + 1} only, and behind it: {said}"
        line, column = spread.start_mark.line, spread.start_mark.column
    elif source.line(line)[column : column + 1] == "\t":
        said = "a tab; lines are indented by spaces alone"
    elif "mapping values" in said and ":" not in source.line(line)[:column] + source.line(line - 1) and line:
        line -= 1  # what should be a key goes on as text in the next line
        column = len(source.line(line)) - len(source.line(line).lstrip())
        said = "expected `key: value`, found no colon"
    elif line >= len(source.lines):  # libyaml counts one line too many for an end without a newline
        line = len(source.lines) - 1
        column = len(source.line(line))
    if error.context and context is not None and "a flow" in said and (context.line, context.column) < (line, column):
        said = said.replace(error.context, f"{error.context} that begins at {context.line + 1}:{context.column + 1}")
    return Node(None, source, line, column).fault(f"not YAML: {said}")
