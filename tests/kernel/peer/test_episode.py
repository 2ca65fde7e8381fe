from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ganglion.sdk import Signal
from ganglion.sdk.controller import Controller, EpisodeEnded
from ganglion.wire.messages import Go, Verdict

# -- the order of a step ----------------------------------------------------------------------------------------------


# -- records and reports ----------------------------------------------------------------------------------------------


def test_an_agent_without_objectives_has_no_mean(worker: Any, agent: Any) -> None:
    """None is no value: it is in no sum."""
    one = agent()
    act = one.act
    one.act = lambda message: without_objective(act(message))
    it = worker(agents={"one": one})
    it.run()

    assert {"one": {"decisions": 2, "sum": None, "mean": None}} == it.reports[0].agents
    assert [None, None] == [row[7] for row in it.records("actions")[0][-1]]


def without_objective(acted: Any) -> Any:
    """Return the answer with None for the objective."""
    return dataclasses.replace(acted, objective=None if acted.objective is None else [None])


def test_rows_of_an_endless_episode_leave_early(worker: Any, world: Any) -> None:
    """Rows go to the store before the episode ends, so that memory does not grow with its length."""
    it = worker({"w": world(ends=700)})
    it.run()

    assert 700 == sum(len(record[-1]) for record in it.records("steps"))
    assert 700 == sum(len(record[-1]) for record in it.records("actions"))
    assert len(it.batches) > 3


# -- controllers of one's own -----------------------------------------------------------------------------------------


def test_after_the_end_nothing_is_asked(worker: Any) -> None:
    """A controller that goes on after EpisodeEnded gets it again."""

    class Stubborn(Controller):
        async def simulate(self) -> None:
            for _ in range(5):
                try:
                    await self.update(await self.act(self.agents), self.agents)
                except EpisodeEnded:
                    continue

    it = worker(controller=Stubborn)
    it.run()

    assert [2] == [report.steps for report in it.reports]


def test_a_controller_may_not_give_up_its_episode(worker: Any) -> None:
    """A `simulate` that returns before the end is its author's mistake."""

    class Lazy(Controller):
        async def simulate(self) -> None:
            await self.update(await self.act(self.agents), self.agents)

    it = worker(controller=Lazy)
    it.setup()
    it.start()
    it.hosted.host.tick()

    assert ("author", "controller (worker 0), class Lazy, step 1, hook simulate") == (
        it.failures[0].failure.kind,
        (it.failures[0].failure.where or "").replace("test_a_controller_may_not_give_up_its_episode.<locals>.", ""),
    )


def test_an_exception_of_a_controller_is_blamed_on_it(worker: Any) -> None:
    """The failure names worker, class and step, with the author's traceback; complete rows are stored."""

    class Breaks(Controller):
        async def advance(self) -> None:
            if self.step == 1:
                raise ZeroDivisionError("by nothing")
            await self.update(await self.act(self.agents), self.agents)

    it = worker(controller=Breaks)
    it.setup()
    it.start()
    it.hosted.host.tick()
    report = it.failures[0]

    assert ("author", "ZeroDivisionError: by nothing") == (report.failure.kind, report.failure.message)
    assert (report.failure.where or "").endswith("Breaks, step 1, hook simulate")
    assert __file__ in (report.failure.traceback or "")
    assert (0, 0, 1, None) == (report.worker, report.episode, report.step, report.peer)
    assert [1] == [len(record[-1]) for record in it.records("steps")]


def test_a_controller_may_signal(worker: Any, world: Any) -> None:
    """Its signal acts at the next boundary, in its name."""

    class Signals(Controller):
        async def advance(self) -> None:
            setpoints = await self.act(self.agents)
            if self.step == 2:
                self.signal(Signal.STOP_SIMULATION, "seen enough")
            await self.update(setpoints, self.agents)

    it = worker({"w": world()}, controller=Signals)
    it.run()
    report = it.reports[0]

    assert (3, False, True, "controller: seen enough") == (
        report.steps,
        report.terminated,
        report.truncated,
        report.reason,
    )
    assert [{"signal": "STOP_SIMULATION", "issuer": "controller", "reason": "seen enough"}] == report.causes


