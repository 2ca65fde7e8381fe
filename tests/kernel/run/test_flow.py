from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ganglion.limits import PAUSE_ANSWER_S
from ganglion.run.effect import Answer, Stage
from ganglion.run.flow import Flow, Judgement, Promises, Tally, Waits, episodes_of, refusal
from ganglion.sdk.condition import PhaseView, TerminationCondition
from ganglion.sdk.flow import Signal
from ganglion.wire.messages import Boundary, EpisodeEnded, FlowSignal


class Seeds:
    """Give worker and episode as seeds."""

    def episode_seeds(self, worker: int, episode: int) -> dict[str, Any]:
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
        return Signal.CONTINUE


def flow_of(kit: Any, conditions: Any = (), **more: Any) -> Flow:
    """Return a flow whose workers have begun; those that train have a common boundary."""
    phase = kit.phase(agents=[kit.agent(brain="dummy")], workers=2, **more)
    flow = Flow("farm-1", phase, list(conditions), Seeds())
    flow.begin(["ada"])
    return flow


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
    flow = flow_of(kit, mode="train")
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


@pytest.mark.parametrize("turned", [False, True])
def test_greatest_of_several_wishes_decides_about_a_worker(kit: Any, turned: bool) -> None:
    """Whoever wished it first: the worker stops, and its reason is that of the greatest signal."""
    flow = flow_of(kit)
    causes = [
        {"signal": "RESET", "issuer": "condition:environment", "reason": "terminated"},
        {"signal": "STOP_SIMULATION", "issuer": "brain:ada", "reason": "enough"},
    ]
    ended = (1, 0, 3, True, False, "terminated", {}, causes[::-1] if turned else causes, ["hill"], ["ada"])
    [(token, verdict)] = answers(flow.episode("end 1", EpisodeEnded(*ended)))

    assert ("end 1", "STOP_SIMULATION", "brain: enough") == (token, verdict.signal, verdict.reason)


# -- lost episodes ----------------------------------------------------------------------------------------------------
def lose(flow: Flow, worker: int, episode: int = 0, round_: int = 1) -> list[Any]:
    """Let a worker say that its episode is lost."""
    reason = "lost: environment hill"
    ended = (worker, episode, 2, False, True, reason, {}, [], [], ["ada"], None, round_, False, True)
    return flow.episode(f"lost {worker}", EpisodeEnded(*ended))


def test_without_common_boundary_a_loss_is_nobody_elses_matter(kit: Any) -> None:
    """The worker goes on at once; conditions do not hear of it."""
    flow = flow_of(kit, [("max_episodes", kit.FakeLimit(1), "phase")])
    [answer] = [e for e in lose(flow, 1) if isinstance(e, Answer)]

    assert ("RESTART", 1) == (answer.message.signal, answer.message.episode)


def test_pause_counts_who_lost_its_episode_as_standing(kit: Any) -> None:
    """Who pauses a run is told that all stand, and CONTINUE lets all go on."""
    flow = flow_of(kit, mode="train")
    flow.steer(FlowSignal("PAUSE", "operator"))
    lose(flow, 1)
    assert [] == flow.boundary("stand 0", Boundary(0, 1, 1, False, ["ada"], []))
    assert {0: (0, 1), 1: (0, 2)} == flow.standing
    effects = flow.steer(FlowSignal("CONTINUE", "operator"))

    assert ["lost 1", "stand 0"] == [e.token for e in effects if isinstance(e, Answer)]


# -- orders, promises, waits -------------------------------------------------------------------------------------------
def setting(entry: list[Any]) -> FlowSignal:
    """Return what an operator tells one of the run."""
    return FlowSignal("CONTINUE", "operator", "", data={"topics": [entry]})


def test_who_is_told_something_goes_on_standing(kit: Any) -> None:
    """What an operator sets reaches the workers that are meant, and ends no pause."""
    flow = flow_of(kit, mode="train")
    flow.steer(FlowSignal("PAUSE", "operator"))
    wish = setting(["ada", "parameters", "g", 1])

    assert [wish, wish] == [effect.signal for effect in flow.tell(wish)]
    assert 1 == len(flow.tell(replace(wish, worker=1)))
    assert flow.paused


@pytest.mark.parametrize(
    ("wish", "wanted", "text"),
    [
        (FlowSignal("DANCE", "operator", ""), None, "unknown signal 'DANCE'"),
        (FlowSignal("RESET", "operator", ""), "7", "the running phase is 0 (phase 0)"),
        (FlowSignal("RESET", "operator", "", worker=5), None, "no worker 5 is running; there are [0, 1]"),
        (FlowSignal("RESET", "operator", "", steps=2), None, "steps: expected CONTINUE for at least one"),
        (FlowSignal("CONTINUE", "operator", "", steps=0), None, "found CONTINUE for 0"),
        (setting(["bob", "parameters", "g", 1]), None, "there is no environment or agent 'bob' in phase 0; expected"),
        (setting(["ada", "stats", "g", 1]), None, "topic stats is told by participants; expected parameters, engine"),
        (setting(["ada", "parameters", "g", [float("nan")]]), None, "topic parameters, key 'g': nan cannot travel"),
        (setting(["ada", "parameters", "g"]), None, "topics: expected a list [uid, topic, key, value], found"),
        *[(FlowSignal("RESET", "operator", "", worker=1), wanted, "") for wanted in (None, "0", "phase 0")],
        (FlowSignal("CONTINUE", "operator", "", steps=1), None, ""),
    ],
)
def test_what_cannot_be_done_is_refused(kit: Any, wish: FlowSignal, wanted: str | None, text: str) -> None:
    """A signal, phase, worker or number that is not there is named; what is there is carried out."""
    why = refusal(wish, wanted, kit.phase(), [0, 1])

    assert text in why
    assert bool(text) == bool(why)


