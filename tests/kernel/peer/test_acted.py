from __future__ import annotations

import pytest

from ganglion.errors import CallFailed
from ganglion.peer.agent.decision import heard, setpoints_of
from ganglion.peer.step.layout import Cut, Layout
from ganglion.peer.worker.world import Actor
from ganglion.wire.messages import Acted

BOX = {"type": "box", "shape": [], "dtype": "<f8", "low": -2.0, "high": 2.0}
OPEN = {**BOX, "low": "-inf", "high": "inf"}
ACTUATORS = [{"id": "world.torque", "space": BOX}, {"id": "world.force", "space": OPEN}]

LAYOUT = Layout.of(ACTUATORS)


def _actor(program: bool = True, brain: str | None = "r/brain/ada") -> Actor:
    return Actor("ada", "r/muscle/ada/0", {"brain": brain}, Cut([], [], []), LAYOUT, [(0, 0), (0, 1)], program=program)


def test_answer_of_a_program_is_as_ours() -> None:
    """Integers become floats where floats are declared, also in what was proposed and in the objective."""
    answer = Acted([[1, 2.5]], [[-1, 0]], [3], {"signal": "RESET", "reason": "so"}, {"x": 1.0})
    (found,) = heard([_actor()], [answer])

    told = [None if field is None else LAYOUT.rows(field) for field in (found.setpoints, found.proposed)]
    assert "[[1.0, 2.5]] [[-1.0, 0.0]] [3.0]" == f"{told[0]} {told[1]} {found.objective}"
    assert (answer.signal, answer.statistics) == (found.signal, found.statistics)
    assert [1.0, 2.5] == LAYOUT.values(setpoints_of(_actor(), found), "setpoints")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Acted([[1.0]]), "setpoints: expected one row of 2 values, found 1 values"),
        (Acted([]), "setpoints: expected one row of 2 values, found 0 rows"),
        (Acted([7, 7]), "setpoints: expected one row of 2 values, found 2 rows"),
        (Acted([[3.0, 0.0]]), "setpoints.world.torque: expected a value of Box"),
        (Acted([["a", 0.0]]), "setpoints.world.torque"),
        (Acted([[0.0, float("inf")]]), "setpoints.world.force: expected a finite number"),
        (Acted(proposed=[[1.0]]), "proposed: expected one row of 2 values, found 1 values"),
        (Acted(objective=[]), "objective: expected a list of one finite number or nil, found []"),
        (Acted(objective=[True]), "objective: expected a list of one finite number or nil, found [True]"),
        (Acted(objective=[float("nan")]), "objective: expected a list of one finite number or nil"),
        (Acted(objective=[[1.0]]), "objective: expected a list of one finite number or nil, found [[1.0]]"),
        (Acted(signal={"signal": "SHUTDOWN"}), "signal: expected a signal up to STOP_PHASE"),
        (Acted(signal={"signal": 7}), "signal: expected a signal up to STOP_PHASE"),
        (Acted(signal={"signal": "RESET", "reason": 7}), "and a reason in text"),
        (Acted(excused=[{"hook": "x"}]), "excused: expected issuer, hook and reason as text"),
    ],
)
def test_what_cannot_be_taken_is_blamed_on_the_program(answer: Acted, text: str) -> None:
    """A wrong answer is an error of the muscle that gave it, and says what was expected and found."""
    with pytest.raises(CallFailed) as caught:
        heard([_actor()], [answer])

    assert text in str(caught.value)
    assert "r/muscle/ada/0" == caught.value.culprit


def test_wish_without_a_brain_is_refused() -> None:
    """Signals are wishes of a brain, which its muscle hands on: without one there is none."""
    with pytest.raises(CallFailed, match="there is no brain that could wish for it"):
        heard([_actor(brain=None)], [Acted(signal={"signal": "RESET"})])