@pytest.mark.parametrize(("act", "steps"), [(2, 2), (4, 3)])
def test_a_signal_of_a_brain_acts_at_the_next_boundary(
    worker: Any, world: Any, agent: Any, act: int, steps: int
) -> None:
    """A wish that came with an act acts after that step; one that came with the last answer goes into the report."""
    one = agent()
    one.signals = {act: "STOP_PHASE"}
    it = worker({"w": world(ends=3)}, {"one": one})
    it.run()
    causes = [(cause["signal"], cause["issuer"], cause["reason"]) for cause in it.reports[0].causes]

    assert steps == it.reports[0].steps
    assert ("STOP_PHASE", "brain:one", "because") in causes


# -- wrong answers ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rows", [None, [], [[1], [1]], [[1, 2]], [5]])
def test_wrong_setpoints_fail_by_the_muscles_name(worker: Any, agent: Any, rows: Any) -> None:
    """An answer without one row of the agent's actuators is blamed on the muscle."""
    one = agent()
    act = one.act

    def wrong(message: Any) -> Any:
        return dataclasses.replace(act(message), setpoints=rows)

    one.act = wrong
    it = worker(agents={"one": one})
    it.setup()
    it.start()
    it.hosted.host.tick()

    assert ("protocol", "r/muscle/one/0") == (it.failures[0].failure.kind, it.failures[0].peer)
    assert "expected one row of 1 values" in it.failures[0].failure.message


# -- who acts in a step -----------------------------------------------------------------------------------------------
def learners(agent: Any, *names: str) -> dict[str, Any]:
    """Return agents of these names that have brains."""
    return {name: agent(["w.a"], ["w.s"], brain=f"r/brain/{name}") for name in names}


def passed(it: Any, name: str) -> list[tuple[int, list[int] | None]]:
    """Return round and awaited workers of each act in which an agent passed."""
    return [(act.round, act.workers) for act in it.agents[name].acts if act.passing]


def test_in_a_step_without_an_act_all_pass(worker: Any, world: Any, agent: Any) -> None:
    """A controller that only updates keeps nobody waiting, whatever it has announced."""

    class Announces(Controller):
        async def advance(self) -> None:
            setpoints = await self.act(self.agents) if self.step == 0 else {}
            await self.update(setpoints, [])

        def turn(self, step: int) -> Any:
            return self.agents

    it = worker({"w": world(ends=2)}, learners(agent, "one", "two"), Announces)
    awaited = {"one": [0, 1], "two": [0, 1]}
    it.goes = [Go(round=1, participants=awaited)]
    it.run(common=True, verdict=Verdict("RESET", participants=awaited))

    assert [[(1, [0, 1])], [(1, [0, 1])]] == [passed(it, name) for name in ("one", "two")]
    assert [("one", "act"), ("two", "act"), ("w", "update")] * 2 == it.steps()[:6]


def test_what_is_not_announced_passes_at_once(worker: Any, world: Any, agent: Any, in_turns: Any) -> None:
    """In the first round everybody is awaited, before anybody has announced: those who do not act pass then."""
    it = worker({"w": world(ends=2)}, learners(agent, "one", "two"), in_turns)
    it.goes = [Go(round=1, participants={"one": [], "two": [0, 1]})]
    it.run(common=True, verdict=Verdict("RESET", participants={"one": [0, 1], "two": [0, 1]}))

    assert [[], [(0, [0, 1])]] == [passed(it, name) for name in ("one", "two")]


class AskTwice(Controller):
    """Ask one agent twice in the second step."""

    async def advance(self) -> None:
        """Make one step."""
        if self.step == 1:
            await self.act(["one"])
        await self.update(await self.act(["one"]), ["one"])


class AskStranger(Controller):
    """Ask an agent that there is not."""

    async def advance(self) -> None:
        """Make one step."""
        await self.act(["two"])


class RewardStranger(Controller):
    """Name an agent that there is not as one that acted."""

    async def advance(self) -> None:
        """Make one step."""
        await self.update(await self.act(["one"]), ["one", "eno"])


