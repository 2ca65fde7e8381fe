"""Phases with bodies at the governor's seam: workers tell which episodes of environments ended, tick by tick."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.run.effect import Answer, Effect, Record, Steer
from ganglion.run.flow import Flow
from ganglion.run.plan import BodyPlan, EnvironmentPlan, PluginPlan
from ganglion.sdk.condition import EpisodeView, PhaseView, TerminationCondition
from ganglion.sdk.flow import Signal
from ganglion.wire.messages import Boundary, EpisodeEnded, FlowSignal, Go, Verdict

UIDS = ("lake", "moor")
BUDGET = {"signal": "STOP_SIMULATION", "issuer": "controller", "reason": "budget"}
LIMIT = [("total", 1)]


class Seeds:
    """Give no seeds: environments of a phase with bodies derive those of later episodes themselves."""

    def episode_seeds(self, worker: int, episode: int) -> dict[str, Any]:
        return {}


class Each(TerminationCondition):
    """Wish something for each worker that has so many whole episodes, however often it is asked."""

    reason = "each: enough"

    def __init__(self, episodes: int, signal: Signal = Signal.STOP_SIMULATION) -> None:
        super().__init__()
        self.episodes, self.signal = episodes, signal

    def phase(self, view: PhaseView) -> Mapping[int, Signal]:
        whole = [sum(not e.cut for e in worker.finished) for worker in view.workers]
        return {worker: self.signal for worker in view.asked if whole[worker] >= self.episodes}


class Seen(TerminationCondition):
    """Keep the views."""

    def __init__(self) -> None:
        super().__init__()
        self.views: list[PhaseView] = []

    def phase(self, view: PhaseView) -> Signal:
        self.views.append(view)
        return Signal.CONTINUE


class OfEpisodes(TerminationCondition):
    """Have no phase part."""

    def episode(self, view: EpisodeView) -> Signal:
        return Signal.CONTINUE


def over(whose: str, number: int, reason: str = "terminated", mean: float | None = 1.0) -> dict[str, Any]:
    """Return the end of an episode of `<uid>` or `<uid>[<agent>/<b>]`, as a controller tells it."""
    uid, _, body = whose.removesuffix("]").partition("[")
    own = reason == "terminated"
    agents = {"ada": {"decisions": 2, "sum": None if mean is None else 2 * mean, "mean": mean}}
    place = {"environment": uid, "body": body or None, "episode": number, "steps": 2}
    return {**place, "terminated": own, "truncated": not own, "reason": reason, "agents": agents}


@dataclass
class Ticking:
    """One worker: in tick k the episodes of `script[k]` end; in the last one its budgets are spent."""

    number: int
    script: Sequence[Sequence[str]]
    common: bool
    tick: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    untold: list[dict[str, Any]] = field(default_factory=list)
    state: str = "ticking"
    went: list[Go] = field(default_factory=list)
    verdict: Verdict | None = None

    def _over(self, whose: str, reason: str) -> dict[str, Any]:
        number = self.numbers.get(whose, 0)
        self.numbers[whose] = number + 1
        return over(whose, number, reason)

    def make_tick(self, flow: Flow) -> list[Effect]:
        """Make a tick, and tell of it where the governor has to hear."""
        self.untold += [self._over(whose, "terminated") for whose in self.script[self.tick]]
        self.tick += 1
        causes = [BUDGET] if self.tick == len(self.script) else []
        if not self.common:
            if causes:
                return self._end(flow, causes)
            self.untold = []
            return []
        ended, self.untold, self.state = self.untold, [], "standing"
        report = Boundary(self.number, self.tick, self.tick, bool(causes), ["ada"], list(causes), 0, ended or None)
        return flow.boundary(self.number, report)

    def hear(self, flow: Flow, word: Go | Verdict) -> list[Effect]:
        if isinstance(word, Verdict):
            assert self.state == "ended"
            self.state, self.verdict = "gone", word
            return []
        assert self.state == "standing"
        self.state = "ticking"
        self.went.append(word)
        causes = [BUDGET] if self.tick == len(self.script) else []
        if Signal[word.signal].effect.stops or causes:
            known = {"signal": word.signal, "issuer": word.issuer, "reason": word.reason, "known": True}
            return self._end(flow, causes + ([known] if word.signal != "CONTINUE" else []))
        if word.signal != "CONTINUE":
            self.untold += [self._over(uid, f"truncated: signal {word.signal}") for uid in UIDS]
        return []

    def _end(self, flow: Flow, causes: list[dict[str, Any]]) -> list[Effect]:
        self.state = "ended"
        closed = [*self.untold, self._over("moor", "truncated: phase end")]
        place = (self.number, 0, self.tick, False, True, "truncated: phase end", {}, causes, [], [])
        return flow.episode(self.number, EpisodeEnded(*place, None, self.tick, closed=closed))


def phase_of(kit: Any, workers: int, **more: Any) -> Any:
    """Return a phase with a body in each of two environments."""
    bodies = [BodyPlan("ada", uid, 0) for uid in UIDS]
    environments = [EnvironmentPlan(uid, PluginPlan("counting")) for uid in UIDS]
    return kit.phase(bodies=bodies, environments=environments, workers=workers, **more)


def conditions_of(kit: Any, given: Sequence[tuple[Any, ...]]) -> list[tuple[str, TerminationCondition, str]]:
    """Return phase-level conditions by their words."""
    kinds = {"total": kit.FakeTotal, "each": Each}
    return [(word, kinds[word](*params), "phase") for word, *params in given]


class Play:
    """Let workers tick in any order until nothing can happen any more; `restores` says when a successor takes over."""

    def __init__(
        self,
        kit: Any,
        scripts: Sequence[Sequence[Sequence[str]]],
        conditions: Sequence[tuple[str, TerminationCondition, str]] = (),
        pick: Callable[[int], int] = lambda count: 0,
        restores: Callable[[], bool] = lambda: False,
    ) -> None:
        self.conditions, self.pick, self.restores = list(conditions), pick, restores
        self.phase = phase_of(kit, len(scripts))
        self.flow = self._flow()
        self.workers = [Ticking(w, script, self.flow.common) for w, script in enumerate(scripts)]
        self.effects: list[Effect] = []

    def _flow(self) -> Flow:
        flow = Flow("farm-1", self.phase, self.conditions, Seeds())  # type: ignore[arg-type]
        flow.begin(["ada"])
        return flow

    def run(self, ticks: int = 10_000) -> Play:
        """Let things happen until nothing can, or until so many ticks were made."""
        for _ in range(ticks):
            able = [worker for worker in self.workers if worker.state == "ticking"]
            if not able:
                break
            self.obey(able[self.pick(len(able))].make_tick(self.flow))
            if self.restores():
                successor = self._flow()
                successor.restore(copy.deepcopy(self.flow.state()))
                self.flow = successor
        return self

    def obey(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self.effects.append(effect)
            if isinstance(effect, Answer):
                self.obey(self.workers[effect.token].hear(self.flow, effect.message))

    @property
    def signals(self) -> list[tuple[Any, ...]]:
        """Return the rows of signals: worker, signal, issuer, reason, round."""
        rows = [e.record for e in self.effects if isinstance(e, Record) and e.record[0] == "signal"]
        return [(row[2], *row[5:8], row[9]) for row in rows]

    @property
    def outcome(self) -> tuple[Any, ...]:
        """Return what must not depend on the order of arrival."""
        words = [[(go.signal, go.issuer, go.round, go.participants) for go in w.went] for w in self.workers]
        verdicts = [worker.verdict for worker in self.workers]
        ticks = [worker.tick for worker in self.workers]
        return ticks, words, verdicts, self.signals, self.flow.reason, self.flow.tally.episodes()


THREE = [["lake"], [], ["lake", "moor"], ["lake"], ["moor"], []]


# -- who has to hear --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("workers", "sync", "conditions", "common"),
    [
        (1, "lockstep", [], False),
        (2, "lockstep", [], False),
        (1, "lockstep", [(Seen, "phase")], True),
        (1, "async", [(Seen, "phase")], True),
        (3, "async", [(Seen, "phase")], True),
        (1, "lockstep", [(Seen, "episode")], False),
        (1, "lockstep", [(OfEpisodes, "phase")], False),
    ],
)
def test_governor_hears_of_ends_where_conditions_count_them(
    kit: Any, workers: int, sync: str, conditions: list[Any], common: bool
) -> None:
    """A condition of the phase makes even a single worker report; nothing else does."""
    given = [(cls.__name__, cls(), place) for cls, place in conditions]

    assert common is Flow("farm-1", phase_of(kit, workers, sync=sync), given, Seeds()).common


# -- what ends a phase ------------------------------------------------------------------------------------------------


def test_what_stops_one_worker_cuts_its_episodes_and_is_said_once(kit: Any) -> None:
    """That worker's open episodes end as at the phase's end; the others go on; the last gives the reason."""
    play = Play(kit, [THREE, [[], [], *THREE]], conditions_of(kit, [("each", 2)])).run()

    assert ([3, 5], "each: enough") == (play.outcome[0], play.flow.reason)
    assert [("STOP_SIMULATION", "phase end")] * 2 == [(w.went[-1].signal, w.went[-1].issuer) for w in play.workers]
    assert [
        (w, "STOP_SIMULATION", "condition:each", "each: enough", tick) for w, tick in ((0, 3), (1, 5))
    ] == play.signals
    assert 3 + 3 == play.flow.tally.finished()


def test_reset_begins_the_episodes_of_a_worker_anew(kit: Any) -> None:
    """The worker goes on, the other one does not notice; what was closed is told with the next boundary."""
    play = Play(kit, [THREE, [[]] * 6], conditions_of(kit, [("each", 3, Signal.RESET)])).run()

    assert ([6, 6], "budget") == (play.outcome[0], play.flow.reason)
    heard = [*[("CONTINUE", "")] * 2, *[("RESET", "condition:each")] * 3, ("CONTINUE", "")]
    assert heard == [(go.signal, go.issuer) for go in play.workers[0].went]
    assert {"CONTINUE"} == {go.signal for go in play.workers[1].went}
    assert [{"ada": [0, 1]}] * 5 == [go.participants for go in play.workers[1].went[:5]]


@pytest.mark.parametrize("signal", [Signal.PAUSE, Signal.CONTINUE])
def test_a_condition_cannot_make_a_worker_stand(kit: Any, signal: Signal) -> None:
    """Nobody would tell that worker to go on."""
    play = Play(kit, [THREE, THREE], conditions_of(kit, [("each", 1, signal)])).run()

    assert {"CONTINUE"} == {go.signal for worker in play.workers for go in worker.went}


def test_whole_episodes_that_are_told_with_the_end_are_judged(kit: Any) -> None:
    """Those of the last tick may come so; cut ones ask nobody."""
    seen = Seen()
    flow = Flow("farm-1", phase_of(kit, 1), [("seen", seen, "phase"), *conditions_of(kit, LIMIT)], Seeds())
    flow.begin(["ada"])
    flow.boundary(0, Boundary(0, 1, 1, True, ["ada"], [BUDGET]))
    closed = [over("lake", 0), over("moor", 0, "truncated: phase end")]
    place = (0, 0, 1, False, True, "truncated: phase end", {}, [BUDGET], [], [])
    effects = flow.episode(0, EpisodeEnded(*place, None, 1, closed=closed))

    assert [("lake",)] == [view.workers[0].ended for view in seen.views]
    assert "total: 1 episodes" == flow.reason
    assert ["STOP_SIMULATION", "STOP_PHASE"] == [e.record[5] for e in effects if isinstance(e, Record)]


# -- what conditions see ----------------------------------------------------------------------------------------------
def test_conditions_see_whose_episodes_ended(kit: Any) -> None:
    """Each ended episode is one entry with environment and body; only what ended by itself counts as ended."""
    seen = Seen()
    flow = Flow("farm-1", phase_of(kit, 2), [("seen", seen, "phase")], Seeds())
    flow.begin(["ada"])
    told = [over("moor[ada/0]", 3, mean=0.5), over("lake", 7, "truncated: max_steps 2", None)]
    flow.boundary(0, Boundary(0, 4, 4, False, ["ada"], [], 0, told))
    flow.boundary(1, Boundary(1, 4, 4, False, ["ada"], []))
    [view] = seen.views
    found = [(e.environment, e.body, e.episode, e.steps, dict(e.means), e.cut) for e in view.workers[0].finished]

    assert [("moor", "ada/0", 3, 2, {"ada": 0.5}, False), ("lake", "", 7, 2, {}, False)] == found
    assert ([0], [("moor",), ()]) == (list(view.asked), [worker.ended for worker in view.workers])
    assert {"lake": False, "moor": True} == view.environments_ended
    assert ["lake", "moor"] == list(view.environments_ended)
    assert [True, True] == [worker.running for worker in view.workers]


def test_ended_environments_are_in_document_order(kit: Any) -> None:
    """Bodies with episodes of their own may end in any order, and several of one environment."""
    seen = Seen()
    flow = Flow("farm-1", phase_of(kit, 1), [("seen", seen, "phase")], Seeds())
    flow.begin(["ada"])
    told = [over("moor[ada/1]", 0), over("moor[ada/0]", 0, "truncated: environment"), over("lake", 0)]
    flow.boundary(0, Boundary(0, 1, 1, False, ["ada"], [], 0, told))

    assert [("lake", "moor")] == [view.workers[0].ended for view in seen.views]


# -- orders -----------------------------------------------------------------------------------------------------------
def test_episodes_of_a_paused_boundary_are_judged_once(kit: Any) -> None:
    """They are judged when the pause is over."""
    seen = Seen()
    play = Play(kit, [THREE], [("seen", seen, "phase")])
    play.obey(play.flow.steer(FlowSignal("PAUSE", "operator")))
    play.run()
    assert ([], [1]) == (seen.views, [worker.tick for worker in play.workers])
    play.obey(play.flow.steer(FlowSignal("CONTINUE", "operator")))
    play.run()

    assert [6] == play.outcome[0]
    assert [1, 3, 4, 5] == [len(view.workers[0].finished) for view in seen.views]


@pytest.mark.parametrize("conditions", [[], [("total", 99)]])
@pytest.mark.parametrize("now", [False, True])
def test_an_interrupt_acts_at_the_next_tick(kit: Any, now: bool, conditions: list[Any]) -> None:
    """There is no common end of episodes that one could wait for."""
    play = Play(kit, [THREE, THREE], conditions_of(kit, conditions)).run(4)
    effects = play.flow.interrupt(now)
    told = [e.signal.signal for e in effects if isinstance(e, Steer)]
    play.obey(effects)
    play.run(2)

    assert told == ([] if conditions else ["SHUTDOWN"] * 2)
    if conditions:
        assert ([3, 3], "interrupted") == (play.outcome[0], play.flow.reason)
        assert ["SHUTDOWN"] * 2 == [worker.went[-1].signal for worker in play.workers]


def test_an_operator_stops_a_phase_whose_episodes_are_counted_still(kit: Any) -> None:
    """The condition is not asked any more, but what is stored says how many episodes there were."""
    play = Play(kit, [THREE, THREE], conditions_of(kit, LIMIT)).run(1)
    play.obey(play.flow.steer(FlowSignal("STOP_PHASE", "operator")))
    play.run()

    assert ([1, 1], "operator") == (play.outcome[0], play.flow.reason)
    assert 4 == play.flow.tally.episodes()
    assert [] == play.signals


def at(flow: Flow, worker: int, **more: Any) -> list[tuple[int, str, Any]]:
    """Let a worker stand; return who is told what, and the participants of brains' rounds."""
    effects = flow.boundary(worker, Boundary(worker, 1, 1, False, ["ada"], [], **more))
    answers = [effect for effect in effects if isinstance(effect, Answer)]
    return [(one.token, one.message.signal, one.message.participants) for one in answers]


