"""Graphs as text that other programs draw: Mermaid and DOT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

__all__ = ["FORMATS", "Graph"]

_MERMAID = {
    '"': "#quot;",
    "#": "#35;",
    "&": "#amp;",
    "<": "#lt;",
    ">": "#gt;",
    "`": "#96;",
    "\\": "#92;",
    "\n": "<br/>",
}
_DOT = {'"': '\\"', "\\": "\\\\", "\n": "\\n"}


@dataclass(slots=True)
class Graph:
    """Hold a directed graph: groups of nodes in order, and edges between nodes.

    Labels are any text, also of several lines; nodes are named by number, so that no label can be taken for a name.
    """

    groups: dict[str, list[int]] = field(default_factory=dict)  # a group without a title stands in no frame
    labels: list[str] = field(default_factory=list)
    edges: list[tuple[int, int, str, bool]] = field(default_factory=list)  # from, to, label, dotted

    def node(self, label: str, group: str = "") -> int:
        """Add a node; return its number."""
        self.labels.append(label)
        self.groups.setdefault(group, []).append(len(self.labels) - 1)
        return len(self.labels) - 1

    def edge(self, source: int, target: int, label: str = "", dotted: bool = False) -> None:
        """Add an edge; the same one twice is one."""
        if (source, target, label, dotted) not in self.edges:
            self.edges.append((source, target, label, dotted))


def _escaped(text: str, table: dict[str, str]) -> str:
    """Return a label for a quoted text; what cannot be printed is shown, not obeyed."""
    shown = (c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
    return "".join(table.get(c, c) for part in shown for c in part) or " "  # Mermaid takes no empty label


def _mermaid(graph: Graph) -> Iterator[str]:
    yield "flowchart LR"
    for number, (title, nodes) in enumerate(graph.groups.items()):
        indent = "    " if title else "  "
        if title:
            yield f'  subgraph g{number}["{_escaped(title, _MERMAID)}"]'
        for node in nodes:
            yield f'{indent}n{node}["{_escaped(graph.labels[node], _MERMAID)}"]'
        if title:
            yield "  end"
    for source, target, label, dotted in graph.edges:
        arrow = "-.->" if dotted else "-->"
        text = f'|"{_escaped(label, _MERMAID)}"|' if label else ""
        yield f"  n{source} {arrow}{text} n{target}"


def _dot(graph: Graph) -> Iterator[str]:
    yield "digraph ganglion {"
    yield "  rankdir=LR;"
    yield "  node [shape=box];"
    for number, (title, nodes) in enumerate(graph.groups.items()):
        indent = "    " if title else "  "
        if title:
            yield f"  subgraph cluster_{number} {{"
            yield f'    label="{_escaped(title, _DOT)}";'
        for node in nodes:
            yield f'{indent}n{node} [label="{_escaped(graph.labels[node], _DOT)}"];'
        if title:
            yield "  }"
    for source, target, label, dotted in graph.edges:
        parts = [f'label="{_escaped(label, _DOT)}"'] if label else []
        parts += ["style=dashed"] if dotted else []
        options = f" [{', '.join(parts)}]" if parts else ""
        yield f"  n{source} -> n{target}{options};"
    yield "}"


FORMATS: dict[str, Callable[[Graph], Iterator[str]]] = {"mermaid": _mermaid, "dot": _dot}
