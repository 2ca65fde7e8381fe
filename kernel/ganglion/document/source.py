"""The text of a document by lines, split only as far as a fault is to be shown."""

from __future__ import annotations

from typing import Self

__all__ = ["Source"]

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
