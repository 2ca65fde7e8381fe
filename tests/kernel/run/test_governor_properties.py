from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from simulation.oracle import check_governor

from ganglion.run.effect import Answer, Effect, Finish, Stage
from ganglion.sdk.flow import Signal
from ganglion.wire.messages import Failure, FlowSignal, Go, Rebuild, Rebuilt, Verdict, WorkerFailed

MOVES_MAX = 20_000


class Witness:
    """Stand before a governor and see that each report of a worker is answered exactly once."""

    def __init__(self, governor: Any) -> None:
        self._governor = governor
        self.open: dict[int, Any] = {}  # by the identity of a worker: the worker
        self.given: Counter[tuple[int, bool, str]] = Counter()
        self.tokens: list[str] = []  # of operators' signals

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._governor, name)
        if not callable(value):
            return value

        def seen(*given: Any) -> Any:
            return self.look(value(*given))

        return seen

    def episode(self, token: Any, report: Any, now_s: float) -> list[Effect]:
        return self._asked(token, self._governor.episode(token, report, now_s))

    def boundary(self, token: Any, report: Any, now_s: float) -> list[Effect]:
        """Take a stand at the common boundary."""
        return self._asked(token, self._governor.boundary(token, report, now_s))

    def _asked(self, token: Any, effects: list[Effect]) -> list[Effect]:
        assert id(token) not in self.open, "a worker speaks although it awaits an answer"
        self.open[id(token)] = token
        return self.look(effects)

    def look(self, effects: Any) -> Any:
        """Take note of the answers among effects."""
        for effect in effects if isinstance(effects, list) else []:
            if isinstance(effect, Answer) and isinstance(effect.message, Go | Verdict):
                worker = self.open.pop(id(effect.token), None)
                assert worker is not None, f"{effect.message} answers nothing"
                self.given[worker.number, worker.evaluation, type(effect.message).__name__] += 1
        return effects


@dataclass
class World:
    """What is drawn of a phase: how many workers, how long their episodes are, when it ends, when it evaluates."""

    workers: int
    limit: int
    total: int | None
    every: int | None
    each: int
    sync: str
    learns: bool
    lengths: list[list[int]] = field(default_factory=list)

    def length(self, worker: int, episode: int) -> int:
        row = self.lengths[worker]
        return row[episode % len(row)]

    def farm(self, kit: Any, seed: int, phases: int = 1, wish: Any = None) -> Any:
        """Return a farm in which everything happens in a random order."""
        agents = [kit.agent(brain="dummy")] if self.learns else [kit.agent()]
        mode = "train" if self.learns else "test"
        every = self.every if self.learns else None
        given_phases = [
            kit.phase(
                index,
                agents=agents,
                mode=mode,
                workers=self.workers,
                sync=self.sync,
                evaluate_every=every,
                evaluate_episodes=self.each,
            )
            for index in range(phases)
        ]

        def conditions(phase: Any) -> list[Any]:
            found = [("limit", kit.FakeLimit(self.limit), "phase")]
            return found if self.total is None else [*found, ("total", kit.FakeTotal(self.total), "phase")]

        choose = random.Random(seed).randrange
        more = {} if wish is None else {"wish": wish}
        farm = kit.Farm(kit.plan(*given_phases), conditions, self.length, pick=choose, **more)
        farm.governor = Witness(farm.governor)
        return farm.begin()


@st.composite
def worlds(draw: Any, syncs: tuple[str, ...] = ("lockstep", "pipelined", "async")) -> World:
    """Draw a phase."""
    workers = draw(st.integers(1, 4))
    return World(
        workers,
        draw(st.integers(1, 4)),
        draw(st.none() | st.integers(1, 8)),
        draw(st.none() | st.integers(1, 4)),
        draw(st.integers(1, 2)),
        draw(st.sampled_from(syncs)),
        draw(st.booleans()),
        [draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)) for _ in range(workers)],
    )


