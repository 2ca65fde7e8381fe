from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import AuthorError
from ganglion.peer.agent.decision import evaluated, signal_of
from ganglion.sdk import EvaluationResult, Signal


@pytest.mark.parametrize("found", [EvaluationResult([1.0]), {1: 1.0}, {"a": "x"}, {"a": float("nan")}])  # type: ignore[arg-type]
def test_other_metrics_are_refused(found: Any) -> None:
    """The message says where."""
    with pytest.raises(AuthorError, match="metrics"):
        evaluated(found)


def test_a_brain_wishes_up_to_the_end_of_the_phase() -> None:
    """The end of the run is nothing that a brain may wish for."""
    assert {"signal": "STOP_PHASE", "reason": "done"} == signal_of(Signal.STOP_PHASE, "done")
    with pytest.raises(AuthorError, match="up to STOP_PHASE, found SHUTDOWN"):
        signal_of(Signal.SHUTDOWN, "")
