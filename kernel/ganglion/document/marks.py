"""YAML with marks: nodes that know their file, line and column."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NoReturn, TypeAlias

import yaml

from ganglion.document.fault import Fault
from ganglion.limits import (
    DOCUMENT_ALIASES,
    DOCUMENT_COLLECTIONS,
    DOCUMENT_DEPTH,
    DOCUMENT_FAULTS,
    DOCUMENT_NODES,
    SCALAR_BYTES,
)

Value: TypeAlias = "str | int | float | bool | list[Node] | dict[str, Node] | None"

_INTEGER_DIGITS_MAX = 4_000  # Python refuses to read more than 4,300 digits; a seed of 4,000 is large enough
_MESSAGE_MAX = 1_000  # characters: a name of megabytes says no more than its beginning
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


_NO_KEYS: dict[str, Any] = {}  # shared by all that are no maps: a dictionary for each scalar would cost more than it


class Node:
    """Hold one value of a document with its place: text, number, boolean, null, a list or a map of nodes.

    `keys` holds the nodes of a map's keys. `line` and `column` count from 0 and are those of the value's begin, `width`
    is how many characters of that line belong to it. `path` names the place in words; it is set by who walks the tree.
    `size` and `height` are those of the expanded value. A node with an anchor stands at several places: it is never
    changed, who needs another value makes another node.
    """

    __slots__ = ("column", "height", "keys", "line", "path", "size", "source", "value", "width")

    def __init__(self, value: Value, source: Source, line: int = 0, column: int = 0, width: int = 1) -> None:
        self.value = value
        self.source = source
        self.line = line
        self.column = column
        self.width = width
        self.keys = _NO_KEYS
        self.path = ""
        self.size = 1
        self.height = 0

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
        """Return a map without some keys; the same node where it has none of them."""
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
        """Return what stands at a key of a map, None where that is nothing, or null."""
        node = self.map.get(key)
        return None if node is None or node.value is None else node

    def entries(self, key: str) -> list[Node]:
        """Return the entries of the list at a key of a map; of anything else an empty list."""
        return self.map[key].items if key in self.map else []

    def text(self, key: str) -> str | None:
        """Return the text at a key of a map, None if there is none."""
        node = self.map.get(key)
        return node.value if node is not None and isinstance(node.value, str) else None

    def plain(self) -> Any:
        """Return the value as plain lists, maps and scalars; every place gets objects of its own."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def place(self) -> str:
        """Return `file:line:column`, lines and columns from 1."""
        return self.source.name if self.source.inline else f"{self.source.name}:{self.line + 1}:{self.column + 1}"

    def fault(
        self, message: str, severity: Literal["error", "warning", "note"] = "error", path: str | None = None
    ) -> Fault:
        """Return a fault that lies at this node."""
        path = self.path if path is None else path
        if len(message) > _MESSAGE_MAX:
            message = message[: _MESSAGE_MAX - 3] + "..."
        if self.source.inline:
            return Fault(severity, self.source.name, 0, 0, path, message)
        text = self.source.line(self.line)
        return Fault(severity, self.source.name, self.line + 1, self.column + 1, path, message, text, self.width)

    def found(self) -> str:
        """Return what stands here in words, for the end of `expected ..., found ...`."""
        value = self.value
        if isinstance(value, str):
            return f"the text {value if len(value) <= 60 else value[:57] + '...'!r}"
        if value is None or isinstance(value, bool):
            return {None: "nothing", True: "true", False: "false"}[value]
        if isinstance(value, dict):
            return "a map"
        return "a list" if isinstance(value, list) else f"the number {value}"


def node_of(value: Any, source: Source) -> Node:
    """Return plain lists, maps with text keys and scalars as a tree without places of its own."""
    if isinstance(value, dict):
        node = Node({key: node_of(part, source) for key, part in value.items()}, source)
        node.keys = {key: Node(key, source) for key in value}
        return node
    if isinstance(value, list):
        return Node([node_of(part, source) for part in value], source)
    return Node(value, source)


_TAG = "tag:yaml.org,2002:"


def _integer(text: str) -> int:
    if len(text) > _INTEGER_DIGITS_MAX:
        raise ValueError(f"expected a number of at most {_INTEGER_DIGITS_MAX} digits, found {len(text)}")
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _float(text: str) -> float:
    return float(text.replace(".", "", 1) if text[-1] in "fFnN" else text)


CORE: dict[str, tuple[str, str, Callable[[str], Value]]] = {
    _TAG + "null": (r"(~|null|Null|NULL|)\Z", "~nN", lambda text: None),
    _TAG + "bool": (r"(true|True|TRUE|false|False|FALSE)\Z", "tTfF", lambda text: text.lower() == "true"),
    _TAG + "int": (r"([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z", "-+0123456789", _integer),
    _TAG + "float": (
        r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z",
        "-+.0123456789",
        _float,
    ),
}
"""The core schema of YAML 1.2.2, 10.3.2, where `yes` is text: tag -> what plain text matches, its begin, its value."""


