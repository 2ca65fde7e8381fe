"""Census: who lives for a run, in a file that outlives its supervisor.

Incarnations are in it before the process starts that bears them: whoever goes on with the run gives out higher ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ganglion.errors import StoreError
from ganglion.synced import write_synced

__all__ = [
    "CENSUS",
    "Census",
    "End",
    "Life",
    "boot_id",
    "forget",
    "life_of",
    "lives",
    "read_census",
    "write_census",
]

CENSUS = "state.json"
"""The file, below the folder of a run."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Life:
    """One name: its newest incarnation, and the process of it.

    `pid` is None before it was started; `started` is when, in ticks since the machine began: the number of a process
    that has ended is given again.
    """

    incarnation: int
    pid: int | None = None
    started: int | None = None


@dataclass(frozen=True, slots=True)
class End:
    """Say how a run has ended, as its manifest will: status, reason, heads of its chains if it has a store."""

    status: str
    reason: str
    heads: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Census:
    """Hold who lives for a run: its present phase, whether its governor was told to begin, each name of it.

    `stopping` says that the run has been interrupted: from then on episodes end otherwise than they would have.
    `signals` are those of operators, with the phase that took each: a phase that begins again has not heard them.
    `ended` is there from when the governor knows that its word about the end was heard: it does not say it again.
    `boot` names the time since the machine began; empty where the system does not tell.
    """

    boot: str
    supervisor: Life
    phase: int = 0
    begun: bool = False
    stopping: bool = False
    lives: Mapping[str, Life] = field(default_factory=dict)
    signals: Sequence[tuple[int, str]] = ()
    ended: End | None = None


def boot_id() -> str:
    """Return what names the time since this machine began, empty where the system does not tell."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def life_of(incarnation: int, pid: int | None) -> Life:
    """Return an incarnation with its process, if it has one."""
    return Life(incarnation, pid, None if pid is None else _started(pid))


def lives(life: Life) -> bool:
    """Say whether the process of an incarnation is still there; only where the machine has not begun anew."""
    if life.pid is None:
        return False
    try:
        os.kill(life.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's, and there
    return _started(life.pid) == life.started


def write_census(folder: Path, census: Census) -> None:
    """Write it into a run's folder, synced; OSError if that cannot be done."""
    write_synced(folder / CENSUS, json.dumps(asdict(census), indent=1).encode(), 0o600)


def read_census(folder: Path) -> Census | None:
    """Return what is in a run's folder, None if there is none; StoreError if it cannot be read."""
    path = folder / CENSUS
    try:
        tree = json.loads(path.read_bytes())
        known = {name: Life(**life) for name, life in tree["lives"].items()}
        signals = tuple((int(phase), str(signal)) for phase, signal in tree["signals"])
        ended = None if tree.get("ended") is None else End(**tree["ended"])
        return Census(
            **{
                **tree,
                "supervisor": Life(**tree["supervisor"]),
                "lives": known,
                "signals": signals,
                "ended": ended,
            }
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path}: cannot be read: {type(error).__name__}: {error}") from error


def forget(folder: Path) -> None:
    """Remove what only a run that goes on needs: census and tapes."""
    (folder / CENSUS).unlink(missing_ok=True)
    shutil.rmtree(folder / "tapes", ignore_errors=True)
    for tape in folder.glob("users/*/*.tape"):
        with contextlib.suppress(OSError):
            tape.unlink()


def _started(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else int(fields[19])  # ended, and nobody has taken note of it yet
    except (OSError, IndexError, ValueError):
        return None
