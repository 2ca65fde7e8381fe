"""Failures of a run: where a worker's has happened, and how the run ends by one."""

from __future__ import annotations

from ganglion.run.effect import Finish
from ganglion.wire.messages import Failure, WorkerFailed

__all__ = ["failed", "placed"]

_NOTHING_STARTED = ("document", "plugin", "usage")  # kinds of failure that a faulty document explains


def placed(report: WorkerFailed) -> Failure:
    """Return the failure of a worker, with the step at which it has happened."""
    kind = "evaluation worker" if report.evaluation else "worker"
    place = f"{kind} {report.worker}, episode {report.episode}, step {report.step}"
    failure, where = report.failure, report.failure.where or ""
    return Failure(
        failure.kind,
        failure.message,
        f"{where} ({place})" if where else place,
        failure.traceback,
        data=failure.data,
    )


def failed(failure: Failure, peer: str | None, stepped: bool, faulty: bool) -> Finish:
    """Return how a run ends by a failure of `peer`.

    Its exit status is 2 where the document is to blame: it asks for what is not there (`faulty`), or what it says has
    failed before any episode has `stepped`.
    """
    first = failure.message.splitlines()[0] if failure.message else ""
    early = failure.kind in _NOTHING_STARTED and not stepped
    return Finish("failed", f"failed: {first}", 2 if early or faulty else 1, failure, peer)