def core_resolvers(kind: Any) -> None:
    """Let a loader or dumper class of PyYAML take plain text for what it is in the core schema."""
    for tag, (pattern, begins, _) in CORE.items():
        kind.add_implicit_resolver(tag, re.compile(pattern), [*begins, *([""] if tag == _TAG + "null" else [])])


class _Stop(Exception):
    """End the composition: what follows cannot be read soundly."""


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is eight times as fast as the loader in Python
_COMPOSER: Any = yaml.composer.Composer  # its hints know nodes of its own only


class _Composer(_LOADER, _COMPOSER):  # type: ignore[misc]  # chosen at run time
    """Compose one document as PyYAML does: of our nodes, within the bounds of `limits`, with all faults."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's name and form; those of YAML 1.1 go

    def __init__(self, source: Source, text: str) -> None:
        super().__init__(text)
        _COMPOSER.__init__(self)
        self.source = source
        self.faults: list[Fault] = []
        self.spread: Any = None  # the last scalar of several lines: perhaps a quote was forgotten
        self._depth = self._values = self._collections = self._aliases = 0

    def document(self) -> Node | None:
        """Return the document's root, None where there is no document."""
        self.get_event()
        root = None if self.check_event(yaml.StreamEndEvent) else self.compose_document()
        if not self.check_event(yaml.StreamEndEvent):
            self._refuse(self.get_event(), "expected one document in a file, found a second one")
        return root

    def compose_node(self, parent: Any, index: Any) -> Node:
        """Return the next value; it is counted before it is made."""
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            node = self._alias(self.get_event())
        elif isinstance(event, yaml.ScalarEvent):
            self._count(event)
            node = self._scalar(event, self._compose(parent, index, event).tag)
        else:
            self._collections += 1
            self._at_most(
                DOCUMENT_COLLECTIONS,
                "lists and maps, found more (limit document_collections)",
                self._collections,
                event,
            )
            self._count(event, height=1)
            self._depth += 1
            node = self._collection(event, self._compose(parent, index, event))
            self._depth -= 1
        if not isinstance(event, yaml.AliasEvent) and event.anchor is not None:
            self.anchors[event.anchor] = node
        return self._key(event, parent, node) if index is None and isinstance(parent, yaml.MappingNode) else node

    def _compose(self, parent: Any, index: Any, event: Any) -> Any:
        self.anchors.pop(event.anchor, None)  # PyYAML takes no anchor twice
        return super().compose_node(parent, index)

    def _refuse(self, event: Any, message: str) -> NoReturn:
        """Record a fault and end the composition."""
        self.faults.append(self._at(None, event).fault(message))
        raise _Stop

    def _wrong(self, fault: Fault) -> None:
        """Record a fault after which the composition goes on, unless there are enough."""
        self.faults.append(fault)
        if len(self.faults) >= DOCUMENT_FAULTS:
            raise _Stop

    def _at_most(self, bound: int, words: str, found: int, event: Any) -> None:
        if found > bound:
            self._refuse(event, f"expected at most {bound} {words}")

    def _count(self, event: Any, values: int = 1, height: int = 0) -> None:
        """Charge expanded values, before any of them is made, and the levels that they reach."""
        self._values += values
        words = "values with all aliases expanded, found more (limit document_nodes)"
        self._at_most(DOCUMENT_NODES, words, self._values, event)
        self._at_most(DOCUMENT_DEPTH, "levels, found more (limit document_depth)", self._depth + height, event)

    def _at(self, value: Value, event: Any) -> Node:
        """Return a node at the place of an event."""
        start, end = event.start_mark, event.end_mark
        width = end.column - start.column if start.line == end.line else 1
        return Node(value, self.source, start.line, start.column, max(1, width))

    def _alias(self, event: Any) -> Node:
        self._aliases += 1
        self._at_most(DOCUMENT_ALIASES, "aliases (limit document_aliases)", self._aliases, event)
        if event.anchor not in self.anchors:
            self._refuse(event, f"the alias *{event.anchor} has no anchor &{event.anchor} before it")
        node = self.anchors[event.anchor]
        if not isinstance(node, Node):
            self._refuse(event, f"the alias *{event.anchor} stands inside its own anchor")
        self._count(event, node.size, node.height)
        return node

    def _scalar(self, event: Any, tag: str) -> Node:
        """Return a scalar's node; a tag that is not of the core schema, or does not fit the text, is a fault."""
        text = event.value
        if len(text) > SCALAR_BYTES // 4:
            self._at_most(SCALAR_BYTES, "bytes in one value (limit scalar_bytes)", len(text.encode()), event)
        if event.start_mark.line != event.end_mark.line:
            self.spread = event
        node = self._at(text, event)
        if tag == _TAG + "str":
            return node
        if tag not in CORE:
            self._wrong(node.fault(_tag_refused(tag)))
            return node
        plain = self.resolve(yaml.ScalarNode, text, (True, False))
        if tag != plain and (tag, plain) != (_TAG + "float", _TAG + "int"):
            self._wrong(node.fault(f"expected what the tag !!{tag[len(_TAG) :]} says, found {node.found()}"))
            return node
        try:
            value: Any = CORE[plain][2](text)
            node.value = value if tag == plain else float(value)
        except (OverflowError, ValueError) as error:
            self._wrong(node.fault(str(error)))
            node.value = 0
        return node

    def _collection(self, event: Any, found: Any) -> Node:
        """Return the node of a list or a map that PyYAML has put together."""
        is_map = isinstance(event, yaml.MappingStartEvent)
        node = self._at(found.value, event)
        node.width = 1
        if event.tag not in (None, "!", _TAG + ("map" if is_map else "seq")):
            self._wrong(node.fault(_tag_refused(event.tag)))
        inner = [part for pair in found.value for part in pair] if is_map else found.value
        node.size += sum(part.size for part in inner)
        node.height = 1 + max((part.height for part in inner), default=0)
        if not is_map:
            return node
        node.keys = keys = vars(found).get("keys", {})
        node.value = {k.value: part for k, part in found.value if isinstance(k.value, str) and keys[k.value] is k}
        if inner and (inner[0].line, inner[0].column) == (node.line, node.column):
            node.width = inner[0].width  # a block map begins with its first key
        if "merges" in vars(found):
            self._merge(node)
        return node

    def _key(self, event: Any, parent: Any, node: Node) -> Node:
        """Take a key of a map; keys are text, and none comes twice."""
        keys: dict[str, Node] = vars(parent).setdefault("keys", {})
        if isinstance(event, yaml.AliasEvent):
            node = self._at(node.value, event)  # where it is used
        if not isinstance(node.value, str):
            self._wrong(node.fault(f"expected text as a key, found {node.found()}; write it in quotes"))
        elif node.value in keys:
            first = keys[node.value].line + 1
            self._wrong(node.fault(f"duplicate key `{node.value}`, first given in line {first}"))
        else:
            keys[node.value] = node
            if node.value == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
                parent.merges = True
        return node

    def _merge(self, node: Node) -> None:
        """Replace `<<` by the entries of what it names: keys of the map itself win, then earlier maps."""
        own, mark = node.map, node.keys["<<"]
        merged: dict[str, Node] = {}
        keys: dict[str, Node] = {}
        for part in own["<<"].items or [own["<<"]]:
            if not isinstance(part.value, dict):
                message = f"expected a map or a list of maps after <<, found {part.found()}"
                self._wrong(mark.fault(message))
                continue
            for key, value in part.map.items():
                if key not in own and key not in merged:
                    merged[key], keys[key] = value, part.keys[key]
        node.value, places = {}, node.keys
        for key, value in own.items():  # document order: what is merged stands where `<<` stood
            node.value.update(merged if key == "<<" else {key: value})
        del places["<<"]
        node.keys = {**places, **keys}


