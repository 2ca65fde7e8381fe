from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ganglion.limits import BODY_BYTES
from ganglion.sdk import Signal
from ganglion.sdk.condition import EpisodeView, TerminationCondition
from ganglion.sdk.controller import Controller, EpisodeEnded
from ganglion.wire.messages import EpisodeEnded as Report
from ganglion.wire.messages import Go, Verdict


class WhenAll(TerminationCondition):
    """End the episode when all environments have ended."""

    reads = frozenset({"ended"})
    issuer = "environment"

    def episode(self, view: EpisodeView) -> Signal:
        """Return RESET when all have."""
        return Signal.RESET if len(view.ended) == len(view.environments) else Signal.CONTINUE


# -- the order of a step ----------------------------------------------------------------------------------------------
def test_a_step_asks_muscles_then_environments(worker: Any, agent: Any) -> None:
    """Act, update, act, update; at the end every agent that has decided is told, then the governor."""
    it = worker(agents={"one": agent(), "two": agent(sensors=["w.s"], actuators=[])})
    it.run()

    assert [
        ("one", "act"),
        ("two", "act"),
        ("w", "update"),
        ("one", "act"),
        ("two", "act"),
        ("w", "update"),
        ("one", "act"),
        ("two", "act"),
    ] == it.steps()
    assert 1 == len(it.reports)


def test_settling_comes_between_update_and_boundary(worker: Any) -> None:
    """Where a condition reads objectives, rewards are settled in their own step, and not delivered again."""
    it = worker()
    it.run(settle=True)
    acts = it.agents["one"].acts

    assert [("one", "act"), ("w", "update"), ("one", "act")] * 2 + [("one", "act")] == it.steps()
    assert [(None, True), ([[10]], False), (None, True), ([[20]], False), (None, False)] == [
        (act.rewards, act.decide) for act in acts
    ]


def test_taking_turns_gives_each_step_to_one(worker: Any, world: Any, agent: Any, in_turns: Any) -> None:
    """Each step one agent acts and all environments are updated with its setpoints alone; rewards are its own."""
    worlds = {"w": world(["a", "b"], ends=5)}
    agents = {"one": agent(["w.a"]), "two": agent(["w.b"])}
    it = worker(worlds, agents, in_turns)
    it.run()

    assert [([0], [1]), ([1], [1]), ([0], [2]), ([1], [2]), ([0], [3])] == it.given("w")
    assert [None, [[10]], [[30]], [[50]]] == [act.rewards for act in agents["one"].acts]
    assert [None, [[20]], [[40]]] == [act.rewards for act in agents["two"].acts]
    assert [[[0]], [[2]], [[4]], [[5]]] == [act.readings for act in agents["one"].acts]


def test_each_episode_of_turns_begins_with_the_first(worker: Any, world: Any, agent: Any, in_turns: Any) -> None:
    """Turns count from the beginning of the episode."""
    agents = {"one": agent(["w.a"]), "two": agent(["w.b"])}
    it = worker({"w": world(["a", "b"], ends=1)}, agents, in_turns)
    it.verdicts = [Verdict("RESET", episode=1)]
    it.run()

    assert (2, 0) == (agents["one"].decisions, agents["two"].decisions)
    assert [{"one": {"decisions": 1, "sum": 10.0, "mean": 10.0}}] * 2 == [report.agents for report in it.reports]


def test_who_has_not_decided_is_not_told_of_the_end(worker: Any, world: Any, agent: Any, in_turns: Any) -> None:
    """An agent whose turn never came hears nothing."""
    agents = {"one": agent(["w.a"]), "two": agent(["w.b"])}
    it = worker({"w": world(["a", "b"], ends=1)}, agents, in_turns)
    it.run()

    assert [] == agents["two"].acts
    assert [("one", "act"), ("w", "update"), ("one", "act")] == it.steps()


