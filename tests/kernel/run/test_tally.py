from __future__ import annotations

from typing import Any

from ganglion.run.flow import Judgement, Tally
from ganglion.sdk.flow import Signal
from ganglion.wire.messages import EpisodeEnded

S = Signal


def report(worker: int, episode: int = 0, **more: Any) -> EpisodeEnded:
    """Return the end of an episode."""
    given = {"agents": {}, "causes": [], "ended": [], "next": [], **more}
    return EpisodeEnded(worker, episode, 3, True, False, "terminated", **given)


def test_first_with_the_greatest_signal_gives_the_reason() -> None:
    """Of two equal signals the first one's issuer and reason count."""
    judgement = Judgement()
    for name in ("one", "two"):
        judgement.say(None, S.STOP_PHASE, f"condition:{name}", name)
        judgement.say(0, S.RESTART, f"condition:{name}", name)

    assert ("condition:one", "one") == (judgement.issuer, judgement.reason)
    assert (S.RESTART, "condition:one", "one") == judgement.workers[0]


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
