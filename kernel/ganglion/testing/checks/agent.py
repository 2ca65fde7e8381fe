"""Checks of muscles, brains and objectives, and of two forms of one policy, by episodes of drawn readings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from ganglion.peer.values import freeze
from ganglion.sdk.brain import Brain, CheckpointableBrain
from ganglion.sdk.flow import Mode
from ganglion.sdk.information import ActuatorInformation, Information, RewardInformation, SensorInformation
from ganglion.sdk.memory import FIELDS, Memory
from ganglion.sdk.models import Models
from ganglion.sdk.muscle import Muscle, Objective
from ganglion.sdk.seed import generator_from_words, words
from ganglion.sdk.session import Session
from ganglion.sdk.spaces.kinds import Box, Discrete
from ganglion.testing.checks.clause import clause, encoded, expect, first_difference
from ganglion.testing.stage import StagedAgent
from ganglion.wire.messages import Thought

Sensors = Sequence[SensorInformation]
Actuators = Sequence[ActuatorInformation]
Rewards = Sequence[RewardInformation]
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
_FORM_SENSORS = (*_SENSORS, SensorInformation(None, Discrete(5, start=-2), "world.gear"))
_ACTUATORS = (ActuatorInformation(0.0, Box(-1.0, 1.0, ()), "world.push"),)


class Drawn(TypedDict, total=False):
    """Say what a check draws: sensors and actuators (their values are no-ops), seed, episodes, decisions of each."""

    sensors: Sensors
    actuators: Actuators
    seed: int
    episodes: int
    steps: int


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


@dataclass(frozen=True)
class _Trial:
    """Play episodes of drawn readings and rewards with agents of one kind."""

    sensors: Sensors = _SENSORS
    actuators: Actuators = _ACTUATORS
    seed: int = 1
    episodes: int = 3
    steps: int = 20
    rewards: Rewards = _REWARDS
    unrewarded: int | None = _UNREWARDED

    def agent(self, muscle: type[Muscle], objective: type[Objective] = Sum, **more: Any) -> StagedAgent:
        """Return an agent that sees, sets and is rewarded as the trial says; without a brain it is tested."""
        return StagedAgent(
            muscle,
            sensors=self.sensors,
            actuators=self.actuators,
            rewards=self.rewards,
            objective=objective,
            mode="test" if more.get("brain") is None else "train",
            seed=self.seed,
            **more,
        )

    def play(
        self, agent: StagedAgent, between: Callable[[], None] | None = None, after: Callable[[], bytes] = bytes
    ) -> list[bytes]:
        """Return the answers, `steps` + 1 for each episode; every second one is truncated, the others terminate.

        In step `unrewarded` no reward is there; `between` is called in the middle of each episode, `after` behind each
        answer, to which it adds.
        """
        draw = generator_from_words(words(self.seed, ["check"]))
        trace = []
        for episode in range(self.episodes):
            trace.append(encoded(agent.begin([it.space.sample(draw) for it in self.sensors])) + after())
            for step in range(1, self.steps + 1):
                if between is not None and step == self.steps // 2:
                    between()
                given = [None if step == self.unrewarded else it.space.sample(draw) for it in self.rewards]
                readings = [it.space.sample(draw) for it in self.sensors]
                last = step == self.steps
                flags = {"terminated": last and episode % 2 == 0, "truncated": last and episode % 2 == 1}
                trace.append(encoded(agent.step(given, readings, **flags)) + after())
        return trace

    def learn(self, agent: StagedAgent, between: Callable[[], None] | None = None) -> list[bytes]:
        """Return the answers, each with the brain's newest update."""
        return self.play(agent, between, partial(_update_of, agent))

    def lesson(self) -> list[Session]:
        """Return episodes of drawn readings, setpoints and objectives, as if they had been recorded.

        In turn they terminate, are truncated, and break off, with nothing known of what followed the last decision.
        """
        return [self._session(episode) for episode in range(self.episodes)]

    def _session(self, episode: int) -> Session:
        draw = generator_from_words(words(self.seed, ["lesson", episode]))
        steps, end = self.steps, episode % 3
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
            sensors=self.sensors,
            actuators=self.actuators,
            observations=_drawn(self.sensors, steps + (end != 2), draw),
            actions=_drawn(self.actuators, steps, draw),
            rewards=objectives[:, None].copy(),
            reward_ids=["world.reward"],
            objectives=objectives,
            terminated=last & (end == 0),
            truncated=last & (end == 1),
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


def _update_of(agent: StagedAgent) -> bytes:
    """Return the brain's newest update as it travels."""
    assert agent.brain is not None
    blobs: list[bytes] = []
    tree = freeze(agent.brain.last_update, blobs, "update")
    return b"".join([encoded(Thought(tree)), *blobs])


