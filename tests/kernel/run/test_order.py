from __future__ import annotations

from typing import Any

import pytest

from ganglion.run.flow import refusal
from ganglion.wire.messages import FlowSignal


@pytest.mark.parametrize(
    ("wish", "wanted", "text"),
    [
        (FlowSignal("DANCE", "operator", ""), None, "unknown signal 'DANCE'"),
        (FlowSignal("RESET", "operator", ""), "7", "the running phase is 0 (phase 0)"),
        (FlowSignal("RESET", "operator", "", worker=5), None, "no worker 5 is running; there are [0, 1]"),
        (FlowSignal("RESET", "operator", "", steps=2), None, "steps: expected CONTINUE for at least one"),
        (FlowSignal("CONTINUE", "operator", "", steps=0), None, "found CONTINUE for 0"),
    ],
)
def test_what_cannot_be_done_is_refused(kit: Any, wish: FlowSignal, wanted: str | None, text: str) -> None:
    """A signal, phase, worker or number that is not there is named."""
    assert text in refusal(wish, wanted, kit.phase(), [0, 1])


def test_what_can_be_done_is_not_refused(kit: Any) -> None:
    """An order for the running phase, by its index or name, is carried out."""
    for wanted in (None, "0", "phase 0"):
        assert "" == refusal(FlowSignal("RESET", "operator", "", worker=1), wanted, kit.phase(), [0, 1])
    assert "" == refusal(FlowSignal("CONTINUE", "operator", "", steps=1), None, kit.phase(), [0])
