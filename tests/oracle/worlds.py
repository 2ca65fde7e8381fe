"""Classes of the documents beside this module: what the shipped plugins do not use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Brain,
    Controller,
    Discrete,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    EpisodeView,
    MultiBinary,
    MultiDiscrete,
    Muscle,
    PhaseView,
    RewardInformation,
    SensorInformation,
    Signal,
    SimTime,
    TerminationCondition,
    Transitions,
)

NEARNESS = Box(0.0, 1.0, ())


class Walk(Environment):
    """Walk over five places with three moves; a vector of chance beside them."""

    def read(self) -> list[SensorInformation]:
        field = self.rng.uniform(-1, 1, 2).astype(np.float32)
        return [
            SensorInformation(self.place, Discrete(5), "place"),
            SensorInformation(field, Box(-1.0, 1.0, (2,), np.float32), "field"),
        ]

    def start_environment(self) -> EnvironmentBaseline:
        self.place, self.steps = 2, 0
        return EnvironmentBaseline(self.read(), [ActuatorInformation(1, Discrete(3), "move")])

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Move by one place; the ends are goals, of which one is worth something."""
        self.steps += 1
        self.place = min(4, max(0, self.place + int(actuators[0].value) - 1))
        over = self.place in (0, 4)
        reward = RewardInformation(float(self.place == 4), NEARNESS, "goal")
        return EnvironmentState(self.read(), [reward], terminated=over, truncated=self.steps >= 9 and not over)


class Shapes(Environment):
    """Show a value of each kind of space, and take one of each."""

    def __init__(self, longest: int = 6) -> None:
        self.longest = longest

    def read(self) -> list[SensorInformation]:
        """Return one reading of each kind."""
        rng = self.rng
        return [
            SensorInformation(rng.integers(0, 2, 4).astype(np.int8), MultiBinary(4), "bits"),
            SensorInformation(np.array([rng.integers(3), rng.integers(5)], np.int64), MultiDiscrete([3, 5]), "digits"),
            SensorInformation(rng.random((2, 3)), Box(0.0, 1.0, (2, 3)), "matrix"),
            SensorInformation(rng.integers(0, 255, (4, 4)).astype(np.uint8), Box(0, 255, (4, 4), np.uint8), "image"),
            SensorInformation(float(self.total), Box(-1e6, 1e6, ()), "total"),
        ]

    def start_environment(self) -> EnvironmentBaseline:
        self.total, self.steps = 0.0, 0
        actuators = [
            ActuatorInformation(np.zeros(3), Box(-1.0, 1.0, (3,)), "push"),
            ActuatorInformation(np.zeros(2, np.int64), MultiDiscrete([2, 4]), "keys"),
            ActuatorInformation(0, Discrete(3), "gear"),
        ]
        return EnvironmentBaseline(self.read(), actuators, static_world_model={"kind": "shapes", "sizes": [2, 3]})

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        values = {it.uid.rpartition(".")[2]: it.value for it in actuators}
        self.steps += 1
        self.total += float(np.sum(values["push"])) + int(np.sum(values["keys"])) - int(values["gear"])
        rewards = [
            RewardInformation(float(np.tanh(self.total)), Box(-1.0, 1.0, ()), "sum"),
            RewardInformation(int(values["gear"]), Discrete(3), "gear"),
        ]
        return EnvironmentState(
            self.read(), rewards, truncated=self.steps >= self.longest, simtime=SimTime(600 * self.steps)
        )


class Chance(Muscle):
    """Draw each value from its space by the muscle's own stream, and tell the brain a number."""

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        for it in actuators_available:
            value = np.asarray(it.space.default())
            noise = self.rng.random(value.shape)
            if isinstance(it.space, Box):
                it.value = it.space.low + (it.space.high - it.space.low) * noise
            elif isinstance(it.space, MultiDiscrete):
                it.value = np.array([int(n * u) for n, u in zip(it.space.nvec, noise, strict=True)], np.int64)
            else:
                it.value = int(it.space.n * float(noise))
        self.add_statistics("drawn", float(len(actuators_available)))
        return actuators_available, {"note": [1, 2.5, "x"]}


class Greedy(Muscle):
    """Move as the newest weights of the brain say, and now and then by chance."""

    weights = np.zeros((5, 3))

    def update(self, update: Any) -> None:
        self.weights = np.asarray(update)

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        place = int(sensors[0].value)
        actuators_available[0].value = int(np.argmax(self.weights[place] + 0.05 * self.rng.random(3)))
        return actuators_available


