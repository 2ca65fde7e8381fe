"""YAML with marks: nodes that know their file, line and column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, Self, TypeAlias

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

_AHEAD = 1_024  # lines that are split at first; a text may be a million of them, and have one fault


class Source:
    """Hold a text and its name; an `inline` one (an option) has no lines to show."""

    __slots__ = ("_lines", "_split", "_text", "inline", "name")

    def __init__(self, name: str, text: str = "", inline: bool = False) -> None:
        self.name = name
        self.inline = inline
        self._text = text
        self._lines: list[str] = []
        self._split = 0  # so many lines are split; what stands behind them in the list is the rest

    @classmethod
    def of(cls, name: str, text: str) -> Self:
        """Return the source of a file's text."""
        return cls(name, text)

    @property
    def count(self) -> int:
        """Return how many lines there are, at least one."""
        return self._text.count("\n") + 1

    def line(self, number: int) -> str:
        """Return a line, counted from 0, without its end; behind the last one nothing."""
        if number >= self._split:
            self._split = max(_AHEAD, 2 * number)
            self._lines = self._text.split("\n", self._split)
        return self._lines[number].rstrip("\r") if number < len(self._lines) else ""


Value: TypeAlias = "str | int | float | bool | list[Node] | dict[str, Node] | None"

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is eight times as fast; both give the same events

# YAML 1.2.2, 10.3.2: the core schema, in which `yes`, `on` and `12:30` are text
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE, _FALSE = frozenset({"true", "True", "TRUE"}), frozenset({"false", "False", "FALSE"})
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_NUMBER_BEGINS = frozenset("+-.0123456789")
_INTEGER_DIGITS_MAX = 4_000  # Python refuses to read more than 4,300 digits; a seed of 4,000 is large enough

