"""The classes that authors inherit from answer to their old names."""

from __future__ import annotations

import asyncio
import importlib
import io
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ganglion_palaestrai
from ganglion import sdk
from ganglion.sdk import (
    Box,
    Discrete,
    EnvironmentState,
    EpisodeMeans,
    EpisodeView,
    Memory,
    Mode,
    Models,
    PhaseView,
    Setpoints,
    Signal,
    StepResult,
    StoreError,
    WorkerView,
)
from ganglion_palaestrai import types
from ganglion_palaestrai.agent import Brain, BrainDumper, Muscle, Objective
from ganglion_palaestrai.dumper import NoBrainFoundError
from ganglion_palaestrai.environment import EnvironmentStateTransformer, Reward
from ganglion_palaestrai.experiment import TerminationCondition
from ganglion_palaestrai.information import ActuatorInformation, RewardInformation, SensorInformation
from ganglion_palaestrai.protocol import GovernorView, ObjectiveMemory
from ganglion_palaestrai.simulation import FlowControlChange, SimulationController
from ganglion_palaestrai.types import SimulationFlowControl

Make = Callable[..., Any]
SPACE = Discrete(5)


class Arm(Muscle):
    """Set each actuator to its sensor, by old names."""

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        for sensor, actuator in zip(sensors, actuators_available, strict=True):
            actuator.setpoint = sensor.sensor_value
        return actuators_available, self._mode


class Slow(Muscle):
    """Decide in a coroutine."""

    async def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        await asyncio.sleep(0)
        actuators_available[0].setpoint = 2
        return actuators_available


class Late(Arm):
    """Inherit how to decide."""

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        return super().propose_actions(sensors, actuators_available)


class Head(Brain):
    """Keep one number, in two dumps."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 1

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        return self.number

    def store(self) -> None:
        for tag in (None, "twin"):
            BrainDumper.store_brain_dump(io.BytesIO(bytes([self.number])), self._dumpers, tag)

    def load(self) -> None:
        found = BrainDumper.load_brain_dump(self._dumpers)
        assert found is not None
        self.number = found.read()[0]


def informations() -> tuple[list[sdk.SensorInformation], list[sdk.ActuatorInformation]]:
    """Return a sensor and an actuator as the bus makes them."""
    return [sdk.SensorInformation(3, SPACE, "e.s")], [sdk.ActuatorInformation(None, SPACE, "e.a")]


@pytest.mark.parametrize("kind", [Arm, Late])
def test_muscles_see_old_names(make: Make, kind: type[Muscle]) -> None:
    """What a muscle is given answers to the old names, once each, also where a method is inherited."""
    muscle = make(kind, mode=Mode.TEST)
    with pytest.warns(DeprecationWarning, match="is called") as caught:
        actuators, data = muscle.propose_actions(*informations())

    assert (3, Mode.TEST, 2) == (actuators[0].value, data, len(caught))


def test_muscles_may_decide_in_a_coroutine(make: Make) -> None:
    """A coroutine stays one."""
    with pytest.warns(DeprecationWarning, match="is called"):
        (actuator,) = asyncio.run(make(Slow).propose_actions(*informations()))

    assert 2 == actuator.value


def test_private_names_of_old(make: Make) -> None:
    """Attributes that authors reached for are what the bus has set."""
    head, arm = make(Head, seed=5), make(Arm)
    head.memory, arm.memory = Memory(), Memory()

    assert (head.memory, 5, "part") == (head._memory, head._seed, head._name)
    assert (arm.memory, "part", Mode.TRAIN) == (arm._memory, arm._uid, arm._mode)


@pytest.mark.parametrize(("found", "expected"), [(np.array([]), None), (np.array([2.0]), np.array([2.0])), (3, 3)])
def test_an_empty_array_is_no_objective(make: Make, found: Any, expected: Any) -> None:
    """An objective may say that it has no value by an empty array; all else passes as it is."""

    class Goal(Objective):
        def __init__(self, params: Any = None) -> None:
            super().__init__(params)

        def internal_reward(self, memory: Memory, **kwargs: Any) -> Any:
            return found

    assert expected == make(Goal).internal_reward(Memory())


class Bright(Reward):
    """Sum readings, scaled."""

    def __call__(self, *states: Any) -> Any:
        return sum(it.sensor_value for it in states[0].sensor_information) * self._parameters["scale"]


class Lens(EnvironmentStateTransformer):
    """Keep the rewards in the world's state."""

    def __call__(self, state: Any) -> Any:
        state.world_state = [self._params["name"], *(it.reward_value for it in state.rewards)]
        return state