def trace(farm: Any) -> tuple[Any, ...]:
    """Return what must not depend on the order of arrival."""
    per_worker = [[row for row in farm.began if row[0] == w.number] for w in farm.workers]
    rounds = [[row for row in farm.rounds if row[0] == w.number] for w in farm.workers]
    verdicts = [[row for row in farm.verdicts if row[0] == w.number] for w in farm.workers]
    records = [sorted(farm.records(kind), key=repr) for kind in ("phase", "signal", "evaluation", "brain", "end")]
    return per_worker, rounds, verdicts, farm.episodes, records, farm.steps, farm.finish


# -- what the definition says -----------------------------------------------------------------------------------------
def by_definition(world: World) -> tuple[list[tuple[int, int, int, str]], int]:
    """Return the episodes of a phase in lockstep, by round and worker, and how many evaluations there are."""
    active, numbers, steps = set(range(world.workers)), [0] * world.workers, [0] * world.workers
    rows: list[tuple[int, int, int, str]] = []
    ended_in_all = evaluations = seen = 0
    while active:
        for worker in active:
            steps[worker] += 1
        ended = [w for w in sorted(active) if steps[w] == world.length(w, numbers[w])]
        rows += [(w, numbers[w], steps[w], "terminated") for w in ended]
        for worker in ended:
            numbers[worker], steps[worker] = numbers[worker] + 1, 0
        ended_in_all += len(ended)
        if world.learns and world.every is not None and ended_in_all // world.every > seen:
            evaluations, seen = evaluations + 1, ended_in_all // world.every
        if ended and world.total is not None and ended_in_all >= world.total:
            cut = [w for w in sorted(active) if steps[w]]
            rows += [(w, numbers[w], steps[w], "truncated: phase end") for w in cut]
            return rows, evaluations
        active -= {w for w in ended if numbers[w] >= world.limit}
    return rows, evaluations


@given(world=worlds(("lockstep", "pipelined")), seed=st.integers(0, 2**32))
def test_a_phase_ends_exactly_when_the_definition_says(kit: Any, world: World, seed: int) -> None:
    """With common boundaries the episodes and evaluations are those of the rounds counted by hand, in any order."""
    farm, other = world.farm(kit, seed).run(), world.farm(kit, seed + 1).run()
    rows, evaluations = by_definition(world)

    assert Finish("finished", "completed", 0) == farm.finish
    assert not farm.workers[0].common or trace(farm) == trace(other)
    assert sorted(rows) == sorted(farm.episodes)
    assert evaluations * world.workers * world.each == len(farm.evaluation_episodes)
    assert {} == farm.governor.open
    assert Counter(w for w, *_ in rows) == {
        w: count for (w, evaluation, kind), count in farm.governor.given.items() if kind == "Verdict" and not evaluation
    }


# -- disturbed --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Blow:
    """Something that happens before a move: a signal, an interruption, a loss, a failure, time that passes."""

    move: int
    kind: str
    signal: str = ""
    worker: int | None = None
    steps: int | None = None
    evaluation: bool = False


@st.composite
def blows(draw: Any, kinds: tuple[str, ...]) -> list[Blow]:
    """Draw what happens, and when."""
    one = st.builds(
        Blow,
        st.integers(0, 150),
        st.sampled_from(kinds),
        st.sampled_from([signal.name for signal in Signal]),
        st.sampled_from([None, None, 0, 1]),
        st.none() | st.integers(1, 3),
        st.booleans(),
    )
    return sorted(draw(st.lists(one, max_size=4)), key=lambda blow: blow.move)


