"""A worker at its host: what is set up, who acts in a step, what is recorded, whom a failure names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ganglion.errors import CallFailed, RemoteProtocolError
from ganglion.sdk.controller import Controller, EpisodeEnded
from ganglion.wire.messages import (
    ControllerEvaluate,
    ControllerShutdown,
    Failure,
    FlowSignal,
    Go,
    Lost,
    Rebuilt,
    Verdict,
)
from ganglion.wire.verb import Verb

WORLD = "r/environment/w/0"


def author(advance: Any, **more: Any) -> type[Controller]:
    """Return a controller whose steps are this coroutine."""
    return type("Own", (Controller,), {"advance": advance, **more})


async def step(it: Any) -> Any:
    """Let all act, and go on."""
    return await it.update(await it.act(it.agents), it.agents)


# -- phases and evaluations -------------------------------------------------------------------------------------------


def test_a_failing_environment_fails_the_setup(worker: Any, world: Any) -> None:
    """What an environment answers with ERROR at its start is handed on, with whose it is."""
    broken = world()
    broken.start = lambda: Failure("author", "ValueError: no", "environment w, hook __init__", "Traceback")
    with pytest.raises(CallFailed) as caught:
        worker({"w": broken}).setup()

    assert (WORLD, "ValueError: no") == (caught.value.culprit, caught.value.remote_message)


def test_a_second_phase_begins_anew(worker: Any) -> None:
    """The same process serves the next phase; ticks count from 0, batches go on."""
    it = worker()
    it.run()
    it.hosted.ask("controller.shutdown", ControllerShutdown(True, True))
    it.run()

    assert [0, 1, 0, 1] == [row[1] for record in it.records("steps") for row in record[-1]]
    assert list(range(1, len(it.batches) + 1)) == [batch.number for batch in it.batches]


def test_rows_of_an_evaluation_stand_behind_the_round_of_training(worker: Any) -> None:
    """An episode is recorded with that round and the steps since the evaluation began; ticks go on."""
    it = worker()
    it.setup(evaluation=True)
    it.start(verdict=Verdict("RESET", round=7))
    it.verdicts = [Verdict("RESET", episode=1, round=7), Verdict("STOP_SIMULATION")]
    it.hosted.host.tick()
    it.hosted.ask("controller.evaluate", ControllerEvaluate(Verdict("RESET", episode=2, round=9)), "r/governor")
    it.hosted.host.tick()

    assert [("evaluate", 7, 2), ("evaluate", 7, 4), ("evaluate", 9, 2)] == [
        (record[2], *record[-2:]) for record in it.records("episode")
    ]
    assert [[0, 1], [2, 3], [4, 5]] == [[row[1] for row in record[-1]] for record in it.records("steps")]


def test_a_signal_that_comes_again_is_not_heard_twice(worker: Any) -> None:
    """The governor says signals again where they may have been lost: those with a number that was heard are dropped."""
    it = worker()
    it.setup()
    it.start()
    for number in (1, 2, 1, 2, 3, 0, 0):
        it.link.tell("r/governor", "", FlowSignal("RESET", "operator", number=number), Verb.SIGNAL)
    while it.link.inbox:
        it.hosted.participant.pump(0.0)

    assert [1, 2, 3, 0, 0] == [signal.number for signal in it.hosted.host._phase.signals]


# -- failures ---------------------------------------------------------------------------------------------------------


def test_a_restart_declares_as_before(worker: Any, world: Any) -> None:
    """New objects with other sensors than those of the phase are refused by name."""
    w = world(ends=1)
    it = worker({"w": w})
    it.verdicts = [Verdict("RESTART", episode=1)]
    ended = it.link.answers["governor.episode"]
    it.link.answers["governor.episode"] = lambda *asked: setattr(w, "sensor", "other") or ended(*asked)
    report = it.fail()

    assert WORLD == report.peer
    assert "sensors changed between episodes: s is missing" in report.failure.message


def test_a_silent_peer_is_reported(worker: Any) -> None:
    """An environment that does not answer in its time fails the worker by its name and the place."""
    it = worker()
    it.link.answers["environment.update"] = lambda peer, message: None
    report = it.fail()

    assert ("deadline", WORLD) == (report.failure.kind, report.peer)
    assert "environment w (worker 0) to answer environment.update (episode 0, step 1)" in report.failure.message


def test_a_lost_store_is_reported(worker: Any) -> None:
    """Without a store nothing more can be written."""
    it = worker()
    it.setup()
    it.start()
    it.hosted.host.gone(Lost("r/store", 1, "exit 1"))
    it.hosted.host.tick()
    [report] = it.failures

    assert ("store", "the store is gone: exit 1", "r/store") == (
        report.failure.kind, report.failure.message, report.peer,
    )  # fmt: skip


def test_a_failing_reset_is_reported(worker: Any, world: Any) -> None:
    """Between two episodes, too, the culprit is named; the ended episode stays as it ended."""
    w = world(ends=1)
    w.reset = lambda: Failure("author", "ValueError: no")
    it = worker({"w": w})
    it.verdicts = [Verdict("RESET", episode=1)]

    assert WORLD == it.fail().peer
    assert ["terminated"] == [record[9] for record in it.records("episode")]


@pytest.mark.parametrize("rows", [None, [], [[1], [1]], [[1, 2]], [5]])
def test_wrong_setpoints_fail_by_the_muscles_name(worker: Any, agent: Any, rows: Any) -> None:
    """An answer without one row of the agent's actuators is blamed on the muscle."""
    one = agent()
    act = one.act
    one.act = lambda message: replace(act(message), setpoints=rows)
    report = worker(agents={"one": one}).fail()

    assert ("protocol", "r/muscle/one/0") == (report.failure.kind, report.peer)
    assert "expected one row of 1 values" in report.failure.message


