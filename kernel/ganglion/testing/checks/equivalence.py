"""Check of two forms of one policy: on objects and on arrays they give the same tables, bit by bit."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ganglion.sdk.brain import Brain
from ganglion.sdk.information import ActuatorInformation, RewardInformation, SensorInformation
from ganglion.sdk.memory import FIELDS, Memory
from ganglion.sdk.muscle import Muscle
from ganglion.sdk.objective import Objective
from ganglion.sdk.spaces.kinds import Box, Discrete
from ganglion.testing.checks.clause import clause, expect
from ganglion.testing.checks.scene import ACTUATORS, Sum, digests, play_episodes
from ganglion.testing.stage import StagedAgent

__all__ = ["check_equivalence"]

Form = type[Muscle] | tuple[type[Muscle], type[Brain] | None]
Params = Mapping[str, Any] | None

_SENSORS = (
    SensorInformation(None, Box(-1.0, 1.0, ()), "world.level"),
    SensorInformation(None, Box(-1.0, 1.0, (2,)), "world.place"),
    SensorInformation(None, Discrete(5, start=-2), "world.gear"),
)
_REWARDS = (RewardInformation(None, Box(-1.0, 1.0, ()), "world.reward"),)


def check_equivalence(
    a: Form,
    b: Form,
    *,
    muscle_params: Params = None,
    brain_params: Params = None,
    sensors: Sequence[SensorInformation] = _SENSORS,
    actuators: Sequence[ActuatorInformation] = ACTUATORS,
    objective: type[Objective] = Sum,
    seed: int = 1,
    episodes: int = 3,
    steps: int = 20,
) -> None:
    """Check that two forms of one agent do the same: each decision, objective, update and model, bit by bit.

    Usually one of them has `propose_actions` and `thinking`, the other `batched`, `propose_batch` and `learn`.

    Args:
        a: A muscle, or a muscle and its brain; without a brain nobody learns.
        b: The other form.
        muscle_params: Of the document, for both.
        brain_params: Likewise.
        sensors: What both see: drawn readings; values are not looked at.
        actuators: What both set; values are their no-ops.
        objective: What both are judged by.
        seed: Of the run.
        episodes: How many episodes.
        steps: How many decisions each has.

    Raises:
        ContractBroken: Names the classes and the first thing that differs; an author's own exception is its cause.
    """
    traces = []
    for form in (a, b):
        muscle, brain = form if isinstance(form, tuple) else (form, None)
        with clause(muscle, "its form takes part in a run"), tempfile.TemporaryDirectory() as folder:
            agent = StagedAgent(
                muscle,
                sensors=sensors,
                actuators=actuators,
                rewards=_REWARDS,
                objective=objective,
                brain=brain,
                muscle_params=muscle_params,
                brain_params=brain_params,
                mode="test" if brain is None else "train",
                seed=seed,
                models=Path(folder) / "models",
            )
            traces.append(_played(agent, sensors, seed, episodes, steps))
    one, other = (form[0] if isinstance(form, tuple) else form for form in (a, b))
    sentence = f"{other.__qualname__} is the same policy: both give the same tables, bit by bit"
    for (what, left), (_, right) in zip(*traces, strict=True):
        expect(one, sentence, left == right, f"another {what}: {left!r:.200} and {right!r:.200}")


def _played(
    agent: StagedAgent, sensors: Sequence[SensorInformation], seed: int, episodes: int, steps: int
) -> list[tuple[str, Any]]:
    """Return all that comes of episodes with drawn readings and rewards, each thing with its name."""
    names = [f"decision {step} of episode {episode}" for episode in range(episodes) for step in range(steps + 1)]
    answers = play_episodes(agent, sensors, _REWARDS, seed, episodes, steps)
    trace: list[tuple[str, Any]] = list(zip(names, answers, strict=True))
    trace += [(f"column {name} of the muscle's memory", bits) for name, bits in _columns(agent.memory)]
    brain = agent.brain
    if brain is not None:
        trace.append(("last update", repr(brain.last_update)))
        trace.append(("model", digests(agent)))
    agent.close()
    return trace


def _columns(memory: Memory) -> list[tuple[str, Any]]:
    """Return the columns of a memory as bytes, and what cannot be as text."""
    shard = memory.tail(len(memory))
    found: list[tuple[str, Any]] = []
    for name in FIELDS:
        column = shard.column(name)
        array = getattr(column, "flat", column) if not isinstance(column, np.ndarray) else column
        found.append((name, repr(array.tolist()) if array.dtype == object else array.tobytes()))
    return found
