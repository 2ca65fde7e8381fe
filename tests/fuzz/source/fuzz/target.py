"""Target: one reader of bytes from elsewhere, with what is said to it to begin with and the words of its language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """Hold a reader as a function of bytes.

    `read` returns for every input: the errors that the reader declares are caught in it, and what it promises beside
    is asserted. Whatever comes out of it is a finding. `bytes_max` bounds what is made for it. `bombs` are inputs that
    want to be much more work than their size says; they are read as they are.
    """

    name: str
    read: Callable[[bytes], None]
    seeds: Sequence[bytes]
    words: Sequence[bytes] = field(default=())
    bytes_max: int = 64 * 1024
    bombs: Sequence[bytes] = field(default=())
