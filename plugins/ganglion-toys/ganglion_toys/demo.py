"""Demo: the document that `ganglion run` runs when it is given none."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DEMO"]

DEMO = Path(__file__).with_name("demo.yml")
"""Where the document lies; it is read like any other."""