def _digests(agent: StagedAgent) -> dict[str, str]:
    """Let the brain store its model; return the SHA-256 of each file by its tag."""
    return {str(row["tag"]): str(row["sha256"]) for row in agent.store().files}


def _twice(cls: type[Any], play: Callable[[], list[bytes]], sentence: str) -> list[bytes]:
    """Return what was played, unless it comes out differently the second time."""
    played = play()
    hint = "random numbers come from `self.rng`; nothing is kept in the class or the module"
    _same(cls, f"{sentence} ({hint})", played, play(), " the second time")
    return played


def _same(cls: type[Any], sentence: str, one: list[bytes], other: list[bytes], when: str = "") -> None:
    differs = first_difference(one, other)
    expect(cls, sentence, differs is None, f"another answer number {differs}{when}")


def check_muscle(
    cls: type[Muscle],
    params: Params = None,
    *,
    brain: type[Brain] | None = None,
    brain_params: Params = None,
    **drawn: Unpack[Drawn],
) -> None:
    """Check whether a muscle keeps its contract, by episodes with readings drawn from the sensors' spaces.

    Args:
        cls: The class.
        params: Of the document.
        brain: Its brain, for one that cannot act before the first update; with None it acts as in a test phase
            without a model.
        brain_params: Of the brain.
        drawn: What it is to see and to set, and how long: see `Drawn`.

    Raises:
        ContractBroken: Names the class, the clause and what was found; the author's own exception is its cause.
    """
    trial = _Trial(**drawn)

    def play() -> list[bytes]:
        with tempfile.TemporaryDirectory() as folder:
            with clause(cls, "it is made with the params of the document and set up"):
                agent = trial.agent(
                    cls, brain=brain, muscle_params=params, brain_params=brain_params, models=Path(folder) / "models"
                )
            sentence = "`propose_actions` gives every actuator a value of its space, and `reset` begins an episode"
            try:
                trace = trial.play(agent)
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
    **drawn: Unpack[Drawn],
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
        drawn: See `Drawn`.

    Raises:
        ContractBroken: As `check_muscle`.
    """
    trial = _Trial(**drawn)

    def agent_of(models: Path, load: Path | None = None, sessions: Sequence[Session] | None = None) -> StagedAgent:
        more: dict[str, Any] = {"models": models, "load": load, "sessions": sessions}
        return trial.agent(muscle, objective, brain=cls, muscle_params=muscle_params, brain_params=params, **more)

    with tempfile.TemporaryDirectory() as folder:
        made = count()

        def play() -> list[bytes]:
            with clause(cls, "it is made with the params of the document, set up, and has an initial update"):
                agent = agent_of(Path(folder) / str(next(made)))
            with clause(cls, "`thinking` takes each decision, and its update travels and fits its muscle"):
                trace = trial.learn(agent)
            with clause(cls, "`store` saves the model as named arrays"):
                model = [digest.encode() for digest in _digests(agent).values()]
            with clause(cls, "`evaluate` returns finite numbers by name, or None"):
                agent.evaluate()
            agent.close()
            return [*trace, *model]

        trace = _twice(cls, play, "the same seed and rows give the same updates and the same model, bit by bit")
        if issubclass(cls, CheckpointableBrain):
            names = getattr(cls, "CHECKPOINT_FORMAT", None), getattr(cls, "CHECKPOINT_SCHEMA_VERSION", None)
            sentence = "`CHECKPOINT_FORMAT` is a text, `CHECKPOINT_SCHEMA_VERSION` an integer"
            expect(cls, sentence, isinstance(names[0], str) and type(names[1]) is int, repr(names))
            sentence = "what `export_checkpoint_state` returns is all that `restore_checkpoint_state` needs to go on"
            _check_replaced(cls, trial, lambda: agent_of(Path(folder) / "replaced"), trace, sentence)
        _check_model(cls, agent_of, Path(folder))
        if cls.pretrain is not Brain.pretrain:  # else it hears of recorded decisions by `thinking`
            _check_pretrain(cls, trial, lambda it: agent_of(Path(folder) / "taught", sessions=it))


def _check_replaced(
    cls: type[Brain], trial: _Trial, agent_of: Callable[[], StagedAgent], trace: list[bytes], sentence: str
) -> None:
    """Replace the brain in the midst of what has been played before by one that goes on from its checkpoint."""
    with clause(cls, sentence):
        agent = agent_of()
        other = trial.learn(agent, agent.replace_brain)
    _same(cls, f"{sentence}, bit by bit", trace[: len(other)], other)


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


def _check_pretrain(cls: type[Brain], trial: _Trial, agent_of: Callable[[Sequence[Session]], StagedAgent]) -> None:
    """Check a brain with a `pretrain` of its own: what it leaves is finite, and it goes on as any brain."""

    def learned() -> StagedAgent:
        with clause(cls, "`pretrain` takes recorded episodes, and leaves them as they are"):
            return agent_of(trial.lesson())

    traces = []
    for _ in range(2):
        agent = learned()
        assert agent.brain is not None
        with clause(cls, "`arrays` are named arrays after `pretrain`"):
            arrays = {name: np.asarray(array) for name, array in agent.brain.arrays().items()}
        infinite = [name for name, it in arrays.items() if it.dtype.kind in "fc" and not np.isfinite(it).all()]
        expect(cls, "`arrays` are finite after `pretrain`", not infinite, f"NaN or infinity in {infinite[:1]}")
        with clause(cls, "it goes on after `pretrain`: its update travels and fits its muscle"):
            traces.append(trial.learn(agent))
        agent.close()
    sentence = "the same seed and recorded episodes give the same updates, bit by bit"
    _same(cls, sentence, traces[0], traces[1], " the second time")
    if issubclass(cls, CheckpointableBrain):
        _check_replaced(cls, trial, learned, traces[0], "a checkpoint keeps what was learned in `pretrain`")


def check_objective(
    cls: type[Objective], params: Params = None, *, rewards: Rewards = _REWARDS, **drawn: Unpack[Drawn]
) -> None:
    """Check whether an objective keeps its contract, by episodes with drawn readings, setpoints and rewards.

    In one row of each episode no reward is there, as it happens under taking turns.

    Args:
        cls: The class.
        params: Of the document.
        rewards: What is judged.
        drawn: See `Drawn`; actuators are set by chance.

    Raises:
        ContractBroken: As `check_muscle`.
    """
    trial = _Trial(rewards=rewards, **drawn)

    def play() -> list[bytes]:
        with clause(cls, "it is made with the params of the document"):
            agent = trial.agent(Chance, cls, objective_params=params)
        with clause(cls, "`internal_reward` returns one number or None for each row, also for one without rewards"):
            trace = trial.play(agent)
        agent.close()
        return trace

    _twice(cls, play, "the same rows give the same objective, bit by bit")


Form = type[Muscle] | tuple[type[Muscle], type[Brain] | None]


def check_equivalence(
    a: Form,
    b: Form,
    *,
    muscle_params: Params = None,
    brain_params: Params = None,
    objective: type[Objective] = Sum,
    **drawn: Unpack[Drawn],
) -> None:
    """Check that two forms of one agent do the same: each decision, objective, update and model, bit by bit.

    Usually one of them has `propose_actions` and `thinking`, the other `batched`, `propose_batch` and `learn`.

    Args:
        a: A muscle, or a muscle and its brain; without a brain there is no learning.
        b: The other form.
        muscle_params: Of the document, for both.
        brain_params: Likewise.
        objective: What both are judged by.
        drawn: See `Drawn`.

    Raises:
        ContractBroken: Names the classes and the first thing that differs; an author's own exception is its cause.
    """
    drawn.setdefault("sensors", _FORM_SENSORS)
    trial = _Trial(rewards=_REWARDS[:1], unrewarded=None, **drawn)
    traces = []
    for form in (a, b):
        muscle, brain = form if isinstance(form, tuple) else (form, None)
        with clause(muscle, "its form takes part in a run"), tempfile.TemporaryDirectory() as folder:
            params: dict[str, Any] = {"muscle_params": muscle_params, "brain_params": brain_params}
            agent = trial.agent(muscle, objective, brain=brain, models=Path(folder) / "models", **params)
            traces.append(_all_of(agent, trial))
    one, other = (form[0] if isinstance(form, tuple) else form for form in (a, b))
    sentence = f"{other.__qualname__} is the same policy: both give the same tables, bit by bit"
    for (what, left), (_, right) in zip(*traces, strict=True):
        expect(one, sentence, left == right, f"another {what}: {left!r:.200} and {right!r:.200}")


def _all_of(agent: StagedAgent, trial: _Trial) -> list[tuple[str, Any]]:
    """Return all that comes of episodes with drawn readings and rewards, each thing with its name."""
    names = [f"decision {step} of episode {it}" for it in range(trial.episodes) for step in range(trial.steps + 1)]
    trace: list[tuple[str, Any]] = list(zip(names, trial.play(agent), strict=True))
    trace += [(f"column {name} of the muscle's memory", bits) for name, bits in _columns(agent.memory)]
    brain = agent.brain
    if brain is not None:
        trace.append(("last update", repr(brain.last_update)))
        trace.append(("model", _digests(agent)))
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