def test_workers_make_all_anew_one_after_the_other(kit: Any) -> None:
    """Each stands again when it has; then all go on together, at the round that all are in."""
    flow = Play(kit, [THREE, THREE], [("seen", Seen(), "phase")]).flow
    flow.steer(FlowSignal("RESTART", "operator"))
    both = {"ada": [0, 1]}

    assert [] == at(flow, 1)
    assert [(0, "RESTART", None)] == at(flow, 0)
    assert [(1, "RESTART", None)] == at(flow, 0)
    assert [(0, "CONTINUE", both), (1, "CONTINUE", both)] == at(flow, 1)
    assert 1 == flow.round


def test_brains_are_told_of_ends_by_all_workers_together(kit: Any) -> None:
    """Only then the tick is judged: a condition acts in it, for any number of workers."""
    conditions = [("enough", Each(1, Signal.STOP_PHASE), "phase")]
    flow = Play(kit, [THREE, THREE, THREE], conditions).flow

    assert [] == [*at(flow, 2, telling=["ada"]), *at(flow, 0, telling=["ada"])]
    assert [(0, "CONTINUE", {"ada": [0, 2]}), (2, "CONTINUE", {"ada": [0, 2]})] == at(flow, 1)
    assert [] == at(flow, 2)
    assert [(0, "STOP_PHASE", None)] == at(flow, 0, ended=[over("lake", 0)])
    assert 1 == flow.tally.finished()