_TAG = "tag:yaml.org,2002:"
_KINDS: dict[str, tuple[type, ...]] = {
    _TAG + "int": (int,),
    _TAG + "float": (float, int),
    _TAG + "bool": (bool,),
    _TAG + "null": (type(None),),
}
_TEXT_TAGS = (None, "!", _TAG + "str")
_WORDS = _NULL | _TRUE | _FALSE
_SHORT = SCALAR_BYTES // 4  # characters, which UTF-8 makes at most four bytes each
_DIVIDERS = ",:-?[{"  # no value begins without one of these before it, but the document itself
_VALUES_PER_DIVIDER = 3  # `[:,:]`: a colon can stand for a map with an empty key and an empty value
_MESSAGE_MAX = 1_000  # characters: a name of megabytes says no more than its beginning
_IN_QUOTES = "while scanning a quoted scalar"
_BEGINS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_ENDS = (yaml.MappingEndEvent, yaml.SequenceEndEvent)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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

    def like(self, value: Value, keys: dict[str, Node] | None = None) -> Node:
        """Return a node with another value at the same place."""
        node = Node(value, self.source, self.line, self.column, self.width)
        node.keys = self.keys if keys is None else keys
        node.path = self.path
        return node

    @property
    def map(self) -> dict[str, Node]:
        """Return the entries of a map; of anything else an empty map."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[Node]:
        """Return the entries of a list; of anything else an empty list."""
        return self.value if isinstance(self.value, list) else []

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


def core_scalar(text: str) -> str | int | float | bool | None:
    """Return what a plain scalar means in the core schema of YAML 1.2.

    Raises:
        ValueError: an integer of more than 4,000 digits.
    """
    if text in _NULL:
        return None
    if text[0] not in _NUMBER_BEGINS:
        return True if text in _TRUE else False if text in _FALSE else text
    if _INTEGER.match(text):
        if len(text) > _INTEGER_DIGITS_MAX:
            raise ValueError(f"expected a number of at most {_INTEGER_DIGITS_MAX} digits, found {len(text)}")
        return int(text)
    if _BASED.match(text):
        return int(text, 0)
    if _FLOAT.match(text):
        return float(text)
    return float(text.replace(".", "", 1)) if _SPECIAL.match(text) else text


class _Stop(Exception):
    """End the composition: what follows cannot be read soundly."""


class _Open:
    """Hold a collection whose end has not come yet."""

    __slots__ = ("anchor", "height", "items", "key", "merges", "node", "repeated", "size")

    def __init__(self, node: Node, anchor: str | None) -> None:
        self.node = node
        self.items = node.value if isinstance(node.value, list) else None  # None: a map
        self.anchor = anchor
        self.key: Node | None = None
        self.merges = False
        self.repeated = False  # the key at hand is faulty: its value is read and left out
        self.size = 1
        self.height = 0


class _Composer:
    """Build the tree from the events of one document."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.faults: list[Fault] = []
        self.anchors: dict[str, Node | None] = {}
        self.open: list[_Open] = []
        self.root: Node | None = None
        self.documents = 0
        self.aliases = 0
        self.collections = 0
        self.expanded = 0
        self.spread: Any = None  # the last scalar of several lines: perhaps a quote was forgotten

    def run(self, text: str) -> Node | None:
        """Return the document's root, None where a fault leaves no tree."""
        found = _UNPRINTABLE.search(text)
        if found:
            line, column = _position(text, found.start())
            self._stop(line, column, 1, f"the character {found.group()!a} may not stand in a document")
        if _VALUES_PER_DIVIDER * sum(map(text.count, _DIVIDERS)) > DOCUMENT_NODES:
            self._weigh(text)
        take: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
            yaml.MappingStartEvent: self._begin,
            yaml.SequenceStartEvent: self._begin,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
            yaml.DocumentStartEvent: self._document,
        }
        for event in _events(text):
            step = take.get(type(event))
            if step is not None:
                step(event)
        return self.root

    def _weigh(self, text: str) -> None:
        """Refuse too many, too deep and too long values before any is made: a node costs three times its event."""
        nodes = depth = collections = 0
        try:
            for event in _events(text):
                kind = type(event)
                if kind is yaml.ScalarEvent:
                    if len(event.value) > _SHORT:
                        self._long(event)
                elif kind in _ENDS:
                    depth -= 1
                    continue
                elif kind in _BEGINS:
                    depth += 1
                    collections += 1
                    if depth > DOCUMENT_DEPTH:
                        self._deep(event, depth)
                    if collections > DOCUMENT_COLLECTIONS:
                        self._too_many_collections(event)
                elif kind is yaml.AliasEvent:
                    self._alias_counted(event)
                else:
                    if kind is yaml.DocumentStartEvent:
                        self._document(event)
                    continue
                nodes += 1
                if nodes > DOCUMENT_NODES:
                    self._count(event, nodes)
        except yaml.MarkedYAMLError:
            pass  # said once, after what is wrong before it
        self.documents = self.aliases = 0  # counted again with what they stand for

    def _too_many_collections(self, event: Any) -> None:
        self._refuse(
            event, f"expected at most {DOCUMENT_COLLECTIONS} lists and maps, found more (limit document_collections)"
        )

    def _stop(self, line: int, column: int, width: int, message: str) -> None:
        """Record a fault at a place and end the composition."""
        self.faults.append(Node(None, self.source, line, column, width).fault(message))
        raise _Stop

    def _wrong(self, fault: Fault) -> None:
        """Record a fault after which the composition goes on, unless there are enough."""
        self.faults.append(fault)
        if len(self.faults) >= DOCUMENT_FAULTS:
            raise _Stop

    def _refuse(self, event: Any, message: str) -> None:
        self._stop(event.start_mark.line, event.start_mark.column, _width(event), message)

    def _document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            self._refuse(event, "expected one document in a file, found a second one")

    def _count(self, event: Any, nodes: int) -> None:
        """Charge expanded nodes, before any of them is made."""
        self.expanded += nodes
        if self.expanded > DOCUMENT_NODES:
            self._refuse(
                event,
                f"expected at most {DOCUMENT_NODES} values with all aliases expanded, found more "
                "(limit document_nodes)",
            )

    def _deep(self, event: Any, height: int) -> None:
        if len(self.open) + height > DOCUMENT_DEPTH:
            self._refuse(event, f"expected at most {DOCUMENT_DEPTH} levels, found more (limit document_depth)")

    def _scalar(self, event: Any) -> None:
        self.expanded += 1  # as `_count` does, whose call would be a fifth of the time that a scalar takes
        if self.expanded > DOCUMENT_NODES:
            self._count(event, 0)
        text = event.value
        if len(text) > _SHORT:
            self._long(event)
        start, end = event.start_mark, event.end_mark
        line, column = start.line, start.column
        width = end.column - column
        if end.line != line:
            width, self.spread = 1, event
        node = Node(text, self.source, line, column, width or 1)
        if event.implicit[0]:
            if not (text.isalpha() and text not in _WORDS):
                node.value = self._resolve(event, node)
        elif event.tag not in _TEXT_TAGS:
            node.value = self._resolve(event, node)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        self._add(event, node)

    def _long(self, event: Any) -> None:
        if len(event.value) > _SHORT and len(event.value.encode()) > SCALAR_BYTES:
            self._refuse(event, f"expected at most {SCALAR_BYTES} bytes in one value (limit scalar_bytes)")

    def _resolve(self, event: Any, node: Node) -> Value:
        """Return what a plain or tagged scalar means; a tag that is not of the core schema is a fault."""
        tag = None if event.implicit[0] else event.tag
        if tag is not None and tag not in _KINDS:
            self._wrong(node.fault(_tag_refused(tag)))
            return event.value  # type: ignore[no-any-return]  # events carry no types
        try:
            value = core_scalar(event.value)
        except ValueError as error:
            self._wrong(node.fault(str(error)))
            return 0
        if tag is not None and type(value) not in _KINDS[tag]:
            self._wrong(node.fault(f"expected what the tag !!{tag[len(_TAG) :]} says, found {node.found()}"))
        elif tag == _TAG + "float" and isinstance(value, int):
            return float(value)
        return value

    def _alias_counted(self, event: Any) -> None:
        self.aliases += 1
        if self.aliases > DOCUMENT_ALIASES:
            self._refuse(event, f"expected at most {DOCUMENT_ALIASES} aliases (limit document_aliases)")

    def _alias(self, event: Any) -> None:
        self._alias_counted(event)
        if event.anchor not in self.anchors:
            self._refuse(event, f"the alias *{event.anchor} has no anchor &{event.anchor} before it")
        node = self.anchors[event.anchor]
        if node is None:
            self._refuse(event, f"the alias *{event.anchor} stands inside its own anchor")
        assert node is not None
        self._count(event, node.size)
        self._deep(event, node.height)
        self._add(event, node)

    def _begin(self, event: Any) -> None:
        self.collections += 1
        if self.collections > DOCUMENT_COLLECTIONS:
            self._too_many_collections(event)
        self._count(event, 1)
        self._deep(event, 1)
        is_map = type(event) is yaml.MappingStartEvent
        start = event.start_mark
        node = Node({} if is_map else [], self.source, start.line, start.column)
        if is_map:
            node.keys = {}
        if event.tag not in (None, "!", _TAG + ("map" if is_map else "seq")):
            self._wrong(node.fault(_tag_refused(event.tag)))
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.open.append(_Open(node, event.anchor))

    def _end(self, event: Any) -> None:
        done = self.open.pop()
        node = done.node
        node.size, node.height = done.size, done.height + 1
        if done.merges:
            self._merge(node)
        if done.anchor is not None:
            self.anchors[done.anchor] = node
        self._add(event, node)

    def _add(self, event: Any, node: Node) -> None:
        """Put a complete node where it belongs."""
        if not self.open:
            self.root = node
            return
        parent = self.open[-1]
        parent.size += node.size
        if node.height > parent.height:
            parent.height = node.height
        if parent.items is not None:
            parent.items.append(node)
        elif parent.key is None:
            self._key(event, parent, node)
        else:
            if not parent.repeated:
                parent.node.map[str(parent.key.value)] = node
            parent.key = None

    def _key(self, event: Any, parent: _Open, node: Node) -> None:
        """Take a key of a map; keys are text, and none comes twice."""
        start = event.start_mark if type(event) is yaml.AliasEvent else None
        if start is not None:  # an alias as a key: its place is where it is used
            node = Node(node.value, self.source, start.line, start.column, _width(event))
        parent.key, parent.repeated = node, True
        if not isinstance(node.value, str):
            self._wrong(node.fault(f"expected text as a key, found {node.found()}; write it in quotes"))
            parent.key = Node("", self.source)
        elif node.value in parent.node.keys:
            first = parent.node.keys[node.value].line + 1
            self._wrong(node.fault(f"duplicate key `{node.value}`, first given in line {first}"))
        else:
            parent.repeated = False
            parent.node.keys[node.value] = node
            parent.merges |= node.value == "<<" and getattr(event, "implicit", (False,))[0]
        if not parent.node.map and not parent.node.width > 1:
            if (node.line, node.column) == (parent.node.line, parent.node.column):
                parent.node.width = node.width  # a block map begins with its first key

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


