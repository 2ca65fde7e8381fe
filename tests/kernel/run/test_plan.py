from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.limits import DEADLINES_S, RESTARTS_PER_NAME
from ganglion.run.plan import FAIL, ON_LOSS, RECOVER, RESTART, Recovery, span_s, widest

SPANS = st.none() | st.floats(0.1, 500.0)
TABLES = st.lists(st.dictionaries(st.sampled_from(["act", "think", "update"]), SPANS), min_size=1, max_size=4)


def test_what_nobody_says() -> None:
    """Without a word of a document the built-in numbers hold, and one constant says what a loss means."""
    assert Recovery().on_loss == ON_LOSS
    assert ON_LOSS in (RECOVER, RESTART, FAIL)
    assert Recovery().restarts_max == RESTARTS_PER_NAME


@given(tables=TABLES, call=st.sampled_from(["muscle.act", "brain.think", "environment.update", "x.other"]))
def test_who_waits_for_all_waits_for_the_slowest(tables: list[dict[str, float | None]], call: str) -> None:
    """No call ends later by one of the tables than by all together, and by one table alone it ends as that says."""
    spans_s = [span_s(call, table) for table in tables]
    whole_s = span_s(call, widest(tables))

    assert whole_s is None or all(span is not None and span <= whole_s for span in spans_s)
    assert all(span_s(call, widest([table])) == span_s(call, table) for table in tables)


@pytest.mark.parametrize("word", ["act", "attach"])
def test_the_built_in_number_takes_part(word: str) -> None:
    """A table that says nothing of a call allows the built-in time, and so do all together."""
    assert DEADLINES_S[word] == widest([{word: 0.5}, {}])[word]