def test_a_paused_worker_goes_on_after_so_many_ticks(kit: Any) -> None:
    """What brains are told within a tick, and what is made anew in it, is none of them."""
    flow = Play(kit, [THREE], [("seen", Seen(), "phase")]).flow
    flow.steer(FlowSignal("PAUSE", "operator"))
    assert [] == at(flow, 0)
    assert ["CONTINUE"] == [e.message.signal for e in flow.steer(FlowSignal("CONTINUE", "operator", steps=2))]
    assert [(0, "CONTINUE", {"ada": [0]})] == at(flow, 0, telling=["ada"])
    assert [(0, "CONTINUE", {"ada": [0]})] == at(flow, 0)
    assert [] == at(flow, 0)
    assert [0] == list(flow.standing)


# -- any order, any successor -----------------------------------------------------------------------------------------
@st.composite
def scripts(draw: Any) -> list[list[list[str]]]:
    """Draw which episodes end in the ticks of each worker."""
    ends = st.lists(st.sampled_from(["lake", "moor", "moor[ada/0]"]), max_size=3, unique=True)
    return draw(st.lists(st.lists(ends, min_size=1, max_size=8), min_size=1, max_size=4))


WORDS = st.lists(
    st.one_of(
        st.tuples(st.just("total"), st.integers(1, 12)),
        st.tuples(st.just("each"), st.integers(1, 6), st.sampled_from([Signal.STOP_SIMULATION, Signal.RESET])),
    ),
    max_size=2,
)


