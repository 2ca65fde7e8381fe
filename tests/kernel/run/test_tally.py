from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
