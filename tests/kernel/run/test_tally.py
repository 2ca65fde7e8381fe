from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ganglion.run.flow import Judgement, Tally
from ganglion.sdk.condition import PhaseView, TerminationCondition
from ganglion.sdk.flow import Signal
from ganglion.wire.messages import EpisodeEnded

S = Signal


def report(worker: int, episode: int = 0, **more: Any) -> EpisodeEnded:
    """Return the end of an episode."""
    given = {"agents": {}, "causes": [], "ended": [], "next": [], **more}
    return EpisodeEnded(worker, episode, 3, True, False, "terminated", **given)


class Spy(TerminationCondition):
    """Keep the views, answer what was given."""

    def __init__(self, answer: Signal | Mapping[int, Signal] = S.CONTINUE, reason: str = "") -> None:
        self.answer, self.reason = answer, reason
        self.views: list[PhaseView] = []

    def phase(self, view: PhaseView) -> Signal | Mapping[int, Signal]:
        """Answer what was given."""
        self.views.append(view)
        return self.answer


class EpisodeOnly(TerminationCondition):
    """Have no phase part."""

    def episode(self, view: Any) -> Signal:
        """Never end."""
        return S.CONTINUE


# (what is said as (worker, signal), the phase's signal, the workers')
SAYINGS = [
    ([], S.CONTINUE, {}),
    ([(None, S.CONTINUE), (0, S.CONTINUE)], S.CONTINUE, {}),
    ([(None, S.STOP_PHASE)], S.STOP_PHASE, {}),
    ([(None, S.STOP_PHASE), (None, S.SHUTDOWN)], S.SHUTDOWN, {}),
    ([(None, S.SHUTDOWN), (None, S.STOP_PHASE)], S.SHUTDOWN, {}),
    ([(0, S.RESET), (0, S.STOP_SIMULATION), (1, S.RESTART)], S.CONTINUE, {0: S.STOP_SIMULATION, 1: S.RESTART}),
    ([(1, S.STOP_PHASE)], S.STOP_PHASE, {}),
]


@pytest.mark.parametrize(("said", "phase", "workers"), SAYINGS)
def test_greatest_wins(said: list[tuple[int | None, Signal]], phase: Signal, workers: dict[int, Signal]) -> None:
    """The greatest signal for the phase and for each worker wins; all above CONTINUE are to be recorded."""
    judgement = Judgement()
    for worker, signal in said:
        judgement.say(worker, signal, "condition:x", "x")

    assert phase is judgement.phase
    assert workers == {worker: wish[0] for worker, wish in judgement.workers.items()}
    assert [row for row in said if row[1] > S.CONTINUE] == [row[:2] for row in judgement.issued]


def test_first_with_the_greatest_signal_gives_the_reason() -> None:
    """Of two equal signals the first one's issuer and reason count."""
    judgement = Judgement()
    for name in ("one", "two"):
        judgement.say(None, S.STOP_PHASE, f"condition:{name}", name)
        judgement.say(0, S.RESTART, f"condition:{name}", name)

    assert ("condition:one", "one") == (judgement.issuer, judgement.reason)
    assert (S.RESTART, "condition:one", "one") == judgement.workers[0]


def test_view_shows_what_is_counted(kit: Any) -> None:
    """The view has every worker's finished episodes, who is asked, who runs, what ended, and what fired."""
    spy = Spy()
    tally = Tally(kit.phase(workers=3, episodes=7), [("spy", spy), ("none", EpisodeOnly())])
    agents = {"ada": {"sum": 6.0, "mean": 2.0}, "bob": {"sum": 0.0, "mean": None}}
    first = report(
        0,
        agents=agents,
        ended=["hill"],
        causes=[
            {"signal": "RESET", "issuer": "condition:agent_objective", "reason": "agent_objective: ada"},
            {"signal": "RESET", "issuer": "operator", "reason": ""},
        ],
    )
    tally.count(first, False)
    tally.count(report(2, 0), True)
    tally.stop(1)
    tally.judge({2: report(2), 0: first})
    view = spy.views[0]

    assert (0, 2) == view.asked
    assert {"hill": True} == view.environments_ended
    assert 7 == view.episodes
    assert [True, False, True] == [worker.running for worker in view.workers]
    assert {"ada": 2.0} == view.workers[0].finished[0].means
    assert [(False, 3)], [(True, 3)] == [[(e.cut, e.steps) for e in view.workers[w].finished] for w in (0, 2)]
    assert {"agent_objective": "agent_objective: ada"} == view.workers[0].fired
    assert {} == view.workers[1].fired
    assert (2, [0, 2]) == (tally.episodes(), tally.active)


def test_conditions_are_asked_in_order(kit: Any) -> None:
    """Signals are issued in document order, those of one condition by worker; the word is issuer or name."""
    named = Spy({2: S.STOP_SIMULATION, 0: S.RESTART}, "r")
    named.issuer = "other"
    tally = Tally(kit.phase(workers=3), [("a", named), ("b", Spy(S.STOP_PHASE))])
    judgement = tally.judge({0: report(0)})

    assert judgement.issued == [
        (0, S.RESTART, "condition:other", "r"),
        (2, S.STOP_SIMULATION, "condition:other", "r"),
        (None, S.STOP_PHASE, "condition:b", "b"),
    ]


def test_causes_of_the_workers_count_without_being_recorded_twice(kit: Any) -> None:
    """A strong cause of an episode acts on the phase; it was recorded with the episode already."""
    causes = [
        {"signal": "STOP_PHASE", "issuer": "brain:ada", "reason": "done"},
        {"signal": "SHUTDOWN", "issuer": "operator", "reason": "", "known": True},
    ]
    judgement = Tally(kit.phase(), []).judge({0: report(0, causes=causes)})

    assert (S.STOP_PHASE, "brain:ada", "done", []) == (
        judgement.phase,
        judgement.issuer,
        judgement.reason,
        judgement.issued,
    )


def test_what_is_said_again_after_an_evaluation_is_not_issued_again(kit: Any) -> None:
    """A boundary that is judged twice has each wish once; what is new is issued, and the first condition counts."""
    late = Spy(S.CONTINUE)
    tally = Tally(kit.phase(), [("late", late), ("a", Spy(S.STOP_PHASE, "enough")), ("a", Spy(S.STOP_PHASE))])
    judgement = tally.judge({0: report(0)})
    first = list(judgement.issued)
    late.answer, late.reason = S.STOP_PHASE, "success"
    judgement = tally.judge({}, judgement)

    assert [(None, S.STOP_PHASE, "condition:a", "enough"), (None, S.STOP_PHASE, "condition:a", "a")] == first
    assert [(None, S.STOP_PHASE, "condition:late", "success")] == judgement.issued
    assert ("success", "condition:late") == (judgement.reason, judgement.issuer)
