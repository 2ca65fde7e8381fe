from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion_conformance.bench import Order
from ganglion_conformance.kit import judge

TEXTS = {
    "join.hello": "HELLO.name: expected 'kit/environment/peer/0', found bin, not str",
    "join.speaks": "HELLO: expected the empty name in its first frame, found b'kernel'",
    "join.refused": "after ERROR version in place of WELCOME: expected an exit status that is not zero, found 0",
    "join.second": "the second: expected it to end with a status that is not zero",
    "secure.wrong-key": "expected it to stay outside, found that it spoke in spite of the wrong key",
    "leave.gone": "expected an exit status that is not zero, found 0",
    "leave.sigterm": "expected it to end within 2 s, it is still there",
}


@pytest.mark.parametrize("case", TEXTS)
def test_miss_is_told_in_a_sentence(case: str, puppet: Callable[[str], Any], order: Order) -> None:
    """What is wrong is said with what was expected and what was found."""
    (verdict,) = judge(puppet(case), order, [case]).verdicts

    assert TEXTS[case] == verdict.text


def test_curve_is_not_asked_of_who_has_none(puppet: Callable[[str], Any]) -> None:
    """Without CURVE two cases are skipped, and the peer may conform."""
    report = judge(puppet(""), Order(steps=10, deadline_s=0.05, curve=False), ["secure"])

    assert ["ok", "skip", "skip"] == [v.state for v in report.verdicts]
    assert report.conforms