def _events(text: str) -> Iterator[Any]:
    return iter(_LOADER(text).get_event, None)


def _tag_refused(tag: str) -> str:
    shown = "!!" + tag[len(_TAG) :] if tag.startswith(_TAG) else tag
    return f"the tag {shown} is refused: documents hold text, numbers, booleans, null, lists and maps only"


def _width(event: Any) -> int:
    """Return how many characters of its first line an event covers."""
    start, end = event.start_mark, event.end_mark
    return max(1, end.column - start.column) if start.line == end.line else 1


def _position(text: str, index: int) -> tuple[int, int]:
    line = text.count("\n", 0, index)
    return line, index - (text.rfind("\n", 0, index) + 1)


def compose(source: Source, text: str) -> tuple[Node | None, list[Fault]]:
    """Return the tree of a document and what is wrong with its YAML.

    The tree is None where the text cannot be read to its end. Tags that would build objects, duplicate keys, keys that
    are not text, and everything beyond the bounds of `limits` (counted before it is expanded) are faults.
    """
    composer = _Composer(source)
    try:
        root = composer.run(text)
    except _Stop:
        root = None
    except yaml.MarkedYAMLError as error:
        root = None
        composer.faults.append(_not_yaml(source, error, composer.spread))
    return root, composer.faults


def _not_yaml(source: Source, error: yaml.MarkedYAMLError, spread: Any) -> Fault:
    """Return the fault of a text that cannot be read on, at the quote that seems not to be closed if there is one."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    said = ", ".join(part for part in (error.context, error.problem) if part)
    if error.context == _IN_QUOTES and error.context_mark is not None:
        opened, how = error.context_mark, "is not closed"
    elif spread is not None and spread.style in ("'", '"') and spread.end_mark.line == line:
        opened, how = spread.start_mark, f"is closed in line {line + 1} only, and behind it: {said}"
    else:
        if line >= source.count:  # libyaml counts a line behind an end without a newline
            line = source.count - 1
            column = len(source.line(line))
        return Node(None, source, line, column).fault(f"not YAML: {said}")
    return Node(None, source, opened.line, opened.column).fault(f"not YAML: the quote that is opened here {how}")
