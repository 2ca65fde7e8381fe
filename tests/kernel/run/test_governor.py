from __future__ import annotations

from typing import Any

import pytest

from ganglion.limits import LEAVE_EPISODE_S
from ganglion.run.effect import Answer, Await, Event, Finish, PhaseCheckpoint, Stage, Steer
from ganglion.run.plan import EnvironmentPlan, ProgramPlan, Recovery
from ganglion.wire.messages import Failure, FlowSignal, Rebuild, Rebuilt, Signalled


def learner(kit: Any, index: int = 0, **more: Any) -> Any:
    """Return a phase whose agent learns."""
    return kit.phase(index, agents=[kit.agent(brain="dummy")], mode="train", **more)


def running(farm: Any) -> bool:
    """Say whether the phase's workers have begun and made a step."""
    return farm.governor.stage is Stage.RUNNING and farm.steps > 2


# -- learning before acting -------------------------------------------------------------------------------------------
def test_brains_learn_from_recordings_before_any_worker_begins(kit: Any) -> None:
    """What is recorded is fetched before anybody is started; brains learn when all are set up, workers begin then."""
    agents = [kit.agent(name, brain="dummy", replay=[{}]) for name in ("ada", "bob")]
    phase = kit.phase(0, agents=[*agents, kit.agent("cyd", brain="dummy")], mode="train", workers=2)
    farm = kit.Farm(kit.plan(phase), [("limit", kit.FakeLimit(1), "phase")]).begin().run()
    calls = [ask.call for ask in farm.asks]

    assert [("pretrain", "ada"), ("pretrain", "bob")] == [a.tag for a in farm.asks if a.tag[0] == "pretrain"]
    assert ["replay/ada", "replay/bob"] == [a.message.folder for a in farm.asks if a.tag[0] == "pretrain"]
    first = calls.index("brain.pretrain")
    assert (["brain.setup"] * 3, "controller.start") == (calls[first - 3 : first], calls[first + 2])
    assert "finished" == farm.finish.status


@pytest.mark.parametrize("index", [0, 1])
def test_recordings_that_do_not_fit_end_the_run_before_a_brain_is_set_up(kit: Any, index: int) -> None:
    """The document is at fault, and no brain of the phase has been made."""
    replaying = kit.agent(brain="dummy", replay=[{"experiment_run": "other"}])
    asking = kit.phase(index, agents=[replaying], mode="train")
    phases = [asking] if index == 0 else [learner(kit), asking]
    farm = kit.Farm(kit.plan(*phases), [("limit", kit.FakeLimit(1), "phase")]).begin().run()

    assert ("failed", 2, "failed: run.yml:3:4: sensors of ada differ") == (
        farm.finish.status,
        farm.finish.exit_status,
        farm.finish.reason,
    )
    assert index == sum(ask.call == "brain.setup" for ask in farm.asks)


