from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.cli.documents import FORMATS, Graph

MERMAID = re.compile(
    r'flowchart LR|  end|  subgraph g\d+\["[^"]*"\]|    ?n\d+\["[^"]*"\]|    n\d+\["[^"]*"\]'
    r'|  n\d+\["[^"]*"\]|  n\d+ -\.?->(\|"[^"]+"\|)? n\d+'
)
QUOTED = r'"(?:[^"\\\n]|\\.)*"'
DOT = re.compile(
    rf"digraph ganglion \{{|  rankdir=LR;|  node \[shape=box\];"
    rf"|  subgraph cluster_\d+ \{{|  \}}|\}}|    label={QUOTED};"
    rf"| {{2,4}}n\d+ \[label={QUOTED}\];|  n\d+ -> n\d+( \[(label={QUOTED})?(, )?(style=dashed)?\])?;"
)


def graph(*labels: str) -> Graph:
    """Return a graph with these labels everywhere."""
    found = Graph()
    nodes = [found.node(label, label if index % 2 else "") for index, label in enumerate(labels)]
    for index, (source, target) in enumerate(zip(nodes, nodes[1:] + nodes[:1], strict=True)):
        found.edge(source, target, labels[index], dotted=index % 2 == 0)
    return found


@pytest.mark.parametrize(("form", "line"), [("mermaid", MERMAID), ("dot", DOT)])
@given(labels=st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_any_label_stays_a_label(form: str, line: re.Pattern[str], labels: list[str]) -> None:
    """Whatever is in a uid: each line of the drawing has its form, and each node and edge is there."""
    drawn = graph(*labels)
    lines = "\n".join(FORMATS[form](drawn)).split("\n")

    assert [] == [text for text in lines if not line.fullmatch(text)]
    assert len(drawn.edges) == sum("->" in re.sub(r'"[^"]*"', "", text) for text in lines)