def state() -> EnvironmentState:
    """Return a state as an environment of another project makes it."""
    readings = [sdk.SensorInformation(value, SPACE, str(value)) for value in (1, 2)]
    return EnvironmentState(readings, [sdk.RewardInformation(4, SPACE, "r")])


def test_rewards_and_transformers_see_old_names(make: Make) -> None:
    """Readings and rewards of any state answer to the old names; the parameters are where they were."""
    with pytest.warns(DeprecationWarning, match="SensorInformation.sensor_value is called value"):
        assert 6 == make(Bright, scale=2)(state())
    with pytest.warns(DeprecationWarning, match="RewardInformation.reward_value is called value"):
        assert ["x", 4] == make(Lens, name="x")(state()).world_state


class Sums(TerminationCondition):
    """End an episode where the objectives of an agent reach a sum."""

    def brain_flow_control(self, brain: Any, message: Any) -> Any:
        self.seen = (*getattr(self, "seen", ()), (brain.name, message.sender, message.done, len(brain.memory)))
        full = sum(brain.memory.tail(3).objective) >= 6
        return (SimulationFlowControl.RESTART if full else SimulationFlowControl.CONTINUE), {"data": 1}


class Ends(TerminationCondition):
    """End an episode with its environment, and the phase when every worker has had two."""

    def check_termination(self, message: Any, component: Any = None) -> bool:
        return bool(message.is_terminal)

    def phase_flow_control(self, run_governor: Any, message: Any) -> Any:
        self.data = message.flow_control_data
        counts = dict(run_governor.current_episode_counts)
        counts[message.sender] += 1
        run, phase = run_governor.experiment_run, run_governor.current_phase
        if all(count >= run.get_episodes(phase) for count in counts.values()):
            assert len(counts) == run.get_worker(phase)
            return SimulationFlowControl.STOP_PHASE, None
        if counts[message.sender] >= run.get_episodes(phase):
            return SimulationFlowControl.STOP_SIMULATION
        return SimulationFlowControl.CONTINUE, None


class Gone(TerminationCondition):
    """Pause a worker without which an environment has gone."""

    def environment_flow_control(self, environment: Any) -> Any:
        return Signal.PAUSE if environment.done and environment.uid == "b" else Signal.CONTINUE


def view(terminated: dict[str, bool], objectives: dict[str, list[float]] | None = None) -> EpisodeView:
    """Return what a condition is shown at a step boundary."""
    return EpisodeView(1, Mode.TRAIN, 0, 3, terminated, dict.fromkeys(terminated, False), {}, objectives or {})


def phase(finished: list[int], asked: list[int], fired: dict[str, str] | None = None) -> PhaseView:
    """Return what a condition is shown where episodes have ended."""
    workers = [
        WorkerView(w, [EpisodeMeans(e, 3) for e in range(count)], fired=fired or {}) for w, count in enumerate(finished)
    ]
    return PhaseView(Mode.TRAIN, workers, asked, episodes=2)


def test_parts_are_those_that_are_overridden() -> None:
    """A condition has the parts whose hooks it overrides, and reads objectives only if it looks at brains."""
    parts = [(kind.has_episode_part(), kind.has_phase_part()) for kind in (Sums, Ends, Gone, TerminationCondition)]

    assert [(True, False), (True, True), (True, False), (False, False)] == parts
    assert [{"objectives"}, set(), set()] == [set(kind.reads) for kind in (Sums, Ends, Gone)]


@pytest.mark.parametrize(
    ("objectives", "signal"),
    [
        ({"ada": []}, Signal.CONTINUE),
        ({"ada": [9.0, 1.0, 2.0, 2.0]}, Signal.CONTINUE),
        ({"ada": [1.0], "bob": [1.0, 2.0, 3.0]}, Signal.RESTART),
    ],
)
def test_brains_are_asked_about_their_objectives(
    make: Make, objectives: dict[str, list[float]], signal: Signal
) -> None:
    """Each agent is asked about with the tail of this episode's objectives; the greatest answer counts."""
    condition = make(Sums)

    assert signal == condition.episode(view({"hill": False}, objectives))
    assert tuple((name, f"{name}/1", False, len(values)) for name, values in objectives.items()) == condition.seen
    assert ("Sums" if signal else "") == condition.reason