@pytest.mark.parametrize(("losses", "lies"), [([4], True), ([3, 6, 9], False)])
def test_an_environment_that_cannot_be_led_back_is_named(worker: Any, world: Any, losses: Any, lies: bool) -> None:
    """One that answers otherwise than before it was lost, and one that dies at one step again and again: by place."""
    it = worker({"w": world(ends=3)})
    asked: list[str] = []

    def frail(call: str, answer: Any) -> Any:
        def ask(peer: str, message: Any) -> Any:
            asked.append(call)
            if len(asked) in losses:
                it.link.lose(peer)
                return None
            found = answer(peer, message)
            return replace(found, readings=[[99]]) if lies and len(asked) > losses[0] and call == "update" else found

        return ask

    for call in ("start", "update", "reset"):
        it.link.answers[f"environment.{call}"] = frail(call, it.link.answers[f"environment.{call}"])
    it.link.answers["governor.rebuild"] = lambda peer, message: Rebuilt(True)
    failure = it.fail(mends=True).failure

    if lies:
        text = "environment w (worker 0), episode 0, step 1: environment.update is answered otherwise than before it"
        assert ("nondeterministic", f"{text} was lost") == (failure.kind, failure.message)
    else:
        assert "poison: environment w (worker 0) died 3 times at episode 0, step 2" in failure.message


# -- controllers of one's own -----------------------------------------------------------------------------------------


def test_after_the_end_nothing_is_asked(worker: Any) -> None:
    """A controller that goes on after EpisodeEnded gets it again."""

    async def stubborn(it: Any) -> None:
        for _ in range(5):
            try:
                await step(it)
            except EpisodeEnded:
                continue

    it = worker(controller=type("Stubborn", (Controller,), {"simulate": stubborn}))
    it.run()

    assert [2] == [report.steps for report in it.reports]


async def breaks(it: Any) -> None:
    """Make a step, then divide."""
    await step(it)
    raise ZeroDivisionError("by nothing")


async def asks_twice(it: Any) -> None:
    """Ask one agent twice in the second step."""
    if it.step == 1:
        await it.act(["one"])
    await step(it)


async def rewards_stranger(it: Any) -> None:
    """Name an agent that there is not as one that acted."""
    await it.update(await it.act(["one"]), ["one", "eno"])


def broken(it: Any) -> None:
    """Fail to be made."""
    raise ZeroDivisionError("no")