class SetTooMuch(Controller):
    """Give an agent more setpoints than it has."""

    async def advance(self) -> None:
        """Make one step."""
        await self.update({"one": [1, 2]}, [])


class SetStranger(Controller):
    """Give setpoints in the name of an agent that there is not."""

    async def advance(self) -> None:
        """Make one step."""
        await self.update({"eno": [1]}, [])


class TurnsStranger(Controller):
    """Announce an agent that there is not."""

    async def advance(self) -> None:
        """Make one step."""
        await self.act(["one"])

    def turn(self, step: int) -> Any:
        """Return a stranger."""
        return ["eno"]


class Unannounced(Controller):
    """Ask whom it has not announced."""

    async def simulate(self) -> None:
        """Make an episode."""
        await self.act(["one"])

    def turn(self, step: int) -> Any:
        """Return nobody."""
        return []


STRANGER = "there is no agent '{}', expected some of one"
MISTAKES = [
    (AskTwice, 1, "agent one is asked twice in step 2: an agent acts once in a step"),
    (AskStranger, 0, STRANGER.format("two")),
    (RewardStranger, 0, STRANGER.format("eno")),
    (SetTooMuch, 0, "setpoints of agent one: expected 1 values, found 2"),
    (SetStranger, 0, STRANGER.format("eno")),
    (TurnsStranger, 0, STRANGER.format("eno")),
    (Unannounced, 0, "agent one is asked in step 1, but turn(0) did not say so"),
]


@pytest.mark.parametrize(("controller", "step", "message"), MISTAKES)
def test_a_controllers_mistake_names_it(worker: Any, controller: Any, step: int, message: str) -> None:
    """Agents that there are not, asked twice, or given what they cannot have: with class, worker and step."""
    it = worker(controller=controller)
    it.setup()
    it.start()
    it.hosted.host.tick()
    (report,) = it.failures
    where = report.failure.where or ""

    assert ("author", message) == (report.failure.kind, report.failure.message)
    assert f"controller (worker 0), class {controller.__name__}, step {step}, hook simulate" == where
    assert (0, 0, step, None) == (report.worker, report.episode, report.step, report.peer)
    assert controller.__name__ in (report.failure.traceback or "") or __file__ in (report.failure.traceback or "")


def test_a_turn_that_comes_out_otherwise_is_refused(worker: Any, world: Any, agent: Any) -> None:
    """Brains await whom `turn` named when it was asked at the boundary: who was not named then does not act."""

    class Fickle(Controller):
        asked = 0

        async def advance(self) -> None:
            await self.update(await self.act(self.agents), self.agents)

        def turn(self, step: int) -> Any:
            self.asked += 1
            return self.agents

    it = worker({"w": world(ends=3)}, learners(agent, "one"), Fickle)
    it.goes = [Go(round=1, participants={"one": [1]})]
    it.setup()
    it.start(common=True, verdict=Verdict("RESET", participants={"one": [0, 1]}))
    it.hosted.host.tick()

    assert (
        "agent one is asked in step 2, but turn(1) did not say so when it was asked for the first time"
        == it.failures[0].failure.message
    )


@pytest.mark.parametrize("settle", [False, True])
def test_a_decision_takes_the_rewards_of_one_step(worker: Any, world: Any, settle: bool) -> None:
    """Setpoints that are held bring no second reward: none is given twice, and settling changes no row."""

    class Holds(Controller):
        async def advance(self) -> None:
            if self.step % 2 == 0:
                self.held = await self.act(self.agents)
            seen.append((await self.update(self.held, self.agents)).rewards)

    seen: list[Any] = []
    it = worker({"w": world(ends=5)}, controller=Holds)
    it.run(settle=settle)

    assert [([10], 10.0), ([30], 30.0), ([50], 50.0)] == [(row[6], row[7]) for row in it.records("actions")[0][-1]]
    assert [{"one": [10 * step]} for step in (1, 2, 3, 4)] == seen
    assert [([0], [1]), ([2], [2]), ([4], [3])] == [(row[3], row[4]) for row in it.records("actions")[0][-1]]