@pytest.mark.parametrize(
    ("stage", "text"),
    [(Stage.JOINING, "the phase is starting: processes join"), (Stage.STORING, "no phase is running: brains store")],
)
def test_a_signal_outside_of_a_phase_is_refused_with_the_stage(stage: Stage, text: str) -> None:
    """Who pauses a run that is starting reads that, and what it waits for."""
    assert text == refusal(FlowSignal("PAUSE", "operator", ""), None, stage, ())


def told(effects: list[Any]) -> dict[str, tuple[bool, str]]:
    """Return who was answered what."""
    return {effect.token: (effect.message.accepted, effect.message.text) for effect in effects}


def test_nobody_waits_for_ever() -> None:
    """After its time a promise is kept with what is known: who does not stand is named."""
    promises = Promises()
    promises.give("all", None, 0.0)
    workers = {0: (0, 2), 1: None}

    assert {} == told(promises.keep(workers, "worker", PAUSE_ANSWER_S - 0.1))
    text = told(promises.keep(workers, "worker", PAUSE_ANSWER_S))["all"][1]
    assert "worker 1 has not reached its next step boundary within 20 s" in text


def test_where_a_worker_stands_with_bodies_is_told_without_an_episode() -> None:
    """Each environment of it is in an episode of its own."""
    promises = Promises()
    promises.give("all", None, 0.0)

    text = told(promises.keep({0: (None, 7), 1: (3, 7)}, "worker", 0.0))["all"][1]

    assert ["worker 0 is paused after step 7", "worker 1 is paused after step 7 of episode 3"] == text.split("\n")


def test_a_wait_is_told_at_doubling_times() -> None:
    """A wait is told after 2, 4, 8, 16, 32, 64 seconds, then each minute, with what is left."""
    waits = Waits()
    waits.begin("k", "peer", "ada to join", 100.0, None)
    told = [t for t in range(300) if waits.due(100.0 + t)]

    assert [2, 4, 8, 16, 32, 64, 124, 184, 244] == told


# -- what conditions see and say ---------------------------------------------------------------------------------------
def report(worker: int, episode: int = 0, **more: Any) -> EpisodeEnded:
    """Return the end of an episode."""
    given = {"agents": {}, "causes": [], "ended": [], "next": [], **more}
    return EpisodeEnded(worker, episode, 3, True, False, "terminated", **given)


class Spy(TerminationCondition):
    """Keep the views, answer what was given."""

    def __init__(self, answer: Signal | Mapping[int, Signal] = Signal.CONTINUE, reason: str = "") -> None:
        self.answer, self.reason = answer, reason
        self.views: list[PhaseView] = []

    def phase(self, view: PhaseView) -> Signal | Mapping[int, Signal]:
        self.views.append(view)
        return self.answer


class EpisodeOnly(TerminationCondition):
    """Have no phase part."""

    def episode(self, view: Any) -> Signal:
        return Signal.CONTINUE


def test_first_with_the_greatest_signal_gives_the_reason() -> None:
    """Of two equal signals the first one's issuer and reason count."""
    judgement = Judgement()
    for name in ("one", "two"):
        judgement.say(None, Signal.STOP_PHASE, f"condition:{name}", name)
        judgement.say(0, Signal.RESTART, f"condition:{name}", name)

    assert ("condition:one", "one") == (judgement.issuer, judgement.reason)
    assert (Signal.RESTART, "condition:one", "one") == judgement.workers[0]


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
    tally.count(0, episodes_of(first))
    tally.count(2, [{**episodes_of(report(2))[0], "reason": "truncated: phase end"}])
    tally.judge({2: report(2), 0: first}, {0, 2}, Judgement())
    view = spy.views[0]

    assert (0, 2) == view.asked
    assert {"hill": True} == view.environments_ended
    assert 7 == view.episodes
    assert [True, False, True] == [worker.running for worker in view.workers]
    assert {"ada": 2.0} == view.workers[0].finished[0].means
    assert [(False, 3)], [(True, 3)] == [[(e.cut, e.steps) for e in view.workers[w].finished] for w in (0, 2)]
    assert {"agent_objective": "agent_objective: ada"} == view.workers[0].fired
    assert {} == view.workers[1].fired
    assert 2 == tally.episodes()


def test_causes_of_the_workers_count_without_being_recorded_twice(kit: Any) -> None:
    """A strong cause of an episode acts on the phase; it was recorded with the episode already."""
    causes = [
        {"signal": "STOP_PHASE", "issuer": "brain:ada", "reason": "done"},
        {"signal": "SHUTDOWN", "issuer": "operator", "reason": "", "known": True},
    ]
    judgement = Judgement()
    Tally(kit.phase(), []).judge({0: report(0, causes=causes)}, {0}, judgement)

    assert (Signal.STOP_PHASE, "brain:ada", "done", []) == (
        judgement.phase,
        judgement.issuer,
        judgement.reason,
        judgement.issued,
    )
