from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ganglion.limits import ANSWERS_PER_CALLER, PEERS
from ganglion.supervisor.bus import Answers


def test_a_question_is_carried_out_once() -> None:
    """A question that comes again while it is carried out is dropped; later it is answered from memory."""
    answers = Answers()

    assert answers.begin("r/governor", 7, "kernel.need") is None
    assert [] == answers.begin("r/governor", 7, "kernel.need")
    assert answers.begin("r/governor", 7, "kernel.ended") is None
    assert answers.begin("r2/governor", 7, "kernel.need") is None
    answers.end("r/governor", 7, "kernel.need", [b"done"])
    assert [b"done"] == answers.begin("r/governor", 7, "kernel.need")
    assert [] == answers.begin("r2/governor", 7, "kernel.need")


def test_numbers_that_others_get_are_forgotten() -> None:
    """Whoever bears an operator's number next is not answered what the first one asked, not even later."""
    answers = Answers()
    for caller in ("operator/1", "operator/2", "r/governor"):
        answers.begin(caller, 2, "kernel.stop")
    answers.end("operator/1", 2, "kernel.stop", [b"1"])
    answers.forget(("operator/", "observer/"))
    answers.end("operator/2", 2, "kernel.stop", [b"2"])
    answers.end("r/governor", 2, "kernel.stop", [b"3"])

    assert [None, None, [b"3"]] == [
        answers.begin(caller, 2, "kernel.stop") for caller in ("operator/1", "operator/2", "r/governor")
    ]


@given(st.lists(st.tuples(st.integers(0, 2 * PEERS), st.integers(1, 9)), max_size=60))
def test_the_last_answers_are_remembered(asked: list[tuple[int, int]]) -> None:
    """The last four answers of each caller are known; memory has a bound in callers, too."""
    answers, last = Answers(), dict[str, list[int]]()
    for number, serial in asked:
        caller = f"r{number}/governor"
        if answers.begin(caller, serial, "c") is None:
            answers.end(caller, serial, "c", [bytes([serial])])
            last[caller] = [*last.get(caller, []), serial][-ANSWERS_PER_CALLER:]
    for caller, serials in last.items():
        assert [[bytes([serial])] for serial in serials] == [answers.begin(caller, s, "c") for s in serials]


def test_callers_are_bounded() -> None:
    """The caller that was answered longest ago is forgotten first."""
    answers = Answers()
    for number in range(PEERS + 1):
        answers.begin(f"operator/{number}", 1, "c")
        answers.end(f"operator/{number}", 1, "c", [b"x"])

    assert answers.begin("operator/0", 1, "c") is None
    assert [b"x"] == answers.begin("operator/1", 1, "c")