# -- operators --------------------------------------------------------------------------------------------------------
def _answer(farm: Any, wish: FlowSignal, phase: str | None = None) -> tuple[bool, str]:
    answer = farm.signal(wish, phase)
    return answer.accepted, answer.text


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize(
    ("signal", "status", "reason"),
    [("STOP_PHASE", "completed", "operator: tea"), ("SHUTDOWN", "shutdown", "operator: tea")],
)
def test_operator_stops(kit: Any, learns: bool, signal: str, status: str, reason: str) -> None:
    """STOP_PHASE ends this phase and goes on with the next; SHUTDOWN ends the run, with success."""
    made = learner(kit, workers=2) if learns else kit.phase(workers=2)
    farm = kit.Farm(
        kit.plan(made, kit.phase(1)), lambda p: [("limit", kit.FakeLimit(9 if p.index == 0 else 1), "phase")]
    )
    farm.begin().run(until=lambda: running(farm))
    assert (True, "acts at the next step boundary of phase 0") == _answer(
        farm, FlowSignal(signal, "operator", "tea"), "0"
    )
    farm.run()

    assert Finish("finished", status, 0) == farm.finish
    assert reason == farm.records("phase")[1][4]
    assert (2 if signal == "STOP_PHASE" else 1) * 2 == len(farm.records("phase"))
    assert [signal, "operator", "tea"] == farm.records("signal")[0][4:7]


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("end", ["CONTINUE", "RESET", "STOP_PHASE"])
def test_pause_lasts_until_something_else(kit: Any, learns: bool, end: str) -> None:
    """A paused phase stands still, however long; CONTINUE or a greater signal ends the pause."""
    made = learner(kit, workers=2) if learns else kit.phase(workers=2)
    farm = kit.Farm(kit.plan(made), [("max_episodes", kit.FakeLimit(2), "phase")], lambda w, e: 30)
    farm.begin().run(until=lambda: running(farm))
    assert farm.signal(FlowSignal("PAUSE", "operator")) is None, "who asks is told when they stand"
    farm.run()
    stood = farm.steps
    farm.run()
    farm.tick(1.0)
    assert (None, stood) == (farm.finish, farm.steps)
    assert stood < 30
    steps = [worker.step for worker in farm.workers]
    lines = [f"worker {w} is paused after step {step} of episode 0" for w, step in enumerate(steps)]
    assert Signalled(True, "\n".join(lines)) == farm.answers["operator"]
    assert {"phase": 0, "workers": [0, 1], "moving": False} == farm.events("phase.paused")[-1]
    assert not farm.events("phase.resumed")

    _answer(farm, FlowSignal(end, "operator"))
    farm.run()
    assert [{"phase": 0}] == farm.events("phase.resumed")
    assert Finish("finished", "completed", 0) == farm.finish
    assert {"CONTINUE": 120, "RESET": stood + 60, "STOP_PHASE": stood}[end] == farm.steps


def test_it_is_told_when_the_last_worker_that_moved_is_through(kit: Any) -> None:
    """One worker is paused alone, the other one ends its part: from then on all that are left stand."""
    farm = kit.Farm(kit.plan(kit.phase(workers=2)), [("limit", kit.FakeLimit(9), "phase")]).begin()
    farm.run(until=lambda: running(farm))
    farm.signal(FlowSignal("PAUSE", "operator", worker=0))
    farm.run(until=lambda: farm.events("phase.paused"))
    farm.signal(FlowSignal("STOP_SIMULATION", "operator", worker=1))
    farm.run()

    expected = [{"phase": 0, "workers": [0], "moving": moving} for moving in (True, False)]
    assert expected == farm.events("phase.paused")


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("now", [False, True])
def test_interrupt(kit: Any, learns: bool, now: bool) -> None:
    """An interrupted run ends with 130: after the running episodes, or at the next boundary; brains still store."""
    made = learner(kit, workers=2) if learns else kit.phase(workers=2)
    farm = kit.Farm(kit.plan(made, kit.phase(1)), [("max_episodes", kit.FakeLimit(9), "phase")], lambda w, e: 12)
    farm.begin().run(until=lambda: running(farm))
    farm.obey(farm.governor.stop(now, "Ctrl-C", 0.0))
    farm.run()

    assert Finish("interrupted", "interrupted: Ctrl-C", 130) == farm.finish
    assert ["interrupted" if now else "terminated"] * 2 == [e[3] for e in farm.episodes]
    assert ["interrupted", "interrupted"] == farm.records("phase")[-1][3:]
    assert 2 == len(farm.records("phase"))
    assert learns == bool(farm.records("brain"))


@pytest.mark.parametrize("cut_before", [False, True])
def test_a_worker_that_does_not_answer_keeps_no_interrupted_run(kit: Any, cut_before: bool) -> None:
    """Asked for at once twice, the run ends with the second reason, whatever its workers are at."""
    farm = kit.Farm(kit.plan(kit.phase(workers=2)), [("max_episodes", kit.FakeLimit(9), "phase")], lambda w, e: 10_000)
    farm.begin().run(until=lambda: running(farm))
    farm.obey(farm.governor.stop(False, "Ctrl-C", 0.0))
    if cut_before:
        farm.obey(farm.governor.tick(LEAVE_EPISODE_S))
    farm.obey(farm.governor.stop(True, "Ctrl-C", LEAVE_EPISODE_S))
    assert farm.finish is None
    farm.obey(farm.governor.stop(True, "Ctrl-C; environment hill (worker 0) did not answer", LEAVE_EPISODE_S))

    assert farm.finish is not None
    reason = "interrupted: Ctrl-C; environment hill (worker 0) did not answer"
    assert ("interrupted", reason, 130) == (farm.finish.status, farm.finish.reason, farm.finish.exit_status)
    assert ["end", "interrupted", reason] == farm.effects[-2].record[:3]