def strike(farm: Any, blow: Blow) -> None:
    """Let a blow happen."""
    governor = farm.governor
    worker = min(blow.worker or 0, len(farm.workers) - 1)
    if blow.kind == "signal":
        steps = blow.steps if blow.signal == "CONTINUE" else None
        token = f"signal {len(farm.governor.tokens)}"
        farm.governor.tokens.append(token)
        farm.signal(FlowSignal(blow.signal, "operator", "", None, blow.worker, None, steps), token=token)
    elif blow.kind == "stop":
        farm.obey(governor.stop(blow.evaluation, "operator", farm.now_s))
    elif blow.kind == "tick":
        farm.tick(1.0)
    elif blow.kind == "lost":
        name = f"controller/e{worker}" if blow.evaluation else f"controller/{worker}"
        gone = (farm.evaluators if blow.evaluation else farm.workers)[worker]
        gone.state, gone.inbox = "gone", type(gone.inbox)()
        farm.to_governor.pop((worker, blow.evaluation), None)
        farm.obey(governor.lost(f"farm-1/{name}", "it died", farm.now_s))
    elif blow.kind == "away" and governor.stage is Stage.RUNNING:  # a muscle is lost, asked for, and comes back
        name, token = f"farm-1/muscle/ada/{worker}", f"away {blow.move} {len(governor.tokens)}"
        farm.obey(governor.lost(name, "it died", farm.now_s, True))
        farm.obey(governor.rebuild(token, Rebuild(worker, name, blow.evaluation), farm.now_s))
        assert token not in farm.answers
        governor.tokens.append(token)
        farm.obey(governor.joined(name, "msgpack", farm.now_s))
        assert Rebuilt(True) == farm.answers[token]
    elif blow.kind == "failed":
        gone = farm.workers[worker]
        if gone.state == "stepping" and governor.stage is Stage.RUNNING:
            gone.state = "gone"
            report = WorkerFailed(worker, gone.episode, gone.step, Failure("author", "no"), None)
            farm.obey(governor.worker_failed("failure", report, farm.now_s))


def drive(farm: Any, given_blows: list[Blow], books: bool = True) -> None:
    """Let everything happen until the end; what stands still must be a pause, or the end of a failed run's patience."""
    left = list(given_blows)
    for _ in range(MOVES_MAX):
        if books:
            check_governor(farm.governor)
        while left and left[0].move <= farm.moves and farm.finish is None:
            strike(farm, left.pop(0))
        if farm.move():
            continue
        if farm.finish is not None:
            farm.tick(0.25)  # as its host does until it is told to leave
            return
        if left:
            strike(farm, left.pop(0))
            continue
        stage, before = farm.governor.stage, len(farm.effects)
        if stage is Stage.FAILING:
            farm.tick(2.0)
            assert farm.finish is not None, "a failed run waits longer than its patience"
        else:
            assert stage is Stage.RUNNING, f"nothing happens any more in stage {stage}"
            assert farm.governor._flow.paused, "nothing happens any more, and nobody has said PAUSE"
            farm.signal(FlowSignal("CONTINUE", "operator"), token=f"again {before}")
            assert any(worker.can_move() for worker in (*farm.workers, *farm.evaluators)) or farm.finish, (
                "CONTINUE has moved nobody"
            )
    raise AssertionError(f"not over after {MOVES_MAX} moves")


def dense(farm: Any, phases: int) -> bool:
    """Say whether each worker's episodes count from 0 in each phase: none is lost, none comes twice."""
    for worker in farm.workers:
        numbers = [episode for w, episode, _, _ in farm.episodes if w == worker.number]
        starts = [place for place, number in enumerate(numbers) if number == 0]
        parts = [numbers[a:b] for a, b in zip([0, *starts], [*starts, len(numbers)], strict=True) if a < b]
        if len(parts) > phases or any(part != list(range(len(part))) for part in parts):
            return False
    return True


WISHES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4), st.sampled_from(Signal)), max_size=3
)


