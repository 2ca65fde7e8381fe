"""Checks of muscles, brains and objectives: episodes of drawn readings and rewards, played with the class itself."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ganglion.sdk.brain import Brain, CheckpointableBrain
from ganglion.sdk.information import ActuatorInformation, RewardInformation, SensorInformation
from ganglion.sdk.models import Models
from ganglion.sdk.muscle import Muscle
from ganglion.sdk.objective import Objective
from ganglion.sdk.session import Session
from ganglion.sdk.spaces.kinds import Box
from ganglion.testing.checks.clause import clause, expect, first_difference
from ganglion.testing.checks.lesson import Lesson, check_pretrain
from ganglion.testing.checks.scene import ACTUATORS, Chance, Sum, digests, play_episodes, update_of
from ganglion.testing.stage import StagedAgent

__all__ = ["check_brain", "check_muscle", "check_objective"]

Sensors = Sequence[SensorInformation]
Actuators = Sequence[ActuatorInformation]
Params = Mapping[str, Any] | None

_UNREWARDED = 2  # the step of each episode in which no reward is there, as it happens under taking turns
_REWARDS = (
    RewardInformation(None, Box(-1.0, 1.0, ()), "world.reward"),
    RewardInformation(None, Box(-np.inf, np.inf, ()), "world.other"),
)
_SENSORS = (
    SensorInformation(None, Box(-1.0, 1.0, ()), "world.level"),
    SensorInformation(None, Box(-1.0, 1.0, (2,)), "world.place"),
)


def check_muscle(
    cls: type[Muscle],
    params: Params = None,
    *,
    sensors: Sensors = _SENSORS,
    actuators: Actuators = ACTUATORS,
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
                    objective=Sum,
                    brain=brain,
                    muscle_params=params,
                    brain_params=brain_params,
                    mode="test" if brain is None else "train",
                    seed=seed,
                    models=Path(folder) / "models",
                )
            sentence = "`propose_actions` gives every actuator a value of its space, and `reset` begins an episode"
            try:
                trace = play_episodes(agent, sensors, _REWARDS, seed, episodes, steps, _UNREWARDED)
            except Exception as error:
                if str(error).startswith("propose_actions[1]"):
                    sentence = "what it adds to a decision for the brain can travel"
                with clause(cls, sentence):
                    raise
            with clause(cls, "`teardown` ends it"):
                agent.close()
            return trace

    _twice(cls, play, "the same seed and readings give the same setpoints, bit by bit")


def check_brain(
    cls: type[Brain],
    params: Params = None,
    *,
    muscle: type[Muscle] = Chance,
    muscle_params: Params = None,
    objective: type[Objective] = Sum,
    sensors: Sensors = _SENSORS,
    actuators: Actuators = ACTUATORS,
    seed: int = 1,
    episodes: int = 3,
    steps: int = 20,
) -> None:
    """Check whether a brain keeps its contract, by episodes of its muscle with drawn readings and rewards.

    Its updates must travel and fit its muscle, its model is stored and loaded again, it is told of an evaluation, and,
    if it is a `CheckpointableBrain`, it is exported in the middle of each episode and goes on elsewhere. If it has a
    `pretrain` of its own, all but the model is asked of it once more after drawn episodes.

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

    def agent_of(models: Path, load: Path | None = None, sessions: Sequence[Session] | None = None) -> StagedAgent:
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
            sessions=sessions,
        )

    def played(agent: StagedAgent, between: Callable[[], None] | None = None) -> list[bytes]:
        shown = partial(update_of, agent)
        return play_episodes(agent, sensors, _REWARDS, seed, episodes, steps, _UNREWARDED, between, shown)

    with tempfile.TemporaryDirectory() as folder:
        made = count()

        def play() -> list[bytes]:
            with clause(cls, "it is made with the params of the document, set up, and has an initial update"):
                agent = agent_of(Path(folder) / str(next(made)))
            with clause(cls, "`thinking` takes each decision, and its update travels and fits its muscle"):
                trace = played(agent)
            with clause(cls, "`store` saves the model as named arrays"):
                model = [digest.encode() for digest in digests(agent).values()]
            with clause(cls, "`evaluate` returns finite numbers by name, or None"):
                agent.evaluate()
            agent.close()
            return [*trace, *model]

        trace = _twice(cls, play, "the same seed and rows give the same updates and the same model, bit by bit")
        if issubclass(cls, CheckpointableBrain):
            _check_checkpoint(cls, agent_of, played, Path(folder), trace)
        _check_model(cls, agent_of, Path(folder))
        lesson = Lesson(sensors, actuators, seed, episodes, steps)
        check_pretrain(cls, lambda it: agent_of(Path(folder) / "taught", sessions=it), played, lesson)


def _check_checkpoint(
    cls: type[Brain],
    agent_of: Callable[[Path], StagedAgent],
    played: Callable[..., list[bytes]],
    folder: Path,
    trace: list[bytes],
) -> None:
    """Replace the brain in the midst of what has been played before by one that goes on from its checkpoint."""
    names = getattr(cls, "CHECKPOINT_FORMAT", None), getattr(cls, "CHECKPOINT_SCHEMA_VERSION", None)
    expect(
        cls,
        "`CHECKPOINT_FORMAT` is a text, `CHECKPOINT_SCHEMA_VERSION` an integer",
        isinstance(names[0], str) and type(names[1]) is int,
        repr(names),
    )
    sentence = "what `export_checkpoint_state` returns is all that `restore_checkpoint_state` needs to go on"
    with clause(cls, sentence):
        agent = agent_of(folder / "replaced")
        other = played(agent, agent.replace_brain)
    differs = first_difference(trace[: len(other)], other)
    expect(cls, sentence + ", bit by bit", differs is None, f"another answer number {differs}")


def _check_model(cls: type[Brain], agent_of: Callable[[Path, Path], StagedAgent], folder: Path) -> None:
    """Load the model of the first play into a new brain, which then has the same arrays."""
    saved = Models(str(folder / "unused"), str(folder / "0")).load()
    if not saved:
        return  # a brain may have no model
    with clause(cls, "`load` takes over what `store` saved"):
        agent = agent_of(folder / "loaded", folder / "0")
        assert agent.brain is not None
        found = agent.brain.arrays()
    if cls.store is Brain.store:  # else the author saves by names of his own
        lacking = [name for name in saved if not np.array_equal(saved[name], found.get(name, np.nan))]
        expect(cls, "after `load`, `arrays` are those that were saved", not lacking, f"another {', '.join(lacking)}")
    agent.close()


def check_objective(
    cls: type[Objective],
    params: Params = None,
    *,
    sensors: Sensors = _SENSORS,
    actuators: Actuators = ACTUATORS,
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
                Chance,
                sensors=sensors,
                actuators=actuators,
                rewards=rewards,
                objective=cls,
                objective_params=params,
                mode="test",
                seed=seed,
            )
        with clause(cls, "`internal_reward` returns one number or None for each row, also for one without rewards"):
            trace = play_episodes(agent, sensors, rewards, seed, episodes, steps, _UNREWARDED)
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