@given(given=scripts(), words=WORDS, seed=st.integers(0, 2**32))
def test_neither_order_nor_successor_changes_anything(kit: Any, given: Any, words: Any, seed: int) -> None:
    """With a common boundary what comes first does not show, nor that a restored flow went on."""
    choose = random.Random(seed)
    plain = Play(kit, given, conditions_of(kit, words)).run()
    other = Play(kit, given, conditions_of(kit, words), choose.randrange, lambda: choose.random() < 0.2).run()

    assert all(worker.verdict is not None for worker in (*plain.workers, *other.workers))
    assert not plain.flow.active
    if words:
        assert plain.outcome == other.outcome
    else:
        assert plain.outcome[0] == other.outcome[0]
        assert sorted(plain.signals) == sorted(other.signals)


@given(given=scripts(), total=st.integers(1, 12))
def test_a_phase_ends_exactly_when_enough_episodes_ended(kit: Any, given: Any, total: int) -> None:
    """It ends in the first tick in which all workers together have so many, else with the last budget."""
    last = max(map(len, given))
    counts = [
        sum(len(script[tick]) for script in given for tick in range(min(k, len(script)))) for k in range(last + 1)
    ]
    met = next((k for k, count in enumerate(counts) if count >= total), None)
    play = Play(kit, given, conditions_of(kit, [("total", total)])).run()

    assert [min(len(script), met or last) for script in given] == play.outcome[0]
    assert ("budget" if met is None else f"total: {total} episodes") == play.flow.reason
    assert int(met is not None) == len([row for row in play.signals if row[1] == "STOP_PHASE"])
    assert counts[met or last] == play.flow.tally.finished()
