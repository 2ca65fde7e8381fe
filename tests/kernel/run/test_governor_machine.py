"""A governor under random events: everything that its host may tell it, at any moment and in any order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from simulation.oracle import check_governor

from ganglion.run.effect import Answer, Finish, Record, Stage
from ganglion.sdk.flow import Signal
from ganglion.wire.messages import Failure, FlowSignal, Go, Incident, Rebuild, Rebuilt, Verdict, WorkerFailed

MOVES_MAX = 5_000
numbers = st.integers(0, 1 << 16)


class GovernorMachine(RuleBasedStateMachine):
    """Hold books of who was asked, who has asked and who is there, against what the governor says.

    The farm plays workers, brains and supervisor. `tokens` are those who have asked the governor, and wait.
    """

    kit: Any

    @initialize(
        workers=st.integers(1, 3),
        limit=st.integers(1, 3),
        lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3),
        learns=st.booleans(),
        sync=st.sampled_from(["lockstep", "pipelined", "async"]),
        every=st.none() | st.integers(1, 3),
        phases=st.integers(1, 2),
    )
    def begin(
        self, workers: int, limit: int, lengths: list[int], learns: bool, sync: str, every: int | None, phases: int
    ) -> None:
        """Begin a run."""
        kit, self.picked = self.kit, 0
        agents = [kit.agent(brain="dummy")] if learns else [kit.agent()]
        more = {"evaluate_every": every if learns else None, "mode": "train" if learns else "test"}
        given = [kit.phase(i, agents=agents, workers=workers, sync=sync, **more) for i in range(phases)]
        self.farm = kit.Farm(
            kit.plan(*given),
            lambda phase: [("limit", kit.FakeLimit(limit), "phase")],
            lambda worker, episode: lengths[(worker + episode) % len(lengths)],
            pick=lambda count: self.picked % count,
            store="farm-1/store",
        )
        self.looked = 0
        self.tokens: dict[str, str] = {}  # who waits for an answer -> the kind of it
        self.answered: set[str] = set()
        self.lost: set[str] = set()  # who will return
        self.ended = False
        self.farm.begin()

    # -- what happens -------------------------------------------------------------------------------------------------
    @rule(picked=numbers, moves=st.integers(1, 12))
    def move(self, picked: int, moves: int) -> None:
        """Let whoever can do something do it."""
        for turn in range(moves):
            self.picked = picked >> turn
            self.farm.move()

    @rule(signal=st.sampled_from(Signal), worker=st.none() | st.integers(0, 3), steps=st.none() | st.integers(0, 3))
    def signal(self, signal: Signal, worker: int | None, steps: int | None) -> None:
        """Let an operator say something."""
        token = f"operator {len(self.tokens)}"
        self.tokens[token] = "signal"
        self.farm.signal(FlowSignal(signal.name, "operator", "", None, worker, None, steps), token=token)

    @rule(passed_s=st.sampled_from([0.1, 1.0, 5.0]))
    def tick(self, passed_s: float) -> None:
        """Let time pass."""
        self.farm.tick(passed_s)

    @precondition(lambda self: self.governor.stage not in (Stage.PLANNED, Stage.ENDED))
    @rule(picked=numbers)
    def lose(self, picked: int) -> None:
        """Lose somebody who will return: nobody else notices but by waiting."""
        here = sorted(self.governor._joined)
        if here:
            peer = here[picked % len(here)]
            self.lost.add(peer)
            self.farm.obey(self.governor.lost(peer, "it died", self.farm.now_s, True))

    @precondition(lambda self: self.lost)
    @rule(picked=numbers)
    def come_back(self, picked: int) -> None:
        """Let the successor of somebody join."""
        peer = sorted(self.lost)[picked % len(self.lost)]
        self.lost.discard(peer)
        self.farm.obey(self.governor.joined(peer, "msgpack", self.farm.now_s))

    @precondition(lambda self: self.governor.stage is Stage.RUNNING)
    @rule(picked=numbers, unreachable=st.booleans())
    def rebuild(self, picked: int, unreachable: bool) -> None:
        """Let a controller ask for word of a successor."""
        peers = sorted(self.governor._places)
        token = f"rebuild {len(self.tokens)}"
        self.tokens[token] = "rebuild"
        report = Rebuild(0, peers[picked % len(peers)], unreachable)
        self.farm.obey(self.governor.rebuild(token, report, self.farm.now_s))

    @rule(now=st.booleans(), picked=st.integers(0, 5))
    def stop(self, now: bool, picked: int) -> None:
        """Let somebody press Ctrl-C, which is rare."""
        if picked == 0:
            self.farm.obey(self.governor.stop(now, "operator", self.farm.now_s))

    @rule(picked=numbers, gives_up=st.integers(0, 5))
    def tell_incident(self, picked: int, gives_up: int) -> None:
        """Let the supervisor tell of a process; rarely that it does not come back."""
        name = f"muscle/ada/{picked % 2}"
        failure = Failure("lost", f"{name} is gone") if gives_up == 0 else None
        report = Incident("then", name, 1, "lost", "killed", None, failure)
        self.farm.obey(self.governor.incident(report, self.farm.now_s))

    @precondition(lambda self: self.governor.stage is Stage.RUNNING)
    @rule(picked=numbers)
    def fail_worker(self, picked: int) -> None:
        """Let a worker fail, which is rare."""
        worker = self.farm.workers[picked % len(self.farm.workers)]
        if picked % 7 == 0 and worker.state == "stepping":
            worker.state = "gone"
            report = WorkerFailed(worker.number, worker.episode, worker.step, Failure("author", "no"), None)
            self.farm.obey(self.governor.worker_failed("failure", report, self.farm.now_s))

    # -- what holds ---------------------------------------------------------------------------------------------------
    @property
    def governor(self) -> Any:
        """Return who is tested."""
        return self.farm.governor

    @invariant()
    def its_books_hold_together(self) -> None:
        """Assert what the oracle of the simulation asserts after each event."""
        if hasattr(self, "farm"):
            check_governor(self.governor)
            self.look()

    def look(self) -> None:
        """Assert that nobody is answered twice, and that nothing is recorded after the end."""
        for effect in self.farm.effects[self.looked :]:
            assert not (self.ended and isinstance(effect, Record)), f"recorded after the end: {effect.record}"
            if isinstance(effect, Finish):
                assert not self.ended, "a run has ended twice"
                self.ended = True
            if isinstance(effect, Answer) and isinstance(effect.token, str) and effect.token in self.tokens:
                assert effect.token not in self.answered, f"{effect.token} was answered twice"
                self.answered.add(effect.token)
                expected = Rebuilt if self.tokens[effect.token] == "rebuild" else object
                assert isinstance(effect.message, expected)
                assert not isinstance(effect.message, Go | Verdict)
        self.looked = len(self.farm.effects)

    def teardown(self) -> None:
        """Let all return and go on: the run ends, everybody is answered, each worker's episodes count from 0."""
        if not hasattr(self, "farm"):
            return
        farm = self.farm
        for _ in range(MOVES_MAX):
            if farm.finish is not None:
                break
            while self.lost:
                self.come_back(0)
            if not farm.move():
                self.signal(Signal.CONTINUE, None, None)
                farm.tick(2.0)
            self.its_books_hold_together()
        assert farm.finish is not None, f"it does not end in stage {self.governor.stage}"
        farm.tick(0.25)
        self.its_books_hold_together()
        waiting = [t for t, kind in self.tokens.items() if kind == "signal" and t not in self.answered]
        assert not waiting, f"{waiting} were never answered"


@pytest.mark.parametrize("examples", [80, pytest.param(20_000, marks=pytest.mark.long)], ids=["some", "many"])
def test_a_governor_keeps_its_books(kit: Any, examples: int) -> None:
    """Whatever happens in whatever order: its books hold together, all are answered once, and the run ends."""
    machine = type("Machine", (GovernorMachine,), {"kit": kit})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=40, deadline=None))