def test_environments_are_asked_about(make: Make) -> None:
    """`check_termination` that is true ends the episode, `environment_flow_control` answers for each environment."""
    assert [Signal.CONTINUE, Signal.RESET] == [make(Ends).episode(view({"a": False, "b": b})) for b in (False, True)]
    assert [Signal.CONTINUE, Signal.PAUSE] == [
        make(Gone).episode(view(ended)) for ended in ({"a": True, "b": False}, {"a": False, "b": True})
    ]


def test_what_an_episode_ended_by_is_passed_on(make: Make) -> None:
    """The phase hears whether this condition ended the episode."""
    condition = make(Ends)
    found = []
    for fired in ({"part": "Ends"}, {"other": "x"}):
        condition.phase(phase([1], [0], fired))
        found.append(condition.data)

    assert [{"Ends": (Signal.RESET, None)}, {"Ends": (Signal.CONTINUE, None)}] == found


class Bus:
    """Answer a controller, and end the episode in the third step."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def act(self, agents: Sequence[str]) -> Setpoints:
        assert all(type(agent) is str for agent in agents)
        return {agent: [agent, len(agent)] for agent in agents}

    async def update(self, setpoints: Setpoints, agents: Sequence[str]) -> StepResult:
        self.heard.append((dict(setpoints), list(agents)))
        if len(self.heard) % 3 == 0:
            raise FlowControlChange("over")
        return StepResult(len(self.heard), {}, {})

    def signal(self, signal: Signal, reason: str) -> None:
        """Hear nothing."""


class AllAtOnce(SimulationController):
    """Let all act, step by step."""

    async def advance(self) -> None:
        responses = await self.act(self.agents)
        await self.step(self.agents, [a for response in responses for a in response.actuators])


class Turns(SimulationController):
    """Run the loop of an episode, and catch its end."""

    async def simulate(self) -> None:
        turn = 0
        while self.is_running:
            agent = list(self._agents.values())[turn % 2]
            try:
                response = (await self.act([agent]))[0]
                assert response.sender == agent.uid == agent.name
                await self.step([agent], response.actuators)
            except FlowControlChange:
                pass
            turn += 1
        await self.flow_control()


def test_a_step_of_all(make: Make) -> None:
    """`act` and `step` carry the setpoints of every agent to the bus, in order; the end passes through."""
    controller, bus = make(AllAtOnce), Bus()
    controller.bus, controller.agents = bus, ["One", "Three"]
    with pytest.raises(FlowControlChange, match="over"):
        asyncio.run(controller.simulate())

    assert [({"One": ["One", 3], "Three": ["Three", 5]}, ["One", "Three"])] * 3 == bus.heard


def test_a_loop_that_catches_the_end(make: Make) -> None:
    """A loop over `is_running` ends with its episode, and runs again in the next one."""
    controller, bus = make(Turns), Bus()
    controller.bus, controller.agents = bus, ("One", "Three")
    asyncio.run(controller.simulate())
    first = len(bus.heard)
    asyncio.run(controller.simulate())

    assert (3, 6) == (first, len(bus.heard))
    assert [["One"], ["Three"], ["One"]] * 2 == [agents for _, agents in bus.heard]


def test_step_is_a_number_too(make: Make) -> None:
    """`step` is what the bus has set, as a number."""
    controller = make(AllAtOnce)
    controller.step = 4

    assert (4, 5) == (controller.step, controller.step + 1)


OLD = [
    (SensorInformation, "sensor_value", "observation_space", "sensor_id"),
    (ActuatorInformation, "setpoint", "action_space", "actuator_id"),
    (RewardInformation, "reward_value", "observation_space", "reward_id"),
]


@pytest.mark.parametrize(("kind", "value", "space", "uid"), OLD)
def test_constructors_take_old_names(kind: Any, value: str, space: str, uid: str) -> None:
    """Old names of arguments make the same information, with a warning each; the new ones warn of nothing."""
    with pytest.warns(DeprecationWarning, match="is called") as caught:
        old = kind(**{value: 3, space: SPACE, uid: "a"})
    new = kind(value=3, space=SPACE, uid="a", value_ids=["x"])

    assert 3 == len(caught)
    assert all(__file__ == warning.filename for warning in caught)
    assert (3, SPACE, "a", None) == (old.value, old.space, old.uid, old.value_ids)
    assert (3, SPACE, "a", ["x"]) == (new.value, new.space, new.uid, new.value_ids)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SensorInformation(1, SPACE), "SensorInformation: uid is missing"),
        (lambda: SensorInformation(1, uid="a"), "SensorInformation: space is missing"),
        (lambda: SensorInformation(1, SPACE, "a", colour=3), "found 'colour'"),
    ],
)
def test_wrong_arguments_are_refused(make: Callable[[], Any], message: str) -> None:
    """A space or uid that lacks, and a name that there never was, are refused by name."""
    with pytest.raises(TypeError, match=message):
        make()


def test_more_of_the_old_ways() -> None:
    """`id` is the uid, a length is that of the space's vector, a reward plus a number is a number."""
    sensor = SensorInformation([0.0, 1.0], Box(0.0, 1.0, (2,)), "a")
    with pytest.warns(DeprecationWarning, match="id is called uid"):
        assert "a" == sensor.id

    assert (2, 1) == (len(sensor), len(ActuatorInformation(1, SPACE, "a")))
    assert 5 == RewardInformation(3, SPACE, "r") + 2


