from __future__ import annotations

import pytest

from ganglion.run.effect import failed, placed
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


@pytest.mark.parametrize(
    ("kind", "stepped", "faulty", "status"),
    [
        ("document", False, False, 2),
        ("plugin", False, False, 2),
        ("plugin", True, False, 1),
        ("author", False, False, 1),
        ("store", True, True, 2),
    ],
)
def test_who_is_to_blame_decides_the_exit_status(kind: str, stepped: bool, faulty: bool, status: int) -> None:
    """A fault of the document ends with 2, what happens while it is carried out with 1; one line is told."""
    finish = failed(Failure(kind, "first\nsecond"), "farm-1/brain/ada", stepped, faulty)

    assert ("failed", "failed: first", status) == (finish.status, finish.reason, finish.exit_status)
    assert "farm-1/brain/ada" == finish.peer
