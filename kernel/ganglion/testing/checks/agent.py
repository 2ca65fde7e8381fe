"""Checks of muscles, brains and objectives, and of two forms of one policy, by episodes of drawn readings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, overload

import numpy as np

from ganglion.peer.values import freeze
from ganglion.sdk.brain import Brain, CheckpointableBrain
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import ActuatorInformation, Information, RewardInformation, SensorInformation
from ganglion.sdk.memory import FIELDS, Memory
from ganglion.sdk.models import Models
from ganglion.sdk.muscle import Muscle
from ganglion.sdk.objective import Objective
from ganglion.sdk.seed import generator_from_words, words
from ganglion.sdk.session import Session
from ganglion.sdk.spaces.kinds import Box, Discrete
from ganglion.testing.checks.clause import clause, encoded, expect, first_difference
from ganglion.testing.stage import StagedAgent
from ganglion.wire.messages import Thought

__all__ = [
    "ACTUATORS",
    "Chance",
    "Lesson",
    "Sum",
    "check_brain",
    "check_equivalence",
    "check_muscle",
    "check_objective",
    "check_pretrain",
    "digests",
    "play_episodes",
    "update_of",
]

ACTUATORS = (ActuatorInformation(0.0, Box(-1.0, 1.0, ()), "world.push"),)


class Sum(Objective):
    """Sum the rewards that are there."""

    def internal_reward(self, memory: Any, **kwargs: Any) -> float:
        """Return the sum of the newest row's rewards."""
        return float(np.nansum(memory.tail(1).rewards.flat[0]))


class Chance(Muscle):
    """Set every actuator by chance."""

    def propose_actions(
        self, sensors: list[SensorInformation], actuators_available: list[ActuatorInformation]
    ) -> list[ActuatorInformation]:
        """Draw a value of each actuator's space."""
        for it in actuators_available:
            it.value = it.space.sample(self.rng)
        return actuators_available


def play_episodes(
    agent: StagedAgent,
    sensors: Sequence[SensorInformation],
    rewards: Sequence[RewardInformation],
    seed: int,
    episodes: int,
    steps: int,
    unrewarded: int | None = None,
    between: Callable[[], None] | None = None,
    after: Callable[[], bytes] | None = None,
) -> list[bytes]:
    """Play episodes of drawn readings and rewards; every second one is truncated, the others terminate.

    Returns the answers, `steps` + 1 for each episode. In step `unrewarded` no reward is there; `between` is called in
    the middle of each episode, `after` behind each answer, to which it adds.
    """
    draw = generator_from_words(words(seed, ["check"]))
    more: Callable[[], bytes] = bytes if after is None else after
    trace = []
    for episode in range(episodes):
        trace.append(encoded(agent.begin([it.space.sample(draw) for it in sensors])) + more())
        for step in range(1, steps + 1):
            if between is not None and step == steps // 2:
                between()
            given = [None if step == unrewarded else it.space.sample(draw) for it in rewards]
            readings = [it.space.sample(draw) for it in sensors]
            last = step == steps
            flags = {"terminated": last and episode % 2 == 0, "truncated": last and episode % 2 == 1}
            trace.append(encoded(agent.step(given, readings, **flags)) + more())
    return trace


def update_of(agent: StagedAgent) -> bytes:
    """Return the brain's newest update as it travels."""
    assert agent.brain is not None
    blobs: list[bytes] = []
    tree = freeze(agent.brain.last_update, blobs, "update")
    return b"".join([encoded(Thought(tree)), *blobs])


def digests(agent: StagedAgent) -> dict[str, str]:
    """Let the brain store its model; return the SHA-256 of each file by its tag."""
    return {str(row["tag"]): str(row["sha256"]) for row in agent.store().files}


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


Form = type[Muscle] | tuple[type[Muscle], type[Brain] | None]

_FORM_SENSORS = (
    SensorInformation(None, Box(-1.0, 1.0, ()), "world.level"),
    SensorInformation(None, Box(-1.0, 1.0, (2,)), "world.place"),
    SensorInformation(None, Discrete(5, start=-2), "world.gear"),
)
_FORM_REWARDS = (RewardInformation(None, Box(-1.0, 1.0, ()), "world.reward"),)


def check_equivalence(
    a: Form,
    b: Form,
    *,
    muscle_params: Params = None,
    brain_params: Params = None,
    sensors: Sequence[SensorInformation] = _FORM_SENSORS,
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
                rewards=_FORM_REWARDS,
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
    answers = play_episodes(agent, sensors, _FORM_REWARDS, seed, episodes, steps)
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