# -- failing ----------------------------------------------------------------------------------------------------------
def failing(kit: Any, learns: bool) -> Any:
    """Return a running farm of three workers."""
    made = learner(kit, workers=3) if learns else kit.phase(workers=3)
    farm = kit.Farm(kit.plan(made, kit.phase(1)), [("max_episodes", kit.FakeLimit(9), "phase")], lambda w, e: 12)
    return farm.begin().run(until=lambda: running(farm))


def test_worker_that_does_not_close_is_not_awaited_for_ever(kit: Any) -> None:
    """Workers that do not close their episodes in time are left alone: the run ends by the clock."""
    farm = failing(kit, False)
    for worker in farm.workers:
        worker.state = "gone"
    farm.obey(farm.governor.lost("farm-1/muscle/ada/0", "killed", farm.now_s))
    farm.tick(1.0)
    assert farm.finish is None

    farm.tick(0.5)
    assert farm.finish is not None


@pytest.mark.parametrize(("kind", "status"), [("document", 2), ("plugin", 2), ("usage", 2), ("author", 1), ("lost", 1)])
def test_exit_status_of_what_never_began(kit: Any, kind: str, status: int) -> None:
    """A fault of document or plugin before the first step ends with 2: nothing was run."""
    farm = kit.Farm(kit.plan(kit.phase())).begin()
    farm.run(until=lambda: farm.governor.stage is Stage.SETTING_UP)
    farm.obey(farm.governor.failed(("setup", 0), Failure(kind, "boom"), None, 0.0))

    assert farm.finish is not None
    assert status == farm.finish.exit_status


def test_workers_that_declare_differently_fail_the_run(kit: Any) -> None:
    """The copies of an environment must declare the same."""
    farm = kit.Farm(kit.plan(kit.phase(workers=2)))
    farm.declares = lambda w: {"hill": {**kit.declared, "sensors": kit.declared["sensors"][w:]}}
    farm.begin().run()

    assert farm.finish is not None
    assert "failed: environment hill declares otherwise in worker 1 than in worker 0" == farm.finish.reason


# -- waiting ----------------------------------------------------------------------------------------------------------
def test_waits_are_told_and_end(kit: Any) -> None:
    """Who does not join is told of by name at 2, 4, 8 ... seconds, and fails the run at the deadline."""
    farm = kit.Farm(kit.plan(kit.phase(deadlines_s={"join": 10.0})))
    farm.silent.add("farm-1/muscle/ada/0")
    farm.begin().run()
    for _ in range(39):
        farm.tick(0.25)
    texts = [event["text"] for event in farm.events("waiting")]

    assert [
        f"waiting {t:.1f} s for muscle ada (worker 0) to join; gives up in {10 - t:.1f} s" for t in (2.0, 4.0, 8.0)
    ] == texts
    assert farm.finish is None

    farm.tick(0.25)
    assert farm.finish is not None
    assert "failed: waited 10.0 s for muscle ada (worker 0) to join" == farm.finish.reason
    assert "farm-1/muscle/ada/0" == farm.finish.peer


def test_who_attaches_is_awaited_by_name_for_ever(kit: Any) -> None:
    """A program that somebody else starts is awaited without a deadline; the wait says what to do."""
    farm = kit.Farm(kit.plan(kit.phase(environments=[EnvironmentPlan("hill", program=ProgramPlan())])))
    farm.silent.add("farm-1/environment/hill/0")
    farm.begin().run()
    for _ in range(100):
        farm.tick(60.0)

    assert farm.finish is None
    assert farm.events("waiting")[0]["text"].endswith(
        "for environment hill (worker 0) to attach: start it with GANGLION_NAME=hill or ganglion attach"
    )
    farm.obey(farm.governor.joined("farm-1/environment/hill/0", "json", farm.now_s))
    assert Stage.SETTING_UP is farm.governor.stage
    assert "json" == farm.asks[-1].message.environments[0]["content"]