STRANGER = "there is no agent '{}', expected some of one"
TWICE = "agent one is asked twice in step 2: an agent acts once in a step"


@pytest.mark.parametrize(
    ("members", "at", "message"),
    [
        ({"__init__": broken}, 0, "ZeroDivisionError: no"),
        ({"simulate": step}, 1, ""),
        ({"advance": breaks}, 1, "ZeroDivisionError: by nothing"),
        ({"advance": asks_twice}, 1, TWICE),
        ({"advance": lambda it: it.act(["two"])}, 0, STRANGER.format("two")),
        ({"advance": rewards_stranger}, 0, STRANGER.format("eno")),
        (
            {"advance": lambda it: it.update({"one": [1, 2]}, [])},
            0,
            "setpoints of agent one: expected 1 values, found 2",
        ),
        ({"advance": lambda it: it.update({"eno": [1]}, [])}, 0, STRANGER.format("eno")),
        ({"advance": step, "turn": lambda it, n: ["eno"]}, 0, STRANGER.format("eno")),
        ({"simulate": step, "turn": lambda it, n: []}, 0, "agent one is asked in step 1, but turn(0) did not say so"),
    ],
)
def test_a_controllers_mistake_names_it(worker: Any, members: Any, at: int, message: str) -> None:
    """What it raises, an episode given up, strangers, or what agents cannot have: by class, worker, step and hook."""
    it = worker(controller=type("Own", (Controller,), members))
    report = it.fail()
    hook = "__init__" if "__init__" in members else "simulate"
    place = f", step {at}" if hook == "simulate" else ""

    assert ("author", True) == (report.failure.kind, report.failure.message.startswith(message))
    assert f"controller (worker 0), class Own{place}, hook {hook}" == report.failure.where
    assert (0, 0, at, None) == (report.worker, report.episode, report.step, report.peer)
    assert at == sum(len(record[-1]) for record in it.records("steps"))
    assert message.startswith("ZeroDivision") <= (__file__ in (report.failure.traceback or ""))


@pytest.mark.parametrize(("act", "steps"), [(2, 2), (4, 3)])
def test_a_signal_of_a_brain_acts_at_the_next_boundary(
    worker: Any, world: Any, agent: Any, act: int, steps: int
) -> None:
    """A wish that came with an act acts after that step; one that came with the last answer goes into the report."""
    one = agent()
    one.signals = {act: "STOP_PHASE"}
    it = worker({"w": world(ends=3)}, {"one": one})
    it.run()

    assert steps == it.reports[0].steps
    [cause] = [cause for cause in it.reports[0].causes if cause["signal"] == "STOP_PHASE"]
    assert ("brain:one", "because") == (cause["issuer"], cause["reason"])


# -- records ----------------------------------------------------------------------------------------------------------


def test_an_agent_without_objectives_has_no_mean(worker: Any, agent: Any) -> None:
    """None is no value: it is in no sum."""
    one = agent()
    act = one.act
    one.act = lambda message: replace(it := act(message), objective=None if it.objective is None else [None])
    it = worker(agents={"one": one})
    it.run()

    assert {"one": {"decisions": 2, "sum": None, "mean": None}} == it.reports[0].agents
    assert [None, None] == [row[7] for row in it.records("actions")[0][-1]]


def test_rows_of_an_endless_episode_leave_early(worker: Any, world: Any) -> None:
    """Rows go to the store before the episode ends, so that memory does not grow with its length."""
    it = worker({"w": world(ends=700)})
    it.run()

    assert [700] * 2 == [sum(len(record[-1]) for record in it.records(kind)) for kind in ("steps", "actions")]
    assert len(it.batches) > 3


@pytest.mark.parametrize("settle", [False, True])
def test_a_decision_takes_the_rewards_of_one_step(worker: Any, world: Any, settle: bool) -> None:
    """Setpoints that are held bring no second reward: none is given twice, and settling changes no row."""
    seen: list[Any] = []

    async def holds(it: Any) -> None:
        if it.step % 2 == 0:
            it.held = await it.act(it.agents)
        seen.append((await it.update(it.held, it.agents)).rewards)

    it = worker({"w": world(ends=5)}, controller=author(holds))
    it.run(settle=settle)
    rows = it.records("actions")[0][-1]

    assert [([0], [1], [10], 10.0), ([2], [2], [30], 30.0), ([4], [3], [50], 50.0)] == [
        (row[3], row[4], row[6], row[7]) for row in rows
    ]
    assert [{"one": [10 * step]} for step in (1, 2, 3, 4)] == seen


