"""Checks of muscles, brains and objectives: episodes of drawn readings and rewards, played with the class itself."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ganglion.sdk.brain import Brain, CheckpointableBrain
from ganglion.sdk.information import ActuatorInformation, RewardInformation, SensorInformation
from ganglion.sdk.models import Models
from ganglion.sdk.muscle import Muscle
from ganglion.sdk.objective import Objective
from ganglion.sdk.seed import generator_from_words, words
from ganglion.sdk.spaces.box import Box
from ganglion.testing.checks.clause import clause, encoded, expect, first_difference
from ganglion.testing.stage import StagedAgent

__all__ = ["check_brain", "check_muscle", "check_objective"]

Sensors = Sequence[SensorInformation]
Actuators = Sequence[ActuatorInformation]
Params = Mapping[str, Any] | None

_REWARDS = (
    RewardInformation(None, Box(-1.0, 1.0, ()), "world.reward"),
    RewardInformation(None, Box(-np.inf, np.inf, ()), "world.other"),
)
_SENSORS = (
    SensorInformation(None, Box(-1.0, 1.0, ()), "world.level"),
    SensorInformation(None, Box(-1.0, 1.0, (2,)), "world.place"),
)
_ACTUATORS = (ActuatorInformation(0.0, Box(-1.0, 1.0, ()), "world.push"),)


class _Sum(Objective):
    """Sum the rewards that are there."""

    def internal_reward(self, memory: Any, **kwargs: Any) -> float:
        return float(np.nansum(memory.tail(1).rewards.flat[0]))


class _Chance(Muscle):
    """Set every actuator by chance."""

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> list[ActuatorInformation]:
        for it in actuators_available:
            it.value = it.space.sample(self.rng)
        return actuators_available


def check_muscle(
    cls: type[Muscle],
    params: Params = None,
    *,
    sensors: Sensors = _SENSORS,
    actuators: Actuators = _ACTUATORS,
    brain: type[Brain] | None = None,
    brain_params: Params = None,
    seed: int = 1,
    episodes: int = 3,
    steps: int = 20,
) -> None:
    """Check whether a muscle keeps its contract, by episodes with readings drawn from the sensors' spaces.

    Args:
        cls: The class.
        params: Of the document.
        sensors: What it is to see; full ids, values are not looked at.
        actuators: What it is to set; values are their no-ops.
        brain: Its brain, for one that cannot act before the first update; with None it acts as in a test phase
            without a model.
        brain_params: Of the brain.
        seed: Of the run.
        episodes: How many episodes.
        steps: How many decisions each has.

    Raises:
        ContractBroken: Names the class, the clause and what was found; the author's own exception is its cause.
    """

    def play() -> list[bytes]:
        with tempfile.TemporaryDirectory() as folder:
            with clause(cls, "it is made with the params of the document and set up"):
                agent = StagedAgent(
                    cls,
                    sensors=sensors,
                    actuators=actuators,
                    rewards=_REWARDS,
                    objective=_Sum,
                    brain=brain,
                    muscle_params=params,
                    brain_params=brain_params,
                    mode="test" if brain is None else "train",
                    seed=seed,
                    models=Path(folder) / "models",
                )
            sentence = (
                "`propose_actions` gives every actuator a value of its space, and `reset` begins an episode"
            )
            with clause(cls, sentence):
                trace = _play(agent, sensors, seed, episodes, steps)
            with clause(cls, "`teardown` ends it"):
                agent.close()
            return trace

    _twice(cls, play, "the same seed and readings give the same setpoints, bit by bit")


def check_brain(
    cls: type[Brain],
    params: Params = None,
    *,
    muscle: type[Muscle] = _Chance,
    muscle_params: Params = None,
    objective: type[Objective] = _Sum,
    sensors: Sensors = _SENSORS,
    actuators: Actuators = _ACTUATORS,
    seed: int = 1,
    episodes: int = 3,
    steps: int = 20,
) -> None:
    """Check whether a brain keeps its contract, by episodes of its muscle with drawn readings and rewards.

    Its updates must travel and fit its muscle, its model is stored and loaded again, and, if it is a
    `CheckpointableBrain`, it is exported in the middle and goes on elsewhere.

    Args:
        cls: The class.
        params: Of the document.
        muscle: Its muscle; the default acts by chance and takes any update.
        muscle_params: Of the muscle.
        objective: What the rows are judged by; the default sums the rewards.
        sensors: What the agent sees.
        actuators: What it sets.
        seed: Of the run.
        episodes: How many episodes.
        steps: How many decisions each has.

    Raises:
        ContractBroken: Names the class, the clause and what was found; the author's own exception is its cause.
    """

    def agent_of(models: Path, load: Path | None = None) -> StagedAgent:
        return StagedAgent(
            muscle,
            sensors=sensors,
            actuators=actuators,
            rewards=_REWARDS,
            objective=objective,
            brain=cls,
            muscle_params=muscle_params,
            brain_params=params,
            seed=seed,
            models=models,
            load=load,
        )

    with tempfile.TemporaryDirectory() as folder:
        made = 0

        def play() -> list[bytes]:
            nonlocal made
            made += 1
            models = Path(folder) / str(made)
            with clause(cls, "it is made with the params of the document, set up, and has an initial update"):
                agent = agent_of(models)
            with clause(cls, "`thinking` takes each decision, and its update travels and fits its muscle"):
                trace = _play(agent, sensors, seed, episodes, steps)
            with clause(cls, "`store` saves the model as named arrays"):
                stored = agent.store()
            digests = [hashlib.sha256(Path(row["path"]).read_bytes()).digest() for row in stored.files]
            agent.close()
            return [*trace, *digests]

        trace = _twice(
            cls, play, "the same seed and rows give the same updates and the same model, bit by bit"
        )
        if issubclass(cls, CheckpointableBrain):
            sentence = (
                "what `export_checkpoint_state` returns is all that `restore_checkpoint_state` needs to go on"
            )
            with clause(cls, sentence):
                agent = agent_of(Path(folder) / "replaced")
                other = _play(agent, sensors, seed, episodes, steps, between=agent.replace_brain)
            differs = first_difference(trace[: len(other)], other)
            expect(cls, sentence + ", bit by bit", differs is None, f"another answer number {differs}")
        _check_model(cls, agent_of, Path(folder))


def _check_model(cls: type[Brain], agent_of: Callable[[Path, Path], StagedAgent], folder: Path) -> None:
    """Load the model of the first play into a new brain, which then has the same arrays."""
    saved = Models(str(folder / "unused"), str(folder / "1")).load()
    if not saved:
        return  # a brain may have no model
    with clause(cls, "`load` takes over what `store` saved"):
        agent = agent_of(folder / "loaded", folder / "1")
        assert agent.brain is not None
        found = agent.brain.arrays()
    if cls.store is Brain.store:  # else the author saves by names of his own
        lacking = [name for name in saved if not np.array_equal(saved[name], found.get(name, np.nan))]
        expect(
            cls,
            "after `load`, `arrays` are those that were saved",
            not lacking,
            f"another {', '.join(lacking)}",
        )
    agent.close()


def check_objective(
    cls: type[Objective],
    params: Params = None,
    *,
    sensors: Sensors = _SENSORS,
    actuators: Actuators = _ACTUATORS,
    rewards: Sequence[RewardInformation] = _REWARDS,
    seed: int = 1,
    episodes: int = 3,
    steps: int = 20,
) -> None:
    """Check whether an objective keeps its contract, by episodes with drawn readings, setpoints and rewards.

    In one row of each episode no reward is there, as it happens under taking turns.

    Args:
        cls: The class.
        params: Of the document.
        sensors: What the agent sees.
        actuators: What it sets, by chance.
        rewards: What is judged.
        seed: Of the run.
        episodes: How many episodes.
        steps: How many decisions each has.

    Raises:
        ContractBroken: Names the class, the clause and what was found; the author's own exception is its cause.
    """

    def play() -> list[bytes]:
        with clause(cls, "it is made with the params of the document"):
            agent = StagedAgent(
                _Chance,
                sensors=sensors,
                actuators=actuators,
                rewards=rewards,
                objective=cls,
                objective_params=params,
                mode="test",
                seed=seed,
            )
        with clause(
            cls, "`internal_reward` returns one number or None for each row, also for one without rewards"
        ):
            trace = _play(agent, sensors, seed, episodes, steps, rewards)
        agent.close()
        return trace

    _twice(cls, play, "the same rows give the same objective, bit by bit")


def _twice(cls: type[Any], play: Callable[[], list[bytes]], sentence: str) -> list[bytes]:
    """Return what was played, unless it comes out differently the second time."""
    played = play()
    differs = first_difference(played, play())
    hint = "random numbers come from `self.rng`; nothing is kept in the class or the module"
    expect(cls, f"{sentence} ({hint})", differs is None, f"another answer number {differs} the second time")
    return played


def _play(
    agent: StagedAgent,
    sensors: Sensors,
    seed: int,
    episodes: int,
    steps: int,
    rewards: Sequence[RewardInformation] = _REWARDS,
    between: Callable[[], None] | None = None,
) -> list[bytes]:
    """Play episodes of drawn readings and rewards; every second one is truncated, the others terminate.

    `between` is called in the middle of each.
    """
    draw = generator_from_words(words(seed, ["check"]))
    trace = []
    for episode in range(episodes):
        trace.append(encoded(agent.begin([it.space.sample(draw) for it in sensors])))
        for step in range(1, steps + 1):
            if between is not None and step == steps // 2:
                between()
            given = [None if step == 2 else it.space.sample(draw) for it in rewards]
            readings = [it.space.sample(draw) for it in sensors]
            last = step == steps
            flags = {"terminated": last and episode % 2 == 0, "truncated": last and episode % 2 == 1}
            trace.append(encoded(agent.step(given, readings, **flags)))
    return trace