@settings(max_examples=60)
@given(
    world=worlds(),
    seed=st.integers(0, 2**32),
    given_blows=blows(("signal", "signal", "away", "tick")) | st.just([]),
    wishes=st.just([]) | WISHES,
)
def test_no_signal_hangs_a_run(
    kit: Any, world: World, seed: int, given_blows: list[Blow], wishes: list[tuple[int, int, int, Signal]]
) -> None:
    """Whatever operators, conditions, brains and controllers wish for at whatever boundary: the run finishes."""

    def wish(worker: int, episode: int, step: int) -> list[dict[str, Any]]:
        here = [signal for *place, signal in wishes if place == [worker, episode, step]]
        return [{"signal": s.name, "issuer": "controller", "reason": ""} for s in here if s is not Signal.CONTINUE]

    farm = world.farm(kit, seed, phases=2, wish=wish)
    drive(farm, given_blows, books=not wishes)  # a worker that wishes to pause may stand when its phase has ended

    assert ("finished", 0) == (farm.finish.status, farm.finish.exit_status)
    assert {} == farm.governor.open
    assert dense(farm, 2)
    assert [] == [token for token in farm.governor.tokens if token not in farm.answers]
    signals = [*(s for *_, s in wishes), *(Signal[blow.signal] for blow in given_blows if blow.kind == "signal")]
    if world.total is None and all(not signal.effect.stops for signal in signals):
        counted = Counter(worker for worker, *_ in farm.episodes)
        assert dict.fromkeys(range(world.workers), 2 * world.limit) == counted


@settings(max_examples=100)
@given(
    world=worlds(), seed=st.integers(0, 2**32), given_blows=blows(("signal", "stop", "lost", "failed", "away", "tick"))
)
def test_no_blow_hangs_a_run(kit: Any, world: World, seed: int, given_blows: list[Blow]) -> None:
    """Signals, interruptions, lost and failing workers in any order: the run ends once, and says how."""
    farm = world.farm(kit, seed, phases=2)
    drive(farm, given_blows)

    kinds = {blow.kind for blow in given_blows}
    assert farm.finish.status in ("finished", "interrupted", "failed")
    assert (farm.finish.status == "failed") == (farm.finish.exit_status == 1)
    assert farm.finish.status != "failed" or kinds & {"lost", "failed"}
    assert farm.finish.status != "interrupted" or "stop" in kinds
    assert [] == [token for token in farm.governor.tokens if token not in farm.answers]
    waiting = [worker for worker in farm.governor.open.values() if worker.state != "gone"]
    assert [] == waiting
    assert farm.finish.status == "failed" or dense(farm, 2)


@settings(max_examples=60)
@given(data=st.data(), workers=st.integers(1, 3), brain=st.sampled_from([None, "dummy"]))
def test_lost_episodes_are_none(kit: Any, data: Any, workers: int, brain: str | None) -> None:
    """Whatever is lost whenever: each worker has its whole episodes, numbered behind the lost ones, in any order."""
    places = st.tuples(st.booleans(), st.integers(0, workers - 1), st.integers(0, 3), st.integers(1, 3))
    lost = data.draw(st.frozensets(places, max_size=5))
    every = data.draw(st.sampled_from([None, 2]))
    phase = kit.phase(workers=workers, mode="train", agents=[kit.agent(brain=brain)], evaluate_every=every)

    def story(pick: Any) -> Any:
        farm = kit.Farm(kit.plan(phase), [("max_episodes", kit.FakeLimit(2), "phase")], pick=pick)
        farm.loses = lambda *place: place in lost
        farm.begin().run(MOVES_MAX)
        assert farm.finish == Finish("finished", "completed", 0)
        for found in (farm.episodes, farm.evaluation_episodes):
            for worker in range(workers):
                mine = [row for row in found if row[0] == worker]
                assert [row[1] for row in mine] == list(range(len(mine)))
        whole = Counter(row[0] for row in farm.episodes if not row[3].startswith("lost: "))
        assert {2} == set(whole.values())
        begun = {(row[0], row[2]): row[1] for row in farm.began}
        for worker, episode, _, reason in farm.episodes:
            if reason.startswith("lost: ") and (worker, episode + 1) in begun:
                assert begun[worker, episode + 1] == "RESTART"
        rounds = sorted(map(str, farm.rounds)) if brain else []  # all make their steps together
        return sorted(farm.episodes), sorted(farm.evaluation_episodes), rounds

    shuffled = random.Random(data.draw(st.integers(0, 99)))
    assert story(lambda count: 0) == story(shuffled.randrange)