@pytest.mark.parametrize(
    ("wanted", "found"), [(None, [10, 10]), (["v.r"], [10]), (["w"], [10]), (["w.r", "v"], [10, 10]), ([], [])]
)
def test_an_agent_gets_the_rewards_that_it_names(worker: Any, world: Any, agent: Any, wanted: Any, found: Any) -> None:
    """Ids or environments; none named means those of the environments that it touches, here both of three."""
    one = agent(["v.a"], ["w.s"], rewards=wanted)
    worker({"v": world(ends=1), "w": world(), "x": world([])}, {"one": one}).run()

    assert [found] == one.acts[-1].rewards


def test_a_strange_reward_is_refused(worker: Any, agent: Any) -> None:
    """A reward that no environment declares is named, with those that there are."""
    it = worker(agents={"one": agent(rewards=["w.luck"])})
    it.setup()
    with pytest.raises(RemoteProtocolError, match=r"agent one: rewards: 'w\.luck' is no reward of w\.r"):
        it.start()


# -- whom brains await ------------------------------------------------------------------------------------------------
AWAITED = {"one": [0, 1], "two": [0, 1]}


def learners(agent: Any, *names: str) -> dict[str, Any]:
    """Return agents of these names that have brains."""
    return {name: agent(["w.a"], ["w.s"], brain=f"r/brain/{name}") for name in names}


def passed(it: Any) -> list[list[tuple[int, list[int] | None]]]:
    """Return round and awaited workers of each act in which an agent passed."""
    return [[(act.round, act.workers) for act in one.acts if act.passing] for one in it.agents.values()]


def test_in_a_step_without_an_act_all_pass(worker: Any, world: Any, agent: Any) -> None:
    """A controller that only updates keeps nobody waiting, whatever it has announced."""

    async def announces(it: Any) -> None:
        await it.update(await it.act(it.agents) if it.step == 0 else {}, [])

    all_turns = author(announces, turn=lambda it, n: it.agents)
    it = worker({"w": world(ends=2)}, learners(agent, "one", "two"), all_turns)
    it.goes = [Go(round=1, participants=AWAITED)]
    it.run(common=True, verdict=Verdict("RESET", participants=AWAITED))

    assert [[(1, [0, 1])]] * 2 == passed(it)
    assert [("one", "act"), ("two", "act"), ("w", "update")] * 2 == it.steps()[:6]


def test_what_is_not_announced_passes_at_once(worker: Any, world: Any, agent: Any) -> None:
    """In the first round everybody is awaited, before anybody has announced: those who do not act pass then."""

    async def turns(it: Any) -> None:
        await it.update(await it.act(it.turn(it.step)), it.agents)

    it = worker(
        {"w": world(ends=2)}, learners(agent, "one", "two"), author(turns, turn=lambda it, n: [it.agents[n % 2]])
    )
    it.goes = [Go(round=1, participants={"one": [], "two": [0, 1]})]
    it.run(common=True, verdict=Verdict("RESET", participants=AWAITED))

    assert [[], [(0, [0, 1])]] == passed(it)


def test_a_turn_that_comes_out_otherwise_is_refused(worker: Any, world: Any, agent: Any) -> None:
    """Brains await whom `turn` named when it was asked at the boundary: who was not named then does not act."""
    it = worker({"w": world(ends=3)}, learners(agent, "one"), author(step, turn=lambda it, n: it.agents))
    it.goes = [Go(round=1, participants={"one": [1]})]
    report = it.fail(common=True, verdict=Verdict("RESET", participants={"one": [0, 1]}))

    text = "agent one is asked in step 2, but turn(1) did not say so when it was asked for the first time"
    assert text == report.failure.message
