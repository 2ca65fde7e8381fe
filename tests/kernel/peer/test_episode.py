from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.limits import BODY_BYTES
from ganglion.sdk import Signal
from ganglion.sdk.condition import EpisodeView, TerminationCondition
from ganglion.sdk.controller import Controller, EpisodeEnded
from ganglion.wire.messages import EpisodeEnded as Report
from ganglion.wire.messages import Verdict


class WhenAll(TerminationCondition):
    """End the episode when all environments have ended."""

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


def test_each_episode_of_turns_begins_with_the_first(
    worker: Any, world: Any, agent: Any, in_turns: Any
) -> None:
    """Turns count from the beginning of the episode."""
    agents = {"one": agent(["w.a"]), "two": agent(["w.b"])}
    it = worker({"w": world(["a", "b"], ends=1)}, agents, in_turns)
    it.verdicts = [Verdict("RESET", episode=1)]
    it.run()

    assert (2, 0) == (agents["one"].decisions, agents["two"].decisions)
    assert [{"one": {"decisions": 1, "sum": 10.0, "mean": 10.0}}] * 2 == [
        report.agents for report in it.reports
    ]


def test_who_has_not_decided_is_not_told_of_the_end(
    worker: Any, world: Any, agent: Any, in_turns: Any
) -> None:
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
            [
                [1, 0, 1, None, [1], [1], [10], False, False],
                [2, 1, 2, None, [2], [2], [20], True, False],
            ],
        ]
    ] == it.records("steps")


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

    assert [["episode", 0, "train", 0, None, 0, 2, True, False, "terminated", 2]] == it.records("episode")
    assert "episode" == [record[0] for batch in it.batches for record in batch.records][-1]


def test_rounds_go_on_over_episodes(worker: Any) -> None:
    """Ticks count the worker's steps in the phase, steps and decisions those of the episode."""
    it = worker()
    it.verdicts = [Verdict("RESET", episode=1)]
    it.run()

    assert [[0, 1], [2, 3]] == [[row[1] for row in record[-1]] for record in it.records("steps")]
    assert [[1, 2], [1, 2]] == [[row[0] for row in record[-1]] for record in it.records("steps")]
    assert [[0, 1], [0, 1]] == [[row[1] for row in record[-1]] for record in it.records("actions")]
    assert [2, 4] == [record[-1] for record in it.records("episode")]


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


def test_rewards_declared_late_reach_agent_and_store(worker: Any, world: Any) -> None:
    """Where the first update declares the rewards, they are recorded then, and told to each muscle once."""
    it = worker({"w": world(ends=3, late=True)})
    it.run()
    rows = [(record[2], record[3], [row[0] for row in record[5]]) for record in it.records("declare")]

    assert [(None, "one", ["w.r"]), ("w", None, ["w.r"])] == rows
    assert [None, ["w.r"], None, None] == [
        act.reward_ids and [row["id"] for row in act.reward_ids] for act in it.agents["one"].acts
    ]
    assert [10.0, 20.0, 30.0] == [row[7] for row in it.records("actions")[0][-1]]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, [10, 10]),
        (["v.r"], [10]),
        (["w"], [10]),
        (["w.r", "v"], [10, 10]),
        ([], []),
    ],
)
def test_an_agent_gets_the_rewards_that_it_names(
    worker: Any, world: Any, agent: Any, wanted: list[str] | None, found: list[int]
) -> None:
    """Ids or environments; none named means those of the environments that it touches, here both of three."""
    one = agent(["v.a"], ["w.s"], rewards=wanted)
    it = worker({"v": world(ends=1), "w": world(), "x": world([])}, {"one": one})
    it.run()

    assert [found] == one.acts[-1].rewards


def test_a_strange_reward_is_refused(worker: Any, agent: Any) -> None:
    """A reward that no environment declares is named, with those that there are."""
    it = worker(agents={"one": agent(rewards=["w.luck"])})
    it.setup()
    with pytest.raises(RemoteProtocolError, match=r"agent one: rewards: 'w\.luck' is no reward of w\.r"):
        it.start()


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
        (it.failures[0].failure.where or "").replace(
            "test_a_controller_may_not_give_up_its_episode.<locals>.", ""
        ),
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
