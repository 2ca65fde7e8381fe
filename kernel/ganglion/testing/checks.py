"""Checks of authors' classes by play; each clause of a contract is the sentence that reports a breach.

A check takes the class, `params` as in a document, and keywords of `Drawn`: sensors and actuators, seed of the run,
episodes, decisions of each. ContractBroken names the class, the clause and the finding; an exception of the author's
code is its cause.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from ganglion.errors import ContractBroken, GanglionError
from ganglion.peer.environment.host import speaks
from ganglion.peer.journal.snapshot import State
from ganglion.peer.step.layout import Layout
from ganglion.peer.values import serialize
from ganglion.sdk.brain import Brain, CheckpointableBrain
from ganglion.sdk.environment import Environment
from ganglion.sdk.filter import Filter
from ganglion.sdk.flow import Mode
from ganglion.sdk.functional import FunctionalEnvironment, Items
from ganglion.sdk.information import ActuatorInformation, Information, RewardInformation, SensorInformation
from ganglion.sdk.memory import FIELDS, Memory
from ganglion.sdk.models import Models
from ganglion.sdk.muscle import Muscle, Objective
from ganglion.sdk.part import construct
from ganglion.sdk.seed import generator_from_words, words
from ganglion.sdk.session import Session
from ganglion.sdk.spaces import Box, Discrete, Space, parse_space, space_from_wire
from ganglion.testing.stage import StagedAgent, StagedEnvironment
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import EnvironmentUpdated, Thought


# -- clauses, and spaces --------------------------------------------------------------------------------------------
@contextmanager
def clause(whose: type[Any], sentence: str) -> Iterator[None]:
    """Raise ContractBroken with a sentence of the contract for any exception in the block, which is its cause."""
    try:
        yield
    except ContractBroken:
        raise
    except Exception as error:
        text = str(error) if isinstance(error, GanglionError) else f"{type(error).__name__}: {error}"
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        raise ContractBroken(f"{whose.__qualname__}: {sentence}: {text}{notes}") from error


def expect(whose: type[Any], sentence: str, kept: bool, found: str) -> None:
    """Raise ContractBroken with the finding unless a clause is kept."""
    if not kept:
        raise ContractBroken(f"{whose.__qualname__}: {sentence}: found {found}")


def encoded(message: Any) -> bytes:
    """Return a message's bytes: equal bytes are equal values, bit for bit."""
    return codec_of(type(message)).encode(message)


def first_difference(one: Sequence[bytes], other: Sequence[bytes]) -> int | None:
    """Return the number of the first element in which two traces differ, None if they are equal."""
    for number, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return number
    return None if len(one) == len(other) else min(len(one), len(other))


def check_space(space: Space, *, samples: int = 20, seed: int = 1) -> None:
    """Check whether a space, also of an author's own class, keeps its contract; `samples` values are drawn."""
    cls = type(space)
    _check_forms(cls, space)
    draws = [generator_from_words(words(seed, ["check"])) for _ in range(2)]
    for _ in range(samples):
        with clause(cls, "a sample can be drawn"):
            value, twin = (space.sample(draw) for draw in draws)
        expect(cls, "it contains its samples", space.contains(value), repr(value))
        with clause(cls, "a value has a vector, and a vector its value"):
            vector = space.to_vector(value)
            again = space.from_vector(vector)
        expect(cls, "a vector has `size` elements", vector.shape == (space.size,), str(vector.shape))
        same = np.array_equal(space.to_vector(again), vector)
        expect(cls, "`from_vector` is the inverse of `to_vector`", same, repr(again))
        equal = np.array_equal(space.to_vector(twin), vector)
        expect(cls, "`sample` draws from the generator that it is given", equal, f"{value!r}, then {twin!r}")
        with clause(cls, "`clip` takes what is contained"):
            clipped = space.to_vector(space.clip(value))
        expect(cls, "`clip` leaves what is contained as it is", np.array_equal(clipped, vector), repr(clipped))
    if isinstance(space, Box):
        _check_bounds(cls, space, draws[0])


def _check_forms(cls: type[Space], space: Space) -> None:
    """Convert a space to text and wire and back; an author's class becomes the class that it inherits."""
    for form in ("text", "wire"):
        sentence = f"it is equal after its way through {form}"
        with clause(cls, sentence):
            back = parse_space(space.to_string()) if form == "text" else space_from_wire(space.to_wire())
            same = isinstance(space, type(back)) and type(back)._key(space) == back._key()  # noqa: SLF001
            if type(back) is cls:
                same = same and back == space and hash(back) == hash(space)
        expect(cls, sentence, same, back.to_string())


