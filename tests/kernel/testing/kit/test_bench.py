from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ganglion.testing.kit.bench import Bench, Order
from ganglion.testing.kit.case import Skip


def test_session_is_shared_until_it_is_spoilt(puppet: Callable[[str], Any], order: Order) -> None:
    """Cases share one life of the peer; a lost one is replaced, and one that has started where none may have."""
    driver = puppet("")
    with Bench(driver, order) as bench:
        first = bench.session()
        assert first is bench.session() is bench.session(newborn=True)
        first.started = True
        second = bench.session(newborn=True)
        bench.spoil()

        assert first is not second is not bench.session()
        assert 3 == driver.starts


def test_what_a_case_opens_is_closed_behind_it(puppet: Callable[[str], Any], order: Order) -> None:
    """A fresh session ends when the case is tidied up, and its errors are kept for the report."""
    with Bench(puppet(""), order) as bench:
        session = bench.fresh()
        session.ask("kit.dance", {})
        bench.tidy()

        assert session.peer.ended(0.0) is not None
        assert ["kit.dance"] == [error["call"] for error in bench.seen]


def test_peer_that_cannot_be_started_again_is_not(puppet: Callable[[str], Any], order: Order) -> None:
    """Where somebody else starts the peer, a second life is a reason to skip."""
    driver = puppet("")
    driver.again = False
    with Bench(driver, order) as bench:
        bench.session()

        with pytest.raises(Skip, match="would have to be started again"):
            bench.fresh()


def test_a_long_run_ends_by_its_steps_or_its_time(puppet: Callable[[str], Any], order: Order) -> None:
    """As many steps are taken as were ordered, none without time; median, percentile and number are noted."""
    spans_s = [99.0]  # of what was asked before
    with Bench(puppet(""), order) as bench:
        taken = bench.endure(lambda: spans_s.append(1e-6 * len(spans_s)), spans_s)

        assert order.steps == taken == len(spans_s)
        assert (
            pytest.approx(0.5 * (taken - 1)),
            pytest.approx(int(0.99 * (taken - 1))),
            taken,
        ) == bench.notes["speed"]
    with Bench(puppet(""), replace(order, long_s=0.0)) as bench:
        assert 0 == bench.endure(lambda: None, spans_s)
        assert "speed" not in bench.notes
