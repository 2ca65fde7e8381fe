from __future__ import annotations

from ganglion.testing.kit.kit import cases_of


def test_muscles_have_the_cases_of_every_role() -> None:
    """How a peer joins and leaves is asked of muscles, too."""
    assert {"join", "leave", "secure"} <= {case.group for case in cases_of("muscle")}