def _check_bounds(cls: type[Space], box: Box, draw: np.random.Generator) -> None:
    """Check values at the bounds of a box and beyond, and its scale."""
    ends = [end for end in (box.low, box.high) if np.isfinite(end.astype(np.float64)).all()]
    for end in ends:
        expect(cls, "bounds are inclusive", box.contains(end), f"{end!r} outside")
    nothing = np.full(box.shape, np.nan)
    expect(cls, "NaN is not contained", not (box.size and box.contains(nothing)), "it inside")
    if len(ends) == 2 and box.dtype.kind == "f" and (box.high > box.low).all():
        sentence = "`scale` maps [-1, 1] to its bounds, `unscale` is the inverse"
        with clause(cls, sentence):
            corners = [np.asarray(box.scale(np.full(box.shape, side))) for side in (-1.0, 1.0)]
            share = draw.uniform(-1.0, 1.0, box.shape)
            back = np.asarray(box.unscale(box.scale(share)))
        kept = all(np.allclose(corner, end) for corner, end in zip(corners, ends, strict=True))
        expect(cls, sentence, kept and np.allclose(back, share, atol=1e-3), f"{corners} and {back}")


# -- muscles, brains, objectives ------------------------------------------------------------------------------------
Sensors = Sequence[SensorInformation]
Actuators = Sequence[ActuatorInformation]
Rewards = Sequence[RewardInformation]
Params = Mapping[str, Any] | None

_UNREWARDED = 2  # the step of each episode without a reward, as under taking turns
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
    """The inputs of a check: sensors and actuators (their values are no-ops), seed, episodes, decisions of each."""

    sensors: Sensors
    actuators: Actuators
    seed: int
    episodes: int
    steps: int


class Sum(Objective):
    """Sum the given rewards."""

    def internal_reward(self, memory: Any, **kwargs: Any) -> float:
        """Return the sum of the newest row's rewards."""
        return float(np.nansum(memory.tail(1).rewards.flat[0]))


class Chance(Muscle):
    """Set every actuator at random."""

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
        """Return an agent with the trial's sensors, actuators and rewards; without a brain in mode test."""
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

        Step `unrewarded` has no reward; `between` is called in the middle of each episode, `after` with each answer, to
        which it adds.
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

        In turn they terminate, are truncated, and break off without closing readings.
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
    """Return the brain's newest update as sent."""
    assert agent.brain is not None
    blobs: list[bytes] = []
    tree = serialize(agent.brain.last_update, blobs, "update")
    return b"".join([encoded(Thought(tree)), *blobs])


def _digests(agent: StagedAgent) -> dict[str, str]:
    """Let the brain store its model; return the SHA-256 of each file by its tag."""
    return {str(row["tag"]): str(row["sha256"]) for row in agent.store().files}


def _twice(cls: type[Any], play: Callable[[], list[bytes]], sentence: str) -> list[bytes]:
    """Return the answers of a play, after comparing them with a second play."""
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

    A muscle that cannot act before the first update needs its `brain`; without a brain it acts as in a test phase
    without a model.
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

    _twice(cls, play, "the same seed and readings give the same setpoints, bit for bit")


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

    Updates must be sendable and fit the muscle, which by default acts at random and takes any update. The model is
    stored and loaded; the brain gets an evaluation; a `CheckpointableBrain` is exported in the middle of each episode
    and continued by another object. With a `pretrain` of its own, all but the model is checked again after drawn
    episodes. The default objective sums the rewards.
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

        trace = _twice(cls, play, "the same seed and rows give the same updates and the same model, bit for bit")
        if issubclass(cls, CheckpointableBrain):
            names = getattr(cls, "CHECKPOINT_FORMAT", None), getattr(cls, "CHECKPOINT_SCHEMA_VERSION", None)
            sentence = "`CHECKPOINT_FORMAT` is a text, `CHECKPOINT_SCHEMA_VERSION` an integer"
            expect(cls, sentence, isinstance(names[0], str) and type(names[1]) is int, repr(names))
            sentence = "what `export_checkpoint_state` returns is all that `restore_checkpoint_state` needs to go on"
            _check_replaced(cls, trial, lambda: agent_of(Path(folder) / "replaced"), trace, sentence)
        _check_model(cls, agent_of, Path(folder))
        if cls.pretrain is not Brain.pretrain:  # else recorded decisions come by `thinking`
            _check_pretrain(cls, trial, lambda it: agent_of(Path(folder) / "taught", sessions=it))