def test_store_is_awaited_too(kit: Any) -> None:
    """A run with a store does not begin before the store has joined, and fails when it is lost."""
    farm = kit.Farm(kit.plan(kit.phase()), [("limit", kit.FakeLimit(1), "phase")], store="farm-1/store")
    farm.silent.add("farm-1/store")
    farm.begin().run()
    assert Stage.JOINING is farm.governor.stage
    farm.tick(2.0)
    assert ["waiting 2.0 s for the store to join; gives up in 28.0 s"] == [e["text"] for e in farm.events("waiting")]

    farm.obey(farm.governor.joined("farm-1/store", "msgpack", farm.now_s))
    farm.run(until=lambda: running(farm))
    farm.obey(farm.governor.lost("farm-1/store", "disk full", farm.now_s))
    assert [Steer] == [type(e) for e in farm.effects if isinstance(e, Steer)]
    farm.run()
    assert farm.finish is not None
    assert "failed: the store is gone: disk full" == farm.finish.reason


# -- beginning again ---------------------------------------------------------------------------------------------------
def test_a_cut_is_made_at_the_begin_of_each_phase(kit: Any) -> None:
    """It knows the models that earlier phases have left."""
    farm = kit.Farm(kit.plan(learner(kit), kit.phase(1)), [("limit", kit.FakeLimit(1), "phase")]).begin().run()
    checkpoints = [effect for effect in farm.effects if isinstance(effect, PhaseCheckpoint)]

    assert [PhaseCheckpoint(0, []), PhaseCheckpoint(1, [[0, "ada", "/results/brains/0/ada"]])] == checkpoints


# -- losses that cost an episode --------------------------------------------------------------------------------------
HUT = "farm-1/environment/hill/0"


def test_who_is_lost_while_the_phase_is_set_up_is_awaited(kit: Any) -> None:
    """A controller that waits for a successor hears of it in any stage of the phase, and the run does not fail."""
    farm = kit.Farm(kit.plan(kit.phase(on_loss="restart")))
    farm.begin().run(until=lambda: farm.governor.stage is Stage.SETTING_UP)
    lost = farm.governor.lost(HUT, "exit 9", farm.now_s)
    asked = farm.governor.rebuild("token", Rebuild(0, HUT), farm.now_s)
    back = farm.governor.joined(HUT, "msgpack", farm.now_s)

    assert [Event("peer.lost", {"name": HUT, "reason": "exit 9"})] == lost
    assert [] == asked
    assert Answer("token", Rebuilt(True)) in back


@pytest.mark.parametrize("command", [None, ["hill"]])
def test_a_program_that_a_new_broker_has_not_met_is_awaited(kit: Any, command: list[str] | None) -> None:
    """The broker is asked to tell when the program joins it; what the lost broker told of it does not count."""
    farm = kit.Farm(kit.plan(kit.phase(environments=[EnvironmentPlan("hill", program=ProgramPlan(command))])))
    farm.begin().run(until=lambda: running(farm))
    known = farm.governor.rebuild("known", Rebuild(0, HUT), farm.now_s)
    asked = farm.governor.rebuild("token", Rebuild(0, HUT, unreachable=True), farm.now_s)
    back = farm.governor.joined(HUT, "msgpack", farm.now_s)

    assert [Answer("known", Rebuilt(True))] == known
    assert [Await([HUT])] == asked
    assert Answer("token", Rebuilt(True)) in back


def test_who_does_not_come_back_is_late(kit: Any) -> None:
    """The successor has the time of its own entry to join; then the run fails by its name."""
    slow = EnvironmentPlan("hill", recovery=Recovery(on_loss="restart", deadlines_s={"join": 7.0}))
    farm = kit.Farm(kit.plan(kit.phase(environments=[slow])))
    farm.begin().run(until=lambda: farm.governor.stage is Stage.RUNNING)
    farm.obey(farm.governor.lost(HUT, "exit 9", farm.now_s))
    farm.tick(6.9)
    assert farm.governor.stage is Stage.RUNNING
    farm.tick(0.2)
    farm.run()

    assert farm.finish is not None
    assert "environment hill (worker 0) to come back" in farm.finish.reason
