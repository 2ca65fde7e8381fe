from __future__ import annotations

from typing import Any

import pytest

from ganglion.run.effect import Answer
from ganglion.run.flow import Flow
from ganglion.sdk.condition import PhaseView, TerminationCondition
from ganglion.sdk.flow import Signal
from ganglion.wire.messages import Boundary, EpisodeEnded, FlowSignal


class Seeds:
    """Give worker and episode as seeds."""

    def episode_seeds(self, phase: Any, worker: int, episode: int) -> dict[str, Any]:
        """Return one environment's seed."""
        return {"hill": {"seed": 100 * worker + episode, "stream": b""}}


class Named(TerminationCondition):
    """Be a condition of some name."""


class Local(TerminationCondition):
    """Judge each worker by that worker alone."""

    local = frozenset({"episode", "phase"})


class LocalEpisode(TerminationCondition):
    """Judge episodes by their worker alone, and phases by all."""

    local = frozenset({"episode"})


class Overridden(Local):
    """Judge a phase anew, and do not say that it is by one worker alone."""

    def phase(self, view: PhaseView) -> Signal:
        """Go on."""
        return Signal.CONTINUE


def flow_of(kit: Any, conditions: Any = (), agents: Any = ("ada",), **more: Any) -> Flow:
    """Return a flow whose workers have begun."""
    flow = Flow("farm-1", kit.phase(**more), list(conditions), Seeds())
    flow.begin(list(agents))
    return flow


def common(kit: Any, workers: int, conditions: Any = ()) -> Flow:
    """Return a flow with a common boundary and one agent."""
    phase = kit.phase(workers=workers, mode="train", agents=[kit.agent(brain="dummy")])
    flow = Flow("farm-1", phase, list(conditions), Seeds())
    flow.begin(["ada"])
    return flow


def stand(flow: Flow, worker: int, following: list[str] | None = None, causes: Any = ()) -> list[Any]:
    """Let a worker stand at the boundary."""
    names = ["ada"] if following is None else following
    return flow.boundary(f"stand {worker}", Boundary(worker, 1, 1, bool(causes), names, list(causes)))


def answers(effects: list[Any]) -> list[tuple[Any, Any]]:
    """Return whom is answered what."""
    return [(e.token, e.message) for e in effects if isinstance(e, Answer)]


COMMON = [
    ({"workers": 1, "mode": "train", "brain": "dummy"}, [], False),
    ({"workers": 2, "mode": "train", "brain": "dummy"}, [], True),
    ({"workers": 2, "mode": "train", "brain": "dummy", "sync": "pipelined"}, [], True),
    ({"workers": 2, "mode": "train", "brain": "dummy", "sync": "async"}, [], False),
    ({"workers": 2, "mode": "train", "brain": None}, [], False),
    ({"workers": 2, "mode": "test", "brain": "dummy"}, [], False),
    ({"workers": 2}, [(Local, "phase"), (Local, "episode")], False),
    ({"workers": 2}, [(LocalEpisode, "episode")], False),
    ({"workers": 2}, [(LocalEpisode, "phase")], True),
    ({"workers": 2}, [(Local, "episode"), (Named, "episode")], True),
    ({"workers": 2}, [(Overridden, "phase")], True),
    ({"workers": 2}, [(Named, "phase")], True),
    ({"workers": 1}, [(Named, "phase")], False),
]


@pytest.mark.parametrize(("more", "conditions", "expected"), COMMON)
def test_common_boundary_where_the_outcome_could_depend_on_speed(
    kit: Any, more: dict[str, Any], conditions: list[tuple[type[TerminationCondition], str]], expected: bool
) -> None:
    """Workers stand together unless nothing can depend on which is faster, as each condition says of its parts."""
    given = {**more, "agents": [kit.agent(brain=more.get("brain"))]}
    given.pop("brain", None)
    flow = Flow("farm-1", kit.phase(**given), [(cls.__name__, cls(), place) for cls, place in conditions], Seeds())

    assert expected is flow.common


def test_pause_of_one_worker_makes_all_wait(kit: Any) -> None:
    """A PAUSE that a brain asks for holds the round until CONTINUE; then the round goes on, and so does the next."""
    flow = common(kit, 2)
    wish = {"signal": "PAUSE", "issuer": "brain:ada", "reason": ""}

    def both(causes: Any = ()) -> list[Any]:
        reports = [Boundary(w, 1, 1, False, ["ada"], list(causes) if w == 1 else []) for w in (0, 1)]
        return [effect for report in reports for effect in flow.boundary(f"stand {report.worker}", report)]

    held = both([wish])
    released = answers(flow.steer(FlowSignal("CONTINUE", "operator")))
    following = answers(both())

    assert [] == held
    assert [1, 1] == [go.round for _, go in released]
    assert [2, 2] == [go.round for _, go in following]
    assert [] == both([wish])


# -- lost episodes ----------------------------------------------------------------------------------------------------
def lose(flow: Flow, worker: int, episode: int = 0, round_: int = 1) -> list[Any]:
    """Let a worker say that its episode is lost."""
    reason = "lost: environment hill"
    ended = (worker, episode, 2, False, True, reason, {}, [], [], ["ada"], None, round_, False, True)
    return flow.episode(f"lost {worker}", EpisodeEnded(*ended))


def test_without_common_boundary_a_loss_is_nobody_elses_matter(kit: Any) -> None:
    """The worker goes on at once; conditions do not hear of it."""
    flow = flow_of(kit, [("max_episodes", kit.FakeLimit(1), "phase")], workers=2)
    [answer] = [e for e in lose(flow, 1) if isinstance(e, Answer)]

    assert ("RESTART", 1) == (answer.message.signal, answer.message.episode)


def test_pause_counts_who_lost_its_episode_as_standing(kit: Any) -> None:
    """Who pauses a run is told that all stand, and CONTINUE lets all go on."""
    flow = common(kit, workers=2)
    flow.steer(FlowSignal("PAUSE", "operator"))
    lose(flow, 1)
    assert [] == stand(flow, 0)
    assert {0: (0, 1), 1: (0, 2)} == flow.standing
    effects = flow.steer(FlowSignal("CONTINUE", "operator"))

    assert ["lost 1", "stand 0"] == [e.token for e in effects if isinstance(e, Answer)]
