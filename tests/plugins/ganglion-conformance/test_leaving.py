from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion_conformance.bench import Order
from ganglion_conformance.kit import judge

TEXTS = {
    "beat.here": "BEAT: expected [8, .., 'here'], found verb 8, call ''",
    "errors.message": "ERROR to kit.sing: message: expected text, found ''",
    "errors.kind": "kit.dance: kind: expected 'unknown_call', found 'protocol'",
    "leave.bye": "expected BYE within 2 s, heard nothing",
    "leave.silent": "expected nothing after BYE, found BEAT",
    "leave.status": "expected exit status 0, found 3: ''",
}


@pytest.mark.parametrize("case", TEXTS)
def test_miss_is_told_in_a_sentence(case: str, puppet: Callable[[str], Any], order: Order) -> None:
    """What is wrong is said with what was expected and what was found."""
    (verdict,) = judge(puppet(case), order, [case]).verdicts

    assert TEXTS[case] == verdict.text
