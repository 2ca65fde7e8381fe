from __future__ import annotations

import pytest

from ganglion.testing.kit.bench import Order
from ganglion.testing.kit.inmemory import PluginDriver
from ganglion.testing.kit.kit import judge


@pytest.mark.parametrize("name", ["pendulum", "dummy", "cartpole"])
def test_our_own_plugins_conform(name: str) -> None:
    """Environments of ours keep every clause that a plugin can be asked."""
    report = judge(PluginDriver(name), Order(plugin=name, steps=300, curve=False))
    skipped = {v.case.name for v in report.verdicts if v.state == "skip"}

    assert report.conforms, "\n".join(report.lines())
    assert {"leave.sigterm", "large.body", "secure.right-key", "secure.wrong-key"} <= skipped


def test_plugin_that_is_missing_does_not_conform() -> None:
    """A name that nobody has declared is told by the first answer."""
    report = judge(PluginDriver("no_such_plugin"), Order(plugin="no_such_plugin", steps=10, curve=False))
    verdict = next(v for v in report.verdicts if v.case.name == "join.declares")

    assert not report.conforms
    assert "no_such_plugin" in verdict.text