def test_a_tail_of_objectives() -> None:
    """The tail has the last objectives, oldest first, fewer where there are no more, none for zero."""
    memory = ObjectiveMemory([1.0, 2.0, 3.0])

    assert [[3.0], [2.0, 3.0], [1.0, 2.0, 3.0], []] == [memory.tail(n).objective.tolist() for n in (1, 2, 9, 0)]
    assert (3, 2, 0) == (len(memory), len(memory.tail(2)), len(ObjectiveMemory([]).tail(5)))


def test_a_governor_says_what_the_document_says() -> None:
    """The view of a phase has its limit, its workers and their counts."""
    governor = GovernorView.of(4, {0: 1, 1: 3})

    assert {"0": 1, "1": 3} == governor.current_episode_counts
    assert (4, 2) == (governor.experiment_run.get_episodes(0), governor.experiment_run.get_worker(0))


def test_types_are_ours() -> None:
    """Every type is the one of the contract, and flow control is ordered as it was."""
    assert [] == [
        name
        for name in types.__all__
        if name != "SimulationFlowControl" and getattr(types, name) is not getattr(sdk, name)
    ]
    control = types.SimulationFlowControl
    assert ["CONTINUE", "PAUSE", "RESET", "RESTART", "STOP_SIMULATION", "STOP_PHASE", "SHUTDOWN"] == [
        signal.name for signal in sorted(control, key=lambda signal: signal.value)
    ]


BYTES = bytes(range(256)) * 3


@pytest.fixture
def models(tmp_path: Path) -> Models:
    """Return an empty folder of models."""
    return Models(str(tmp_path), str(tmp_path))


def test_a_dump_that_is_not_there(models: Models) -> None:
    """Nothing under a tag is None from all dumpers and an error from one; without dumpers it is None, too."""
    dumper = BrainDumper(models)

    assert BrainDumper.load_brain_dump([dumper, dumper], "actor") is None
    assert BrainDumper.load_brain_dump([]) is None
    with pytest.raises(NoBrainFoundError, match="no dump under the tag 'actor'"):
        dumper.load("actor")


def test_a_damaged_dump_is_told(models: Models, tmp_path: Path) -> None:
    """A file that is damaged is an error and no missing dump."""
    BrainDumper(models, models).save(io.BytesIO(BYTES))
    (file,) = tmp_path.glob("*.npz")
    file.write_bytes(file.read_bytes()[:-30])

    with pytest.raises(StoreError):
        BrainDumper.load_brain_dump([BrainDumper(models)])


def test_a_muscle_keeps_nothing(models: Models) -> None:
    """A dumper without models of its own only reads."""
    with pytest.raises(RuntimeError, match="its brain keeps them"):
        BrainDumper.store_brain_dump(io.BytesIO(b""), [BrainDumper(models)])


MODULES = ("agent", "environment", "experiment", "simulation", "types")


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_a_module_is_in_the_package(module: str) -> None:
    """What a module exports can be imported from the package, and is the same object."""
    loaded = importlib.import_module(f"ganglion_palaestrai.{module}")

    assert sorted(loaded.__all__) == sorted(ganglion_palaestrai._EXPORTS[module])
    assert all(getattr(ganglion_palaestrai, name) is getattr(loaded, name) for name in loaded.__all__)
    assert set(loaded.__all__) <= set(dir(ganglion_palaestrai))


def test_a_name_that_there_is_not() -> None:
    """An unknown name is an attribute error, as of any module."""
    with pytest.raises(AttributeError, match="no attribute 'AgentConductor'"):
        ganglion_palaestrai.AgentConductor  # noqa: B018


def test_the_table_costs_nothing() -> None:
    """Reading the table of names imports neither numpy nor the contract."""
    script = "import sys; from ganglion_palaestrai.names import ALIASES; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert set() == {"numpy", "ganglion"} & {name.partition(".")[0] for name in done.stdout.split()}
