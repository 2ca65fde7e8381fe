"""All targets, by name."""

from __future__ import annotations

from fuzz import bus, files, texts
from fuzz.target import Target

TARGETS: dict[str, Target] = {target.name: target for target in (*bus.TARGETS, *files.TARGETS, *texts.TARGETS)}
