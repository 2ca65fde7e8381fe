"""The check that needs the plugins: done in a child, so that no code of theirs runs where processes are started."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgpack

from ganglion.supervisor.advice import inspect
from ganglion.supervisor.connection import write_private

VARIABLE = "GANGLION_CHECK"  # the private folder through which plan and faults go
PLAN, FAULTS = "plan.msgpack", "faults.msgpack"


def write_plan(folder: Path, plan: dict[str, Any]) -> None:
    """Lay down the plan that the child is to check."""
    write_private(folder / PLAN, msgpack.packb(plan))


def read_faults(folder: Path) -> list[dict[str, Any]] | None:
    """Return what the child found and take both files away; None if it has ended without a word."""
    try:
        found: list[dict[str, Any]] = msgpack.unpackb((folder / FAULTS).read_bytes())
    except (OSError, ValueError):
        return None
    finally:
        for name in (PLAN, FAULTS):
            (folder / name).unlink(missing_ok=True)
    return found


def main(variables: dict[str, str]) -> int:
    """Check the plan that lies in the folder; be the child's process."""
    folder = Path(variables[VARIABLE])
    faults = inspect(msgpack.unpackb((folder / PLAN).read_bytes()))
    write_private(folder / FAULTS, msgpack.packb(faults))
    return 0


if __name__ == "__main__":
    sys.exit(main(dict(os.environ)))