def _check_replaced(
    cls: type[Any], trial: _Trial, agent_of: Callable[[], StagedAgent], trace: list[bytes], sentence: str
) -> None:
    """Repeat a play, replacing the brain by one restored from its checkpoint."""
    with clause(cls, sentence):
        agent = agent_of()
        other = trial.learn(agent, agent.replace_brain)
    _same(cls, f"{sentence}, bit for bit", trace[: len(other)], other)


def _check_model(cls: type[Brain], agent_of: Callable[[Path, Path], StagedAgent], folder: Path) -> None:
    """Load the model of the first play into a new brain, which must have the same arrays."""
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
    """Check a brain with a `pretrain` of its own: its arrays are finite, and it continues as any brain."""

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
    sentence = "the same seed and recorded episodes give the same updates, bit for bit"
    _same(cls, sentence, traces[0], traces[1], " the second time")
    if issubclass(cls, CheckpointableBrain):
        _check_replaced(cls, trial, learned, traces[0], "a checkpoint keeps what was learned in `pretrain`")


def check_objective(
    cls: type[Objective], params: Params = None, *, rewards: Rewards = _REWARDS, **drawn: Unpack[Drawn]
) -> None:
    """Check whether an objective keeps its contract, by episodes with drawn readings, setpoints and rewards.

    One row of each episode has no reward, as under taking turns; actuators are set at random.
    """
    trial = _Trial(rewards=rewards, **drawn)

    def play() -> list[bytes]:
        with clause(cls, "it is made with the params of the document"):
            agent = trial.agent(Chance, cls, objective_params=params)
        with clause(cls, "`internal_reward` returns one number or None for each row, also for one without rewards"):
            trace = trial.play(agent)
        agent.close()
        return trace

    _twice(cls, play, "the same rows give the same objective, bit for bit")


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
    """Check that two forms of one agent do the same: each decision, objective, update and model, bit for bit.

    A form is a muscle, or a muscle and its brain; without a brain there is no learning. Usually one has
    `propose_actions` and `thinking`, the other `batched`, `propose_batch` and `learn`. Parameters and objective are
    those of both. ContractBroken names the first thing that differs.
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
    sentence = f"{other.__qualname__} is the same policy: both give the same tables, bit for bit"
    for (what, left), (_, right) in zip(*traces, strict=True):
        expect(one, sentence, left == right, f"another {what}: {left!r:.200} and {right!r:.200}")


def _all_of(agent: StagedAgent, trial: _Trial) -> list[tuple[str, Any]]:
    """Return all results of episodes with drawn readings and rewards, by name."""
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
    """Return the columns of a memory as bytes, or as text if that is impossible."""
    shard = memory.tail(len(memory))
    found: list[tuple[str, Any]] = []
    for name in FIELDS:
        column = shard.column(name)
        array = getattr(column, "flat", column) if not isinstance(column, np.ndarray) else column
        found.append((name, repr(array.tolist()) if array.dtype == object else array.tobytes()))
    return found


# -- environments ---------------------------------------------------------------------------------------------------
_REPEATS = (
    "the same seed and setpoints give the same readings, rewards and flags, bit for bit (random numbers come from"
    " `self.rng`; nothing is kept in the class or the module)"
)
_RESETS = (
    "the same `reset` again, with `self.rng` put back to where it was before, opens the same episode, bit for bit"
    " (nothing else is kept from the episodes before it)"
)
_PAIR = "`save_state` and `load_state` are there together, or not at all"
_SAVES = "`save_state` returns names and arrays, or other plain values, and changes nothing"
_LOADS = (
    "`load_state` gives a started environment the state of another: what `save_state` returns is all that it needs"
    " to go on, bit for bit"
)


def check_environment(
    cls: type[Environment],
    params: Mapping[str, Any] | None = None,
    *,
    seed: int = 1,
    episodes: int = 3,
    steps: int = 50,
) -> None:
    """Check whether an environment keeps its contract.

    The environment is started, gets setpoints drawn from its spaces and their bounds, is reset at the end of an episode
    and in the middle of one, and is shut down. A second and a third course must give the same bits; in the third each
    reset is done twice, with a step between them in which no actuator is set. With `save_state` and `load_state` the
    state moves once in each episode to another object, which continues. `check_functional` comes first for a functional
    environment. There are at least 2 `episodes` of at most `steps` steps.
    """
    if issubclass(cls, FunctionalEnvironment):
        check_functional(cls, params, seed=seed)
    first = _Course(cls, params, seed, episodes, steps).run()
    for trial, sentence in ((_Course, _REPEATS), (_Twice, _RESETS)):
        _same(cls, sentence, first, trial(cls, params, seed, episodes, steps).run(), " the second time")
    with clause(cls, _PAIR):
        says_itself = speaks(cls)
    if says_itself:
        for trial, sentence in ((_Asked, _SAVES), (_HandedOn, _LOADS)):
            _same(cls, sentence, first, _run(trial(cls, params, seed, episodes, steps), sentence))


def _run(trial: _Course, sentence: str) -> list[bytes]:
    """Return the answers of a class that passed the earlier checks; any failure now breaks this sentence."""
    try:
        return trial.run()
    except ContractBroken as error:
        whose, text = trial.cls.__qualname__, str(error)
        if _SAVES in text or _LOADS in text:
            raise
        raise ContractBroken(f"{whose}: {sentence}: then {text.removeprefix(f'{whose}: ')}") from error


class _Course:
    """Run an environment once and keep its answers."""

    def __init__(
        self, cls: type[Environment], params: Mapping[str, Any] | None, seed: int, episodes: int, steps: int
    ) -> None:
        self.cls, self._params, self._seed = cls, params, seed
        self._staged = self._another()
        self._draw = generator_from_words(words(seed, ["check"]))
        self._episodes, self._steps = max(2, episodes), steps
        self._longest: int | None = None
        self._trace: list[bytes] = []

    def _another(self) -> StagedEnvironment:
        return StagedEnvironment(self.cls, self._params, seed=self._seed)

    def run(self) -> list[bytes]:
        """Return the answers as bytes."""
        cls = self.cls
        sentence = "`longest_episode` takes the params of the document and returns a number of steps or None"
        with clause(cls, sentence):
            self._longest = longest = cls.longest_episode(**dict(self._params or {}))
        known = longest is None or (type(longest) is int and longest >= 1)
        expect(cls, sentence, known, repr(longest))
        with clause(cls, "it is made with the params of the document, and `start_environment` opens an episode"):
            declared = self._staged.start()
            self._trace.append(encoded(declared))
        expect(cls, "it declares at least one sensor", bool(declared.sensors), "none")
        without = [it["id"] for it in declared.actuators if it.get("value") is None]
        expect(cls, "each actuator has a value, its no-op", not without, f"no value of {', '.join(without)}")
        self._actuators = Layout.of(declared.actuators)
        for episode in range(self._episodes):
            if episode:
                with clause(cls, "`reset` opens the next episode, with the same declarations, at any step of the last"):
                    self._trace.append(encoded(self._open()))
            # The second episode ends in its middle.
            self._episode(max(1, self._steps // 2) if episode == 1 else self._steps, max(1, episode * self._steps // 5))
        with clause(cls, "`shutdown` ends it"):
            self._staged.shutdown()
        return self._trace

    def _open(self) -> EnvironmentUpdated:
        """Open the next episode."""
        return self._staged.reset()

    def _look(self) -> None:
        """Carry out the hook of each episode, between two steps or at the end."""

    def _episode(self, steps: int, asked: int) -> None:
        cls = self.cls
        for step in range(1, steps + 1):
            values = [self._value(space, step) for space in self._actuators.spaces]
            with clause(cls, "`update` takes any setpoints of the actuators' spaces and returns all that it declared"):
                updated = self._staged.update(self._actuators.to_row(values))
            self._trace.append(encoded(updated))
            ended = updated.terminated or updated.truncated
            if step == asked or (ended and step < asked):
                self._look()
            if ended:
                return
            sentence = f"no episode is longer than `longest_episode` says ({self._longest})"
            within = self._longest is None or step < self._longest
            expect(cls, sentence, within, f"step {step} with neither flag")

    def _value(self, space: Any, step: int) -> Any:
        """Return a value of a space: first the corners of its vector, then drawn ones."""
        low, high = getattr(space, "low", None), getattr(space, "high", None)
        if step <= 2 and low is not None and high is not None:
            corner = low if step == 1 else high
            if space.contains(corner):
                return space.canonical(corner)
        return space.sample(self._draw)


class _Twice(_Course):
    """Do each reset twice, with a step between them."""

    def _open(self) -> EnvironmentUpdated:
        opened = super()._open()
        with clause(self.cls, "`update` takes a step in which no actuator is set"):
            self._staged.update([], [])
        return self._staged.reset(opened)


class _Asked(_Course):
    """Take the state and continue."""

    def _look(self) -> None:
        self._taken()

    def _taken(self) -> State:
        with clause(self.cls, _SAVES):
            return self._staged.take_state()


class _HandedOn(_Asked):
    """Take the state and continue with another object."""

    def _look(self) -> None:
        state, former = self._taken(), self._staged
        with clause(self.cls, "`shutdown` ends it"):
            former.shutdown()
        self._staged = self._another()
        with clause(self.cls, _LOADS):
            self._staged.start()
            self._staged.go_on(state)


# -- functional environments ----------------------------------------------------------------------------------------
def check_functional(
    cls: type[FunctionalEnvironment], params: Params = None, *, seed: int = 1, bodies: int = 5, steps: int = 20
) -> None:
    """Check whether a functional environment is a pure function on batches.

    In every step each method is called twice with equal arguments, and for each row alone. There are `bodies` rows, at
    least 2; rows of ended bodies are removed, and after the last one the next episodes begin.
    """
    draw = generator_from_words(words(seed, ["check"]))
    with clause(cls, "it is made with the params of the document"):
        attributes = {"uid": "world", "name": "world", "seed": seed, "rng": draw, "params": dict(params or {})}
        world = construct(cls, params or {}, {"uid": "world", "seed": seed, "broker_uri": ""}, attributes)
        kinds = world.state_items, world.action_items, world.state_items, world.observation_items
        spaces = world.action_items.spaces(world.action_bounds)
    states: dict[str, Any] = {}
    for _ in range(steps):
        if not states:
            with clause(cls, f"`initial_states` and `get_first_observations` {_DECLARED}"):
                begun, again = (world.begin([*range(seed, seed + bodies)]) for _ in range(2))
                world.first_observations(begun)
            states = {name: world.to_array(array).copy() for name, array in begun.items()}
            same = all(states[name].tobytes() == world.to_array(again[name]).tobytes() for name in states)
            expect(cls, "`initial_states` draw from the generator that they are given", same, "others")
            _check_pure(world, "get_first_observations", [(kinds[0], states)])
        rows = len(next(iter(states.values())))
        drawn = {name: [space.sample(draw) for _ in range(rows)] for name, space in spaces.items()}
        actions = {name: np.array(values, world.action_items.dtypes[name]) for name, values in drawn.items()}
        with clause(cls, f"`get_action_results`, `get_reward` and `get_whether_alive` {_DECLARED}"):
            found = world.step(world.from_arrays(states), world.from_arrays(actions))
        new, seen = ({n: world.to_array(it).copy() for n, it in part.items()} for part in found[:2])
        groups = list(zip(kinds, (states, actions, new, seen), strict=True))
        _check_pure(world, "get_action_results", groups[:2])
        _check_pure(world, "get_reward", groups)
        _check_pure(world, "get_whether_alive", groups[3:])
        alive = world.to_array(found.alive)
        states = {name: array[alive] for name, array in new.items()} if alive.any() else {}


_DECLARED = "return what was declared: names, shapes behind the batch axis, and dtypes"


def _check_pure(world: FunctionalEnvironment, method: str, groups: Sequence[tuple[Items, Mapping[str, Any]]]) -> None:
    """Call a method twice, and for each row alone; `groups` are its arguments, which must not change."""
    cls = type(world)

    def asked(rows: Any) -> list[Any]:
        given = [world.from_arrays({name: it[rows].copy() for name, it in group.items()}) for _, group in groups]
        with clause(cls, f"`{method}` takes any batch"):
            result = getattr(world, method)(*(kind.give(part) for (kind, _), part in zip(groups, given, strict=True)))
            found = [world.to_array(leaf).copy() for leaf in _leaves(result)]
        for (_, group), part in zip(groups, given, strict=True):
            for name, array in group.items():
                kept = world.to_array(part[name]).tobytes() == array[rows].tobytes()
                expect(cls, f"`{method}` leaves what it is given as it is", kept, f"another {name}")
        return found

    first = asked(slice(None))
    same = [it.tobytes() for it in first] == [it.tobytes() for it in asked(slice(None))]
    expect(cls, f"`{method}` returns the same for the same, bit for bit", same, "something else the second time")
    for row in range(len(next(iter(groups[0][1].values())))):
        alone = asked(slice(row, row + 1))
        same = [it[row : row + 1].tobytes() for it in first] == [it.tobytes() for it in alone]
        expect(cls, f"`{method}`: a row of a batch equals the same row alone, bit for bit", same, f"another row {row}")


def _leaves(given: Any) -> list[Any]:
    """Return the arrays in tuples, lists and maps, in order."""
    if isinstance(given, Mapping):
        given = list(given.values())
    return [leaf for part in given for leaf in _leaves(part)] if isinstance(given, list | tuple) else [given]


# -- filters --------------------------------------------------------------------------------------------------------
_FILTER_ACTUATORS = (ActuatorInformation(0.5, Box(-1.0, 1.0, ()), "world.push"),)


class _Teller(Chance):
    """Send the readings of each decision to the brain."""

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        seen = [it.space.to_vector(it.value).tolist() for it in sensors]
        return super().propose_actions(sensors, actuators_available), {"seen": seen}


class _Hearer(CheckpointableBrain):
    """Return the received data as the update."""

    CHECKPOINT_FORMAT, CHECKPOINT_SCHEMA_VERSION = "hearer", 1

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        return {"heard": repr((data_from_muscle, self.memory.tail(1).objective))}

    def arrays(self) -> Any:
        return {"nothing": np.zeros(1)}

    def load_arrays(self, arrays: Any) -> None:
        """Take nothing."""

    def export_checkpoint_state(self) -> Any:
        return {}

    def restore_checkpoint_state(self, state: Any) -> None:
        """Take nothing."""


def check_filter(cls: type[Filter], params: Params = None, **drawn: Unpack[Drawn]) -> None:
    """Check whether a filter keeps its contract, with drawn readings and setpoints."""
    drawn.setdefault("sensors", _FORM_SENSORS)
    drawn.setdefault("actuators", _FILTER_ACTUATORS)
    trial = _Trial(**drawn)
    with tempfile.TemporaryDirectory() as folder:
        made = count()

        def agent_of(load: Path | None = None) -> StagedAgent:
            models = Path(folder) / str(next(made))
            return trial.agent(_Teller, brain=_Hearer, filters=[(cls, params)], models=models, load=load)

        def play() -> list[bytes]:
            with clause(cls, "it is made, set up, and declares sensors and actuators in both processes"):
                agent = agent_of()
            halves: list[Any] = [agent.muscle, agent.brain]
            told = [[(it.uid, it.space) for it in (*half.sensors, *half.actuators)] for half in halves]
            expect(cls, "both halves declare the same", told[0] == told[1], repr(told[1])[:200])
            with clause(cls, "readings, setpoints, data and updates pass through, each in its declared space"):
                trace = trial.learn(agent)
                agent.store()
            agent.close()
            return trace

        trace = _twice(cls, play, "the same readings and setpoints give the same")
        _check_anew(cls, trial, params)
        with clause(cls, "both halves `receive` what was published, as it lies with a model"):
            agent = agent_of(Path(folder) / "0")
        agent.close()
        if agent.can_be_replaced:
            sentence = "what `save_state` returns can travel, and is all that `load_state` needs to go on"
            _check_replaced(cls, trial, agent_of, trace, sentence)


def _check_anew(cls: type[Filter], trial: _Trial, params: Params) -> None:
    """Play one episode twice without learning; a filter that draws random numbers may differ."""
    sentence = "`reset` begins anew: an episode knows nothing of the one before"
    with clause(cls, sentence):
        agent = trial.agent(_Teller, filters=[(cls, params)])
        own, others = agent.muscle.rng.bit_generator, agent.filter_generators
        state, fresh = own.state, [it.bit_generator.state for it in others]
        traces = []
        for _ in range(2):
            own.state = state
            answers = replace(trial, episodes=1).play(agent)
            traces.append([*answers, repr(agent.memory.tail(trial.steps).additional_data.tolist())])
    draws = fresh != [it.bit_generator.state for it in others]
    expect(cls, sentence, draws or traces[0] == traces[1], "the episode before shows in the next one")
