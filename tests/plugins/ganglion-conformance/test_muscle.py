from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ganglion_conformance.bench import Order
from ganglion_conformance.drivers import PluginDriver
from ganglion_conformance.kit import judge


def test_rewards_that_the_brain_is_not_told_are_a_miss(puppet: Callable[[str], Any]) -> None:
    """A muscle whose first `brain.think` has no `reward_ids` fails in its first run, and so it does here."""
    order = Order(role="muscle", steps=100, deadline_s=0.05)
    (verdict,) = judge(puppet("brain.rewards"), order, ["brain.thinks"]).verdicts

    assert "the first brain.think: expected reward_ids, found None" == verdict.text


def test_our_own_muscle_conforms() -> None:
    """The random muscle keeps every clause that a plugin can be asked."""
    report = judge(PluginDriver("random"), Order(role="muscle", plugin="random", steps=50, curve=False))
    skipped = {v.case.name for v in report.verdicts if v.state == "skip"}

    assert report.conforms, "\n".join(report.lines())
    assert {"brain.joins", "brain.thinks", "large.reading", "leave.sigterm"} <= skipped
