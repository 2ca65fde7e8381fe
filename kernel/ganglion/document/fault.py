"""Faults and warnings of a document with their places, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ganglion.sdk.naming import nearest

_LINE_SHOWN_MAX = 160  # a longer line and its caret would wrap on a screen


@dataclass(frozen=True, slots=True)
class Fault:
    """Describe a fault or a warning at one place of a document."""

    severity: Literal["error", "warning", "note"]
    file: str
    line: int  # from 1; 0 for a place without lines (an option such as `--set`)
    column: int  # likewise
    path: str
    message: str
    text: str = ""  # the line of the document; `settle` ignores it and the width
    width: int = 1  # of the carets, characters

    @property
    def place(self) -> str:
        """Return `file:line:column`, or the file alone without a line."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def __str__(self) -> str:
        """Return the fault as printed: an error with its line and carets, a warning on one line."""
        if self.severity != "error":
            return f"{self.place}: {self.severity}: {_harmless(self.message)}"
        path = f"{self.path}: " if self.path else ""
        head = f"{self.place}: {_harmless(path + self.message)}"
        if not self.line or not self.text or self.column > _LINE_SHOWN_MAX:
            return head
        shown = _harmless(self.text[:_LINE_SHOWN_MAX])
        carets = "^" * max(1, min(self.width, _LINE_SHOWN_MAX - self.column + 1))
        return f"{head}\n{shown}\n{' ' * (self.column - 1)}{carets}"

    def to_map(self) -> dict[str, Any]:
        """Return the fault as plain values with stable keys."""
        keys = ("severity", "file", "line", "column", "path", "message")
        return {key: getattr(self, key) for key in keys}


def _harmless(text: str) -> str:
    """Return text with control characters replaced, each by one column."""
    return "".join(c if c.isprintable() else " " if c in "\t\n\r" else "�" for c in text)


def placed(fault: Fault, source: str, lines: Sequence[str]) -> Fault:
    """Return a fault with its line of the document; a fault of another file is returned unchanged."""
    if fault.file != source or not 0 < fault.line <= len(lines):
        return fault
    return replace(fault, text=lines[fault.line - 1].rstrip("\r"))


def settle(faults: Iterable[Fault]) -> list[Fault]:
    """Return the faults in order of place, each once."""
    once = {(f.severity, f.file, f.line, f.column, f.message): f for f in reversed(list(faults))}
    return sorted(once.values(), key=lambda f: (f.line == 0, f.file, f.line, f.column, f.path))


def summary(faults: Sequence[Fault]) -> str:
    """Return `2 errors, 1 warning` without zero counts, or `no faults`."""
    counts = [(sum(f.severity == kind for f in faults), kind) for kind in ("error", "warning")]
    return ", ".join(f"{n} {kind}{'s' * (n != 1)}" for n, kind in counts if n) or "no faults"


def report(faults: Sequence[Fault]) -> str:
    """Return all faults and their summary, as commands print them."""
    return "\n".join([*map(str, faults), summary(faults)])


def gathered(notes: Sequence[Fault]) -> str:
    """Return the notes on one document as a heading and a line for each; empty text without notes."""
    lines = [f"  {note.place}: {_harmless(note.message)}" for note in notes]
    head = [f"{notes[0].file}: note: {len(notes)} names and keys of another project:"] if notes else []
    return "\n".join([*head, *lines])


def unknown(kind: str, name: Any, known: Iterable[str]) -> str:
    """Return the text for an unknown name, with the nearest known one."""
    return f"there is no {kind} `{name}`{nearest(str(name), known)}"
