from __future__ import annotations

from typing import Any

import pytest

from ganglion.run.effect import Answer, Record, Steer
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


class Reading(TerminationCondition):
    """Read objectives."""

    reads = frozenset({"objectives"})


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


def end(flow: Flow, worker: int, causes: Any = (), following: Any = ("ada",)) -> list[Any]:
    """Let a worker's episode end."""
    place = (worker, 0, 1, True, False, "terminated")
    report = EpisodeEnded(*place, {"ada": {"sum": 1.0, "mean": 1.0}}, list(causes), [], list(following), None, 1)
    return flow.episode(f"end {worker}", report)


def answers(effects: list[Any]) -> list[tuple[Any, Any]]:
    """Return whom is answered what."""
    return [(e.token, e.message) for e in effects if isinstance(e, Answer)]


RESET = {"signal": "RESET", "issuer": "condition:environment", "reason": "terminated"}

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


def test_settling_is_asked_for_by_conditions(kit: Any) -> None:
    """Rewards are settled at once only where a condition reads objectives."""
    assert not flow_of(kit, [("x", Named(), "episode")]).settle
    assert flow_of(kit, [("x", Reading(), "episode")]).settle


def test_first_verdict_has_seeds_and_participants(kit: Any) -> None:
    """A worker begins with the seeds of episode 0; with a common boundary it knows whose rows are awaited."""
    verdict = common(kit, 3).first_verdict(2)

    assert ("RESET", 0, 0, {"ada": [0, 1, 2]}) == (verdict.signal, verdict.episode, verdict.round, verdict.participants)
    assert {"hill": {"seed": 200, "stream": b""}} == verdict.seeds
    assert flow_of(kit).first_verdict(0).participants is None


def test_round_waits_for_all(kit: Any) -> None:
    """Nobody goes on before all stand; then all do, in worker order, with the same round."""
    flow = common(kit, 3)
    assert [] == stand(flow, 2) + stand(flow, 0)
    effects = stand(flow, 1)

    assert ["stand 0", "stand 1", "stand 2"] == [token for token, _ in answers(effects)]
    assert [("CONTINUE", 1, {"ada": [0, 1, 2]})] * 3 == [
        (go.signal, go.round, go.participants) for _, go in answers(effects)
    ]


def test_participants_are_who_acts_next(kit: Any) -> None:
    """A brain awaits the rows of those workers in which its agent acts in the next round."""
    phase = kit.phase(workers=2, mode="train", agents=[kit.agent("ada", "dummy"), kit.agent("bob", "dummy")])
    flow = Flow("farm-1", phase, [], Seeds())
    flow.begin(["ada", "bob"])
    stand(flow, 0, ["ada"])
    effects = stand(flow, 1, ["ada", "bob"])

    assert {"ada": [0, 1], "bob": [1]} == answers(effects)[0][1].participants


def test_episodes_end_one_by_one_before_the_next_round(kit: Any) -> None:
    """Those who end do so in worker order, one at a time; verdicts and releases come together after the last."""
    flow = common(kit, 3)
    stand(flow, 2, causes=[RESET])
    stand(flow, 1)
    assert ["stand 0"] == [token for token, _ in answers(stand(flow, 0, causes=[RESET]))]
    assert ["stand 2"] == [token for token, _ in answers(end(flow, 0, [RESET]))]
    given = answers(end(flow, 2, [RESET]))

    assert ["end 0", "end 2", "stand 1"] == [token for token, _ in given]
    assert [("RESET", 1, 1), ("RESET", 1, 1), ("CONTINUE", 1)] == [
        (word.signal, word.round, word.episode) if hasattr(word, "episode") else (word.signal, word.round)
        for _, word in given
    ]
    assert all(word.participants == {"ada": [0, 1, 2]} for _, word in given)


def test_without_common_boundary_a_worker_is_judged_at_once(kit: Any) -> None:
    """Where workers do not wait for each other, a verdict follows each episode."""
    flow = flow_of(kit, workers=2)

    assert ["end 1"] == [token for token, _ in answers(end(flow, 1, [RESET]))]