def test_several_environments_are_updated_at_once(worker: Any, world: Any, agent: Any) -> None:
    """Each gets its own setpoints, possibly none; readings and rewards come in document order."""
    worlds = {"v": world(["a"], ends=2), "w": world(["a", "b"]), "x": world([])}
    agents = {"one": agent(["w.b", "v.a"], ["w.s", "v.s"]), "two": agent(["w.a"], ["x.s"])}
    it = worker(worlds, agents)
    it.run()

    assert [("v", "update"), ("w", "update"), ("x", "update")] == it.steps()[2:5]
    assert [(None, [1]), (None, [1, 1]), (None, [])] == [it.given(uid)[0] for uid in worlds]
    assert [[0, 0], [1, 1], [2, 2]] == [act.readings[0] for act in agents["one"].acts]
    assert [None, [10, 10], [20, 20]] == [act.rewards and act.rewards[0] for act in agents["one"].acts]


def test_the_later_agent_wins_an_actuator(worker: Any, agent: Any) -> None:
    """Two agents with one actuator: the setpoint of the later in document order is applied, both are recorded."""
    first, second = agent(["w.a"]), agent(["w.a"])
    second.decisions = 6
    it = worker(agents={"one": first, "two": second})
    it.run()

    assert [(None, [7]), (None, [8])] == it.given("w")
    assert [[1], [2], [7], [8]] == [row[4] for record in it.records("actions") for row in record[-1]]


def test_an_ended_environment_waits_unstepped(worker: Any, world: Any, agent: Any) -> None:
    """Where the episode goes on, who has ended is not updated; its rewards are given once and then are null."""
    worlds = {"v": world(ends=1), "w": world(ends=3)}
    one = agent(["v.a", "w.a"], ["v.s", "w.s"])
    it = worker(worlds, {"one": one}, conditions=[WhenAll])
    it.run()

    assert (1, 3) == (len(it.given("v")), len(it.given("w")))
    assert [None, [10, 10], [None, 20], [None, 30]] == [act.rewards and act.rewards[0] for act in one.acts]
    assert [("v", 1), ("w", 3)] == [(record[4], len(record[-1])) for record in it.records("steps")]
    assert [[10, 10], [None, 20], [None, 30]] == [row[6] for row in it.records("actions")[0][-1]]


# -- records and reports ----------------------------------------------------------------------------------------------
def test_steps_are_what_was_given_and_answered(worker: Any) -> None:
    """A row per step: number, tick of the phase, time, readings, setpoints, rewards, the environment's own flags."""
    it = worker()
    it.run()

    assert [
        [
            "steps",
            0,
            "train",
            0,
            "w",
            0,
            [[1, 0, 1, None, [1], [1], [10], False, False, None], [2, 1, 2, None, [2], [2], [20], True, False, None]],
        ]
    ] == it.records("steps")


def test_time_and_world_state_are_those_of_the_environment(worker: Any, world: Any) -> None:
    """Each environment's row has its own time stamp, and what was left of its world's state."""
    it = worker({"w": world(ends=2), "v": world(["b"], ends=2)})
    it.worlds["w"].stamp, it.worlds["w"].left = "2030-01-02T00:00:00", {"voltage": [1.0, None]}
    it.run()

    rows = {record[4]: [(row[3], row[-1]) for row in record[-1]] for record in it.records("steps")}
    assert {"w": [("2030-01-02T00:00:00", {"voltage": [1.0, None]})] * 2, "v": [(None, None)] * 2} == rows


def test_setpoints_that_were_not_given_are_null(worker: Any, world: Any, agent: Any, in_turns: Any) -> None:
    """Under taking turns a step has the acting agent's setpoints only."""
    it = worker({"w": world(["a", "b"], ends=2)}, {"one": agent(["w.a"]), "two": agent(["w.b"])}, in_turns)
    it.run()

    assert [[1, None], [None, 1]] == [row[5] for row in it.records("steps")[0][-1]]


