from __future__ import annotations

from ganglion.run.effect import placed
from ganglion.wire.messages import Failure, WorkerFailed


def test_a_failure_of_a_worker_says_where() -> None:
    """Worker, episode and step stand behind the place that the failure names itself."""
    report = WorkerFailed(1, 2, 3, Failure("author", "it broke", "plant.py:4", "Traceback", data={"n": 1}))
    found = placed(report)

    assert ("author", "it broke", "plant.py:4 (worker 1, episode 2, step 3)") == (
        found.kind,
        found.message,
        found.where,
    )
    assert ("Traceback", {"n": 1}) == (found.traceback, found.data)
    assert (
        "evaluation worker 1, episode 2, step 3"
        == placed(WorkerFailed(1, 2, 3, Failure("author", "it broke"), evaluation=True)).where
    )
