"""Lessons: drawn episodes as if they had been recorded, and what a brain has to keep that learns from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from ganglion.sdk.brain import Brain, CheckpointableBrain
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import ActuatorInformation, Information, SensorInformation
from ganglion.sdk.seed import generator_from_words, words
from ganglion.sdk.session import Session
from ganglion.testing.checks.clause import clause, expect, first_difference
from ganglion.testing.stage import StagedAgent

__all__ = ["Lesson", "check_pretrain"]


class Lesson(Sequence[Session]):
    """Be episodes of drawn readings, setpoints and objectives; each is made anew when it is looked at.

    In turn they terminate, are truncated, and break off, with nothing known of what followed the last decision.

    Args:
        sensors: What is seen.
        actuators: What is set.
        seed: Of all that is drawn.
        episodes: How many there are.
        steps: How many decisions each has.
    """

    def __init__(
        self,
        sensors: Sequence[SensorInformation],
        actuators: Sequence[ActuatorInformation],
        seed: int,
        episodes: int,
        steps: int,
    ) -> None:
        self._sensors, self._actuators = list(sensors), list(actuators)
        self._seed, self._episodes, self._steps = seed, episodes, steps

    def __len__(self) -> int:
        return self._episodes

    @overload
    def __getitem__(self, key: int) -> Session: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Session]: ...
    def __getitem__(self, key: int | slice) -> Session | Sequence[Session]:
        if isinstance(key, slice):
            return [self[i] for i in range(*key.indices(len(self)))]
        if not -len(self) <= key < len(self):
            raise IndexError(f"session {key} of {len(self)}")
        return self._made(key % len(self))

    def _made(self, episode: int) -> Session:
        draw = generator_from_words(words(self._seed, ["lesson", episode]))
        steps, way = self._steps, episode % 3
        last = np.arange(steps) == steps - 1
        objectives = draw.normal(size=steps)
        return Session(
            run="lesson-1",
            phase=0,
            worker=0,
            agent="agent",
            environment="world",
            body=0,
            episode=episode,
            mode=Mode.TRAIN,
            sensors=self._sensors,
            actuators=self._actuators,
            observations=_drawn(self._sensors, steps + (way != 2), draw),
            actions=_drawn(self._actuators, steps, draw),
            rewards=objectives[:, None].copy(),
            reward_ids=["world.reward"],
            objectives=objectives,
            terminated=last & (way == 0),
            truncated=last & (way == 1),
            ticks=np.arange(steps, dtype=np.int64),
        )


def _drawn(declared: Sequence[Information], rows: int, draw: np.random.Generator) -> Any:
    """Return the vectors of drawn values side by side, a row each."""
    dtype = np.result_type(*(it.space.dtype for it in declared)) if declared else np.dtype(np.float64)
    found = np.empty((rows, sum(it.space.size for it in declared)), dtype=dtype)
    for row in found:
        parts = [it.space.to_vector(it.space.sample(draw)) for it in declared]
        row[:] = np.concatenate(parts) if parts else ()
    return found


def check_pretrain(
    cls: type[Brain],
    agent_of: Callable[[Sequence[Session]], StagedAgent],
    played: Callable[..., list[bytes]],
    lesson: Lesson,
) -> None:
    """Check a brain with a `pretrain` of its own: what it leaves is finite, and it goes on as any brain.

    Args:
        cls: The class.
        agent_of: Makes an agent whose brain has learned from sessions.
        played: Plays the same episodes with an agent; a function is called in the midst of each.
        lesson: What is learned from.

    Raises:
        ContractBroken: Names the class, the clause and what was found; the author's own exception is its cause.
    """
    if cls.pretrain is Brain.pretrain:
        return  # it hears of recorded decisions by `thinking`, which has been checked

    def learned() -> StagedAgent:
        with clause(cls, "`pretrain` takes recorded episodes, and leaves them as they are"):
            return agent_of(lesson)

    traces = []
    for _ in range(2):
        agent = learned()
        assert agent.brain is not None
        with clause(cls, "`arrays` are named arrays after `pretrain`"):
            arrays = {name: np.asarray(array) for name, array in agent.brain.arrays().items()}
        infinite = [name for name, it in arrays.items() if it.dtype.kind in "fc" and not np.isfinite(it).all()]
        expect(cls, "`arrays` are finite after `pretrain`", not infinite, f"NaN or infinity in {infinite[:1]}")
        with clause(cls, "it goes on after `pretrain`: its update travels and fits its muscle"):
            traces.append(played(agent))
        agent.close()
    differs = first_difference(*traces)
    sentence = "the same seed and recorded episodes give the same updates, bit by bit"
    expect(cls, sentence, differs is None, f"another answer number {differs} the second time")
    if issubclass(cls, CheckpointableBrain):
        sentence = "a checkpoint keeps what was learned in `pretrain`"
        with clause(cls, sentence):
            agent = learned()
            other = played(agent, agent.replace_brain)
        differs = first_difference(traces[0], other)
        expect(cls, sentence + ", bit by bit", differs is None, f"another answer number {differs}")