def test_actions_are_decisions_with_what_came_of_them(worker: Any) -> None:
    """A row per decision: the readings it was made on, setpoints, rewards, objective; the last one has the flags."""
    it = worker()
    it.run()

    assert [
        [
            "actions",
            0,
            "train",
            0,
            "one",
            0,
            [
                [0, 0, 0, [0], [1], None, [10], 10.0, False, False, None],
                [0, 1, 1, [1], [2], None, [20], 20.0, True, False, None],
            ],
        ]
    ] == it.records("actions")


def test_settled_objectives_are_recorded_once(worker: Any) -> None:
    """Settling changes when an objective is known, not what is recorded."""
    plain, settled = worker(), worker()
    plain.run()
    settled.run(settle=True)

    assert plain.records("actions") == settled.records("actions")
    assert plain.reports[0].agents == settled.reports[0].agents


def test_an_episode_is_sealed_with_its_end(worker: Any) -> None:
    """Behind its rows comes one record of the episode: steps, flags, reason, and the round that orders it."""
    it = worker()
    it.run()

    assert [["episode", 0, "train", 0, None, 0, 2, True, False, "terminated", 2, 0]] == it.records("episode")
    assert "episode" == [record[0] for batch in it.batches for record in batch.records][-1]


def test_rounds_go_on_over_episodes(worker: Any) -> None:
    """Ticks count the worker's steps in the phase, steps and decisions those of the episode."""
    it = worker()
    it.verdicts = [Verdict("RESET", episode=1)]
    it.run()

    assert [[0, 1], [2, 3]] == [[row[1] for row in record[-1]] for record in it.records("steps")]
    assert [[1, 2], [1, 2]] == [[row[0] for row in record[-1]] for record in it.records("steps")]
    assert [[0, 1], [0, 1]] == [[row[1] for row in record[-1]] for record in it.records("actions")]
    assert [[2, 0], [4, 0]] == [record[-2:] for record in it.records("episode")]


def test_the_governor_is_told_of_the_end(worker: Any) -> None:
    """The report has steps, flags, reason, the agents' decisions and sums, who ended, and who acts next."""
    it = worker()
    it.run()
    cause = {"signal": "RESET", "issuer": "condition:environment", "reason": "terminated"}

    assert [
        Report(
            0,
            0,
            2,
            True,
            False,
            "terminated",
            {"one": {"decisions": 2, "sum": 30.0, "mean": 15.0}},
            [cause],
            ["w"],
            ["one"],
            2,
            2,
        )
    ] == it.reports


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


def test_large_rows_fit_into_messages(worker: Any, world: Any) -> None:
    """Rows with images leave in as many batches as the size of a body asks for."""
    image = bytes(20_000)

    class FakeCamera(world):  # type: ignore[misc]
        def start(self) -> Any:
            found = super().start()
            found.sensors[0]["space"] = {"type": "Box", "shape": [20_000], "dtype": "|u1"}
            found.readings[0][0] = image
            return found

        def update(self) -> Any:
            found = super().update()
            found.readings[0][0] = image
            return found

    it = worker({"w": FakeCamera(ends=150)})
    it.run()

    assert 150 == sum(len(record[-1]) for record in it.records("steps"))
    assert max(len(e.body) for e in it.link.sent if e.head.call == "record.batch") <= BODY_BYTES


# -- controllers of one's own -----------------------------------------------------------------------------------------
def test_a_controller_sees_what_happened(worker: Any) -> None:
    """Readings, rewards, step and episode are there; `update` returns the same; EpisodeEnded passes through."""
    seen: list[Any] = []

    class Watching(Controller):
        async def simulate(self) -> None:
            seen.append(("begin", self.episode, self.step, dict(self.readings), dict(self.rewards)))
            try:
                while True:
                    setpoints = await self.act(self.agents)
                    result = await self.update(setpoints, self.agents)
                    seen.append((dict(setpoints), result.step, dict(result.readings), dict(result.rewards)))
                    seen.append((self.step, dict(self.readings), dict(self.rewards)))
            except EpisodeEnded as ended:
                seen.append(ended.reason)
                raise

    it = worker(controller=Watching)
    it.run()

    assert [
        ("begin", 0, 0, {"one": [0]}, {}),
        ({"one": [1]}, 1, {"one": [1]}, {"one": [10]}),
        (1, {"one": [1]}, {"one": [10]}),
        "terminated",
    ] == seen


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