def test_causes_are_recorded_once(kit: Any) -> None:
    """Signals of conditions and brains are recorded with the episode; those that the governor knows are not."""
    flow = flow_of(kit)
    operator = {"signal": "RESET", "issuer": "operator", "reason": "", "known": True}
    rows = [e.record for e in end(flow, 0, [RESET, operator]) if isinstance(e, Record)]

    assert [["signal", 0, 0, 0, 1, "RESET", "condition:environment", "terminated", None, 1, 0]] == rows


@pytest.mark.parametrize("worker", [None, 1])
def test_steering_without_common_boundary(kit: Any, worker: int | None) -> None:
    """A signal goes to the controller of the worker that it names, or to all."""
    flow = flow_of(kit, workers=3)
    effects = flow.steer(FlowSignal("PAUSE", "operator", worker=worker))
    expected = [0, 1, 2] if worker is None else [worker]

    assert [f"farm-1/controller/{w}" for w in expected] == [e.peer for e in effects if isinstance(e, Steer)]


def test_strong_signals_ignore_the_worker(kit: Any) -> None:
    """STOP_PHASE is about the phase, whomever it names."""
    flow = flow_of(kit, workers=3)

    assert 3 == len(flow.steer(FlowSignal("STOP_PHASE", "operator", worker=1)))


def test_wish_acts_while_all_stand_paused(kit: Any) -> None:
    """A signal that comes while all stand in a pause is carried out at once."""
    flow = common(kit, 2)
    flow.steer(FlowSignal("PAUSE", "operator"))
    assert [] == stand(flow, 0) + stand(flow, 1)
    given = answers(flow.steer(FlowSignal("CONTINUE", "operator")))

    assert ["CONTINUE", "CONTINUE"] == [go.signal for _, go in given]


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


def test_abort_answers_everybody(kit: Any) -> None:
    """When the run fails nobody is left waiting: who stands is told to end, who ended is told to stop."""
    flow = common(kit, 3)
    stand(flow, 0, causes=[RESET])
    stand(flow, 1, causes=[RESET])
    stand(flow, 2)
    end(flow, 0, [RESET])
    effects = flow.abort()

    assert [("stand 2", "SHUTDOWN"), ("end 0", "STOP_PHASE")] == [(t, w.signal) for t, w in answers(effects)]
    assert [1, 2] == [int(e.peer[-1]) for e in effects if isinstance(e, Steer)]
    end(flow, 1)
    assert {2} == flow.active


def test_worker_that_is_gone_is_not_awaited(kit: Any) -> None:
    """A worker that cannot go on leaves no trace among those who are awaited."""
    flow = common(kit, 2)
    stand(flow, 0)
    flow.gone(0)

    assert {1} == flow.active
    assert [] == [token for token, _ in answers(flow.abort())]


# -- lost episodes ----------------------------------------------------------------------------------------------------
def lose(flow: Flow, worker: int, episode: int = 0, round_: int = 1) -> list[Any]:
    """Let a worker say that its episode is lost."""
    reason = "lost: environment hill"
    ended = (worker, episode, 2, False, True, reason, {}, [], [], ["ada"], None, round_, False, True)
    return flow.episode(f"lost {worker}", EpisodeEnded(*ended))


def test_who_lost_its_episode_stands_with_the_others(kit: Any) -> None:
    """The round goes on when the others have made their step; the worker begins anew, with the next number."""
    flow = common(kit, workers=2, conditions=[("max_episodes", kit.FakeLimit(1), "phase")])
    assert [] == [e for e in lose(flow, 1) if isinstance(e, Answer)]
    effects = stand(flow, 0)
    answers = {e.token: e.message for e in effects if isinstance(e, Answer)}

    assert ["lost 1", "stand 0"] == list(answers)
    assert ("RESTART", 1, 1) == (answers["lost 1"].signal, answers["lost 1"].episode, answers["lost 1"].round)
    assert {"ada": [0, 1]} == answers["stand 0"].participants == answers["lost 1"].participants
    assert 0 == flow.tally.episodes()


def test_the_last_one_to_lose_lets_the_others_go_on(kit: Any) -> None:
    """It does not matter who comes first; all may lose their episodes in one round."""
    flow = common(kit, workers=2)
    stand(flow, 0)
    assert ["lost 1", "stand 0"] == [e.token for e in lose(flow, 1) if isinstance(e, Answer)]
    lose(flow, 0, round_=2)
    assert ["lost 0", "lost 1"] == [e.token for e in lose(flow, 1, 1, 2) if isinstance(e, Answer)]


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
