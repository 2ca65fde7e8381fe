from __future__ import annotations

from ganglion.run.effect import record_of


def test_an_excuse_is_a_row_of_signals() -> None:
    """It is a CONTINUE of the part, with the exception as its reason; the hook is beside it."""
    excuse = {"issuer": "muscle:a", "hook": "update", "reason": "ValueError: no"}

    assert ["signal", 2, 1, 3, 4, "CONTINUE", "muscle:a", "ValueError: no", {"hook": "update"}, 7, 0] == record_of(
        excuse, 2, (1, 3, 4), (7, 0)
    )
    assert {"hook": "update", "mode": "evaluate"} == record_of(excuse, 2, (1, 3, 4), (7, 0), "evaluate")[8]
