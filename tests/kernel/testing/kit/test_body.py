from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ganglion.testing.kit.bench import Bench, Order
from ganglion.testing.kit.body import DEAL, Body
from ganglion.testing.kit.case import Miss

ORDER = Order(role="muscle", deadline_s=0.05)


def test_readings_change_and_lie_in_their_spaces(puppet: Callable[[str], Any]) -> None:
    """What a muscle is given is contained in what was declared to it, and not always the same."""
    with Bench(puppet(""), ORDER) as bench:
        body = Body.set_up(bench)
        rows = []
        for body.decision in range(4):
            rows.append(body.readings())

        assert all(body.checks.row("sensors", row, "readings") == row for row in rows)
        assert 4 == len({tuple(row) for row in rows})


def test_brain_that_the_kit_plays_gives_a_policy(puppet: Callable[[str], Any]) -> None:
    """What the muscle asks of its brain is kept, and answered by named arrays of the right shape."""
    with Bench(puppet(""), ORDER) as bench:
        body = Body.set_up(bench)
        answered, blobs = body._think("brain.join", {"worker": 0})
        body._think("brain.dance", {})
        body._think("brain.think", {"worker": "no"})

        assert ["brain.join", "brain.join", "brain.dance", "brain.think"] == [
            call for call, _ in body.thoughts
        ]
        assert ([1, 3], [1], ()) == (
            answered["update"]["weights"]["shape"],
            answered["update"]["bias"]["shape"],
            blobs,
        )
        assert ["brain.dance: expected a call of a brain", "brain.think: thi"] == [
            text[:40].split("nk.w")[0] for text in body.wrong
        ]


def test_setpoints_that_do_not_fit_are_a_miss(puppet: Callable[[str], Any]) -> None:
    """An answer without a row of setpoints is told with the decision."""
    with Bench(puppet(""), ORDER) as bench:
        body = Body.set_up(bench)
        body.act()
        settled = body.act(decide=False)

        with pytest.raises(
            Miss, match=r"act \(episode 0, decision 2\): setpoints: expected a list of one row"
        ):
            body.setpoints(settled)
    assert {"sensors", "actuators", "rewards"} == set(DEAL)


def test_an_answer_is_a_miss_where_a_refusal_is_due(puppet: Callable[[str], Any]) -> None:
    """What has to be refused is followed by a call that is answered; what is carried out is told by its name."""
    with Bench(puppet(""), ORDER) as bench:
        body = Body.set_up(bench)
        body.refuses({"round": 0}, "no readings")

        assert 2 == body.decision
        with pytest.raises(Miss, match=r"all readings: expected ERROR, found REPLY"):
            body.refuses({"readings": [body.readings()]}, "all readings")