class AskOne(Controller):
    """Ask the first agent only, except in each third step, and announce nothing."""

    async def advance(self) -> None:
        """Make one step."""
        asked = self.agents if self.step % 3 == 2 else self.agents[:1]
        await self.update(await self.act(asked), asked)


def test_whom_a_brain_awaits_in_vain_passes(worker: Any, world: Any, agent: Any) -> None:
    """With a common round an agent that is awaited and not asked passes it, beside the acts of the others."""
    it = worker({"w": world(ends=4)}, learners(agent, "one", "two"), AskOne)
    awaited = {"one": [0, 1], "two": [0, 1]}
    it.goes = [Go(round=number, participants=awaited) for number in (8, 9, 10, 11)]
    it.run(common=True, verdict=Verdict("RESET", round=7, participants=awaited))

    assert [(7, [0, 1]), (8, [0, 1]), (10, [0, 1])] == passed(it, "two")
    assert [] == passed(it, "one")
    steps = it.steps()[:12]
    assert [("w", "update")] * 4 == steps[2::3]
    assert [[("one", "act"), ("two", "act")]] * 4 == [sorted(steps[i : i + 2]) for i in (0, 3, 6, 9)]
    assert 1 == it.agents["two"].decisions
    assert [[2]] == [act.readings[0] for act in it.agents["two"].acts if act.decide]


def test_who_is_not_awaited_need_not_pass(worker: Any, world: Any, agent: Any) -> None:
    """Alone, without a brain, or where only other workers' rows are awaited, nothing is sent."""
    alone = worker({"w": world(ends=2)}, learners(agent, "one", "two"), AskOne)
    alone.run()
    unlearned = {"one": agent(), "two": agent()}
    others = worker({"w": world(ends=2)}, unlearned | learners(agent, "three"), AskOne)
    others.goes = [Go(round=1, participants={"one": [0, 1], "two": [0, 1], "three": [1]})]
    others.run(common=True, verdict=Verdict("RESET", participants={"one": [0], "two": [0], "three": [1]}))

    assert [[], []] == [passed(alone, "two"), alone.agents["two"].acts]
    assert [[], []] == [others.agents[name].acts for name in ("two", "three")]


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


def test_a_signal_may_come_with_passing(worker: Any, world: Any, agent: Any) -> None:
    """What a brain wishes in its answer to a passing agent acts at the next boundary."""
    agents = learners(agent, "one", "two")
    agents["two"].signals = {1: "STOP_PHASE"}
    it = worker({"w": world(ends=9)}, agents, AskOne)
    awaited = {"one": [0, 1], "two": [0, 1]}
    it.run(common=True, verdict=Verdict("RESET", participants=awaited))

    assert [("STOP_PHASE", "brain:two", "because")] == [
        (c["signal"], c["issuer"], c["reason"]) for c in it.boundaries[0].causes
    ]


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


@pytest.mark.parametrize("settle", [False, True])
def test_a_decision_that_is_not_named_takes_what_is_newest(worker: Any, world: Any, settle: bool) -> None:
    """Named by no update it takes the rewards that are newest when its agent acts again, or at the end."""

    class Waits(Controller):
        async def advance(self) -> None:
            assert ("w.s",) == self.sensors["one"]
            if self.step % 2 == 0:
                self.held = await self.act(self.agents)
            await self.update(self.held, ())

    it = worker({"w": world(ends=5)}, controller=Waits)
    it.run(settle=settle)

    assert [([20], 20.0), ([40], 40.0), ([50], 50.0)] == [(row[6], row[7]) for row in it.records("actions")[0][-1]]