def _tag_refused(tag: str) -> str:
    shown = "!!" + tag[len(_TAG) :] if tag.startswith(_TAG) else tag
    return f"the tag {shown} is refused: documents hold text, numbers, booleans, null, lists and maps only"


core_resolvers(_Composer)


def compose(source: Source, text: str) -> tuple[Node | None, list[Fault]]:
    """Return the tree of a document and what is wrong with its YAML.

    The tree is None where the text cannot be read to its end. Tags that would build objects, duplicate keys, keys that
    are not text, and everything beyond the bounds of `limits` (counted before it is expanded) are faults.
    """
    found = _UNPRINTABLE.search(text)
    if found:
        line, begin = text.count("\n", 0, found.start()), text.rfind("\n", 0, found.start()) + 1
        node = Node(None, source, line, found.start() - begin)
        return None, [node.fault(f"the character {found.group()!a} may not stand in a document")]
    composer = _Composer(source, text)
    try:
        return composer.document(), composer.faults
    except _Stop:
        pass
    except yaml.MarkedYAMLError as error:
        composer.faults.append(_not_yaml(source, error, composer.spread))
    return None, composer.faults


def _not_yaml(source: Source, error: yaml.MarkedYAMLError, spread: Any) -> Fault:
    """Return the fault of a text that cannot be read on, at the quote that seems not to be closed if there is one."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    said = ", ".join(part for part in (error.context, error.problem) if part)
    if error.context == "while scanning a quoted scalar" and error.context_mark is not None:
        opened, how = error.context_mark, "is not closed"
    elif spread is not None and spread.style in ("'", '"') and spread.end_mark.line == line:
        opened, how = spread.start_mark, f"is closed in line {line + 1} only, and behind it: {said}"
    else:
        if line >= len(source.lines):  # libyaml counts a line behind an end without a newline
            line = len(source.lines) - 1
            column = len(source.line(line))
        return Node(None, source, line, column).fault(f"not YAML: {said}")
    return Node(None, source, opened.line, opened.column).fault(f"not YAML: the quote that is opened here {how}")