class Sulking(Greedy):
    """Raise in each fourth decision, which the document tolerates."""

    count = 0

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        self.count += 1
        if self.count % 4 == 0:
            raise ValueError(f"decision {self.count}")
        return super().propose_actions(sensors, actuators_available)


class Learner(Brain):
    """Learn values of moves by temporal differences, decision by decision."""

    def setup(self) -> None:
        self.weights = np.zeros((5, 3))
        self.seen = 0.0

    def learn_row(self, place: int, move: int, reward: float, after: float) -> None:
        """Move a weight towards what came of it."""
        self.weights[place, move] += 0.5 * (reward + after - self.weights[place, move])
        self.seen += 1.0

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        if not len(self.memory):
            return None
        row = self.memory.tail(1)
        place, move = (int(row.sensor_readings["walk.place"][0]), int(row.actuator_setpoints["walk.move"][0]))
        after = 0.0 if row.terminated[0] else 0.9 * self.weights[int(row.next_readings["walk.place"][0])].max()
        self.learn_row(place, move, float(row.rewards["walk.goal"][0]), float(after))
        self.add_statistics("seen", self.seen)
        return self.weights

    def pretrain(self, sessions: Any) -> Any:
        for session in sessions:
            batch, places = session.transitions(), session.readings["walk.place"]
            for t in range(len(batch)):
                after = batch.bootstrap[t] * 0.9 * self.weights[places[t + 1]].max()
                self.learn_row(places[t], int(batch.actions[t, 0]), float(batch.rewards[t, 0]), float(after))
        return self.weights

    def evaluate(self, evaluation: Any) -> Mapping[str, float]:
        return {"score": self.seen}

    def arrays(self) -> Mapping[str, Any]:
        return {"weights": self.weights, "seen": np.array(self.seen)}

    def load_arrays(self, arrays: Mapping[str, Any]) -> None:
        self.weights, self.seen = np.array(arrays["weights"]), float(arrays["seen"])


class Swift(Chance):
    """Decide for arrays of bodies."""

    batched = True

    def propose_batch(self, batch: Any) -> Any:
        noise = self.rng.random(len(batch.observations))
        return {it.uid: np.floor(noise * it.space.n).astype(np.int64) for it in self.actuators}


class Rounds(Brain):
    """Learn from whole rounds: sums of all columns."""

    batched = True

    def setup(self) -> None:
        self.sums = np.zeros(4)

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        pass

    def learn(self, transitions: Transitions) -> Any:
        self.sums += [
            len(transitions),
            float(transitions.observations.sum()),
            float(transitions.next_observations.sum()),
            float(np.nansum(transitions.rewards)),
        ]
        return self.sums

    def arrays(self) -> Mapping[str, Any]:
        return {"sums": self.sums}


class Tired(Brain):
    """Send signals: RESET in the fifth decision, STOP_SIMULATION later."""

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        count = len(self.memory)
        if count == 5:
            return Signal.RESET
        return Signal.STOP_PHASE if count >= 40 else None


class Bound(TerminationCondition):
    """End an episode at a step that depends on its number, and the phase after some episodes of the first worker."""

    def __init__(self, episodes: int = 3) -> None:
        super().__init__()
        self.episodes = episodes

    def episode(self, view: EpisodeView) -> Signal:
        if view.step < 3 + view.episode % 3:
            return Signal.CONTINUE
        self.reason = f"truncated: bound {view.step}"
        return Signal.RESTART if view.episode % 2 else Signal.RESET

    def phase(self, view: PhaseView) -> Signal | Mapping[int, Signal]:
        done = len(view.workers[0].finished) >= self.episodes
        return Signal.STOP_PHASE if done else Signal.CONTINUE


class Patient(Controller):
    """Let all agents act in every third step."""

    setpoints: Any = None

    def turn(self, step: int) -> Any:
        """Say who acts after so many steps."""
        return self.agents if step % 3 == 0 else []

    async def advance(self) -> None:
        acting = self.turn(self.step)
        if acting:
            self.setpoints = await self.act(acting)
        await self.update(self.setpoints, acting)


class Convoy(Controller):
    """Let the first agent act, then the others on what came of it."""

    async def simulate(self) -> None:
        leader, *followers = self.agents
        while True:
            await self.update(await self.act([leader]), [leader])
            if self.rewards[leader][0] > 4:
                self.signal(Signal.RESET, f"the {leader} is far")
            await self.update(await self.act(followers), followers)
