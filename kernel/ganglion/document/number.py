"""Numbers that would mean something else to a program of another language: refused where they stand."""

from __future__ import annotations

from collections.abc import Iterator

from ganglion.document.fault import Fault
from ganglion.document.marks import Node
from ganglion.limits import DOCUMENT_FAULTS, INTEGER_MAX

__all__ = ["numbers"]


def numbers(root: Node) -> list[Fault]:
    """Return a fault for each integer that no double holds; `seed` may have any size, `x-` keys are ignored."""
    message = f"expected an integer of at most {INTEGER_MAX}, found a larger one; text may have any digits"
    found: list[Fault] = []
    for key, part in root.map.items():
        if key == "seed" or key.startswith("x-"):
            continue
        for node in _integers(part):
            if abs(node.value) > INTEGER_MAX and len(found) < DOCUMENT_FAULTS:  # type: ignore[arg-type]
                found.append(node.fault(message))
    return found


def _integers(node: Node) -> Iterator[Node]:
    parts = [node]
    while parts:
        node = parts.pop()
        value = node.value
        if type(value) is int:
            yield node
        elif isinstance(value, dict):
            parts.extend(value.values())
        elif isinstance(value, list):
            parts.extend(value)
