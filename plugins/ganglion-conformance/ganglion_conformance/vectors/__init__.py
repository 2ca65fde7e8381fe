"""Vectors of the protocol: every kind of message in hex with its meaning, one session, and what must be refused.

One JSON line each, in `v<protocol>/`: `messages.jsonl`, `session.jsonl`, `refused.jsonl`. They are for programs in any
language: decode, compare with `meaning`, encode, compare with `frames`. The program
`python -m ganglion_conformance.vectors --write` makes them from the code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
NAMES = ("messages", "session", "refused")


def read(name: str, version: int = 1) -> list[dict[str, Any]]:
    """Return the vectors of a file, in order."""
    path = FOLDER / f"v{version}" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]
