from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion_conformance.bench import Order
from ganglion_conformance.kit import judge

TEXTS = {
    "join.declares": "environment.start: sensors[1].id: 'place' is declared twice",
    "reset.before-start": "update before start: expected ERROR, found REPLY",
    "reset.same-seed": "the same seed again: `place` went from",
    "step.values": "update (episode 0, step 30): readings.place: expected a value of Box",
    "step.flags": "update (episode 0, step 1): terminated: expected a boolean, found 0",
    "step.simtime": "update (episode 0, step 2): ticks fell from 39 to 38",
    "step.few": "too few setpoints: expected ERROR, found REPLY",
    "repeat.same-answer": "update (episode 0, step 3) was executed twice: `place` went from",
    "repeat.new-serial": "3 updates with serials of their own: ticks [1, 1, 1], one was not executed",
    "errors.broken-body": "the body c1: expected ERROR, found REPLY",
    "large.steps": "update (episode 2, step",
}


@pytest.mark.parametrize("case", TEXTS)
def test_miss_is_told_in_a_sentence(case: str, puppet: Callable[[str], Any], order: Order) -> None:
    """What is wrong is said with what was expected and what was found, and in which step."""
    (verdict,) = judge(puppet(case), order, [case]).verdicts

    assert verdict.text.startswith(TEXTS[case]), verdict.text


def test_speed_is_measured_over_the_long_run(puppet: Callable[[str], Any], order: Order) -> None:
    """Median and 99th percentile of a round trip are told, and never judged."""
    report = judge(puppet(""), order, ["large.steps"])

    assert report.speed is not None
    assert 0.0 < report.speed[0] <= report.speed[1]
    assert order.steps <= report.speed[2]
