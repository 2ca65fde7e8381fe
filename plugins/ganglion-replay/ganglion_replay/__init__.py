"""Replay: brains learn from recorded episodes before their muscles act; pools of episodes for any program.

A public name is loaded at its first use.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganglion.peer.agent.replay import Learner, Lesson, Recordings
    from ganglion.run.plan import Plan
    from ganglion.wire.messages import BrainPretrain
    from ganglion_replay.files import Exported as Exported
    from ganglion_replay.files import ImportedSessions as ImportedSessions
    from ganglion_replay.files import RecordingInvalid as RecordingInvalid
    from ganglion_replay.files import export_sessions as export_sessions
    from ganglion_replay.files import import_sessions as import_sessions
    from ganglion_replay.files import rlds_view as rlds_view
    from ganglion_replay.limiter import RateLimiter as RateLimiter
    from ganglion_replay.pool import PoolEmpty as PoolEmpty
    from ganglion_replay.pool import PoolMismatch as PoolMismatch
    from ganglion_replay.pool import PoolShort as PoolShort
    from ganglion_replay.pool import PoolTimeout as PoolTimeout
    from ganglion_replay.pool import ReplayEnd as ReplayEnd
    from ganglion_replay.pool import ReplayError as ReplayError
    from ganglion_replay.pool import SessionBatchEnvironment as SessionBatchEnvironment
    from ganglion_replay.pool import SessionPoolEnvironment as SessionPoolEnvironment
    from ganglion_replay.stored import StoredSessions as StoredSessions
    from ganglion_replay.stored import sessions as sessions
    from ganglion_replay.table import PoolTable as PoolTable
    from ganglion_replay.targets import ReplayedSessions as ReplayedSessions
    from ganglion_replay.targets import n_step_targets as n_step_targets
    from ganglion_replay.targets import replay_sessions as replay_sessions

_HOME = {
    "files": [
        *("Exported", "ImportedSessions", "RecordingInvalid"),
        *("export_sessions", "import_sessions", "rlds_view"),
    ],
    "limiter": ["RateLimiter"],
    "pool": [
        *("PoolEmpty", "PoolMismatch", "PoolShort", "PoolTimeout", "ReplayEnd", "ReplayError"),
        *("SessionBatchEnvironment", "SessionPoolEnvironment"),
    ],
    "stored": ["StoredSessions", "sessions"],
    "table": ["PoolTable"],
    "targets": ["ReplayedSessions", "n_step_targets", "replay_sessions"],
}


def __getattr__(name: str) -> Any:
    """Load a public name."""
    home = next((home for home, names in _HOME.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


class Recorded:
    """Carry out the key `replay` of documents, with the rows of stores as recordings."""

    @staticmethod
    def recordings(plan: Plan, run: str, results: str, store: str | None, warn: Callable[[str], None]) -> Recordings:
        """Return the object that finds and keeps the recordings of a run, in the governor's process."""
        from ganglion_replay.recordings import Recordings as Found

        return Found(plan, run, results, store, warn)

    @staticmethod
    def faults(plan: Plan, store: str | None) -> list[tuple[str, str]]:
        """Return place and text of each fault of a plan's sources, before anything is started."""
        from ganglion_replay.copies import faults

        return list(faults(plan, store))

    @staticmethod
    def lesson(asked: BrainPretrain, learner: Learner) -> Lesson:
        """Return the episodes of one request for a brain, in the brain's process."""
        from ganglion_replay.pretraining import Pretraining
        from ganglion_replay.rehearsal import Rehearsal

        if learner.filters is not None:
            asked = Rehearsal(learner).play(asked)
        return Pretraining(asked, learner)
