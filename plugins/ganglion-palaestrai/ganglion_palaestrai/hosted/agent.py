"""Agent: muscles, brains and objectives of palaestrAI, played unmodified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np
from palaestrai import agent as theirs
from palaestrai.types import Mode as TheirMode

from ganglion.sdk import (
    ActuatorInformation,
    AuthorError,
    Box,
    Brain,
    Evaluation,
    EvaluationResult,
    Information,
    Memory,
    Mode,
    Models,
    Muscle,
    Objective,
    Space,
)
from ganglion_palaestrai.dumper import DUMP, dump_of
from ganglion_palaestrai.hosted.chance import Chance
from ganglion_palaestrai.hosted.parcel import opened, packed
from ganglion_palaestrai.hosted.part import Hosted
from ganglion_palaestrai.hosted.values import our_value, their_information, their_space, their_value

__all__ = ["HostedBrain", "HostedMuscle", "HostedObjective", "Mirror"]


def _trusted(cls: type[Any]) -> frozenset[str]:
    """Return the packages whose modules and enumerations an agent of this class may be sent."""
    return frozenset({"palaestrai", *(it.__module__.partition(".")[0] for it in cls.__mro__)} - {"builtins", "abc"})


def _mode(mode: Mode) -> Any:
    """Return what palaestrAI shows agents: an evaluation is a test to them."""
    return TheirMode.TRAIN if mode is Mode.TRAIN else TheirMode.TEST


class _Rows:
    """Give palaestrAI's memory the rows of ours, with informations in place of columns.

    Args:
        sensors: Their spaces are those of readings; any other is an unbounded Box.
        actuators: Likewise of setpoints.
    """

    def __init__(self, sensors: Sequence[Information] = (), actuators: Sequence[Information] = ()) -> None:
        self._declared: dict[Any, dict[str, Space]] = {
            theirs.SensorInformation: {it.uid: it.space for it in sensors},
            theirs.ActuatorInformation: {it.uid: it.space for it in actuators},
            theirs.RewardInformation: {},
        }
        self._spaces: dict[tuple[Any, str, tuple[int, ...]], Any] = {}

    def append(self, memory: Any, tag: str, shard: Any, row: int, **more: Any) -> None:
        """Add row `row` of a shard of ours; `more` are further columns."""
        ended, terminated, truncated = (getattr(shard, name)[row] for name in ("dones", "terminated", "truncated"))
        memory.append(
            muscle_uid=tag,
            sensor_readings=self._informations(theirs.SensorInformation, shard.sensor_readings, row),
            actuator_setpoints=self._informations(theirs.ActuatorInformation, shard.actuator_setpoints, row),
            rewards=self._informations(theirs.RewardInformation, shard.rewards, row),
            done=bool(ended),
            terminated=None if terminated is None else bool(terminated),
            truncated=None if truncated is None else bool(truncated),
            decision_index=int(shard.decision_index[row]),
            **more,
        )

    def _informations(self, kind: Any, table: Any, row: int) -> list[Any]:
        found, values = [], table.iloc[row]
        for uid in table.columns:
            value = np.asarray(values[uid])
            if kind is theirs.RewardInformation and np.isnan(value).all():
                continue  # this decision has none under this id
            space = self._spaces.get((kind, uid, value.shape))
            if space is None:
                ours = self._declared[kind].get(uid) or Box(-np.inf, np.inf, value.shape)
                space = self._spaces[kind, uid, value.shape] = their_space(ours)
            found.append(kind(value=their_value(space, value), space=space, uid=uid))
        return found


def _objective(shard: Any, row: int) -> Any:
    """Return the objective of a row as palaestrAI keeps it."""
    value = float(shard.objective[row])
    return np.array([None if np.isnan(value) else value])


class Mirror(theirs.Memory):  # type: ignore[misc]
    """Be a memory of palaestrAI that takes the rows of a muscle of ours once it is looked at."""

    def __init__(self, source: Memory, rows: _Rows, tag: str) -> None:
        self._source, self._rows, self._tag = source, rows, tag
        self.due = 0
        """How many decisions have been completed that it does not have."""
        super().__init__()

    def _take(self) -> None:
        if self.due and len(self._source):
            shard, self.due = self._source.tail(self.due), 0
            for row in range(len(shard)):
                self._rows.append(self, self._tag, shard, row, objective=_objective(shard, row))

    @property
    def _data(self) -> Any:
        self._take()
        return self.__dict__["data"]

    @_data.setter
    def _data(self, data: Any) -> None:
        self.__dict__["data"] = data

    @property
    def _index(self) -> Any:
        self._take()
        return self.__dict__["index"]

    @_index.setter
    def _index(self, index: Any) -> None:
        self.__dict__["index"] = index


class _Dumper(theirs.BrainDumper):  # type: ignore[misc]
    """Keep dumps of palaestrAI's brains among the models of a run, as bytes that nobody looks into here.

    What palaestrAI would swallow is kept in `failed`.
    """

    def __init__(self, reader: Any, models: Models | None, agent: str) -> None:
        location = SimpleNamespace(agent_name=agent, experiment_run_uid="", experiment_run_phase=0)
        super().__init__(dump_to=location, load_from=location)
        self._reader, self._models = reader, models
        self.failed: list[Exception] = []
        self.found = 0
        """How many dumps were found."""

    def save(self, brain_state: BinaryIO, tag: str | None = None) -> None:
        """Keep a dump under a tag."""
        try:
            if self._models is None:
                raise AuthorError("a muscle reads dumps; its brain keeps them")
            self._models.save({DUMP: np.frombuffer(brain_state.read(), dtype=np.uint8)}, tag or "")
        except Exception as error:
            self.failed.append(error)
            raise

    def _load(self, source_locator: Any, tag: str | None = None) -> BinaryIO:
        try:
            found = dump_of(self._reader.load(tag or ""))
        except Exception as error:
            self.failed.append(error)
            raise
        if found is None:
            raise theirs.NoBrainFoundError(source_locator)
        self.found += 1
        return found

    def check(self) -> None:
        """Raise what was swallowed."""
        if self.failed:
            raise self.failed.pop(0)


class HostedMuscle(Hosted, Muscle):
    """Play a muscle of palaestrAI."""

    def __init__(self, **params: Any) -> None:
        Chance(self.rng)
        super().__init__(**params)
        self._sensor_spaces: dict[str, Any] = {}
        self._actuator_spaces: dict[str, Any] = {}

    def setup(self) -> Any:
        """Prepare; see `Muscle`."""
        Chance(self.rng)  # torch may have been imported by now
        muscle = self.theirs
        muscle._uid, muscle._mode = self.uid, _mode(self.mode)
        muscle._memory = self._mirror = Mirror(self.memory, _Rows(self.sensors, self.actuators), self.uid)
        muscle._model_loaders = [] if self.model_reader is None else [_Dumper(self.model_reader, None, self.name)]
        if getattr(muscle, "_seed", 0) is None:
            muscle._seed = Chance.draw()  # theirs leaves the generators alone otherwise
        return muscle.setup()

    def prepare_model(self) -> None:
        """Let it load its own dumps; one that finds none under its tags gets the brain's last update."""
        loaders = self.theirs._model_loaders
        if not loaders:
            return
        self.theirs.prepare_model()
        for loader in loaders:
            loader.check()
        policy = None if any(loader.found for loader in loaders) else self.load("policy")
        if policy is not None:
            self.update(policy)

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        """Decide; see `Muscle`."""
        muscle = self.theirs
        muscle._mode = _mode(self.mode)
        readings = their_information(theirs.SensorInformation, sensors, self._sensor_spaces)
        offered = their_information(theirs.ActuatorInformation, actuators_available, self._actuator_spaces)
        found = muscle.propose_actions(readings, offered)
        setpoints, data = found if isinstance(found, tuple) else (found, None)
        chosen = {str(it.uid): it.value for it in setpoints}
        for it in actuators_available:
            if chosen.get(it.uid) is not None:
                it.value = _fitting(it, our_value(chosen[it.uid]))
        _note(self, muscle)
        self._mirror.due += 1
        return actuators_available, packed(data, "data for the brain")

    def update(self, update: Any) -> Any:
        """Take what the brain sent."""
        return self.theirs.update(opened(update, _trusted(self.hosted)))

    def reset(self) -> Any:
        """Begin the next episode."""
        return self.theirs.reset()

    def teardown(self) -> Any:
        """Release what it holds."""
        return self.theirs.teardown()


def _fitting(actuator: ActuatorInformation, value: Any) -> Any:
    """Return a value as its space has it: palaestrAI takes an array of one element for a number, and back."""
    space = actuator.space
    if space.contains(value) or space.composite:
        return value
    array = np.asarray(value)
    return space.from_vector(array.reshape(-1)) if array.size == space.size else value


class HostedObjective(Hosted, Objective):
    """Ask an objective of palaestrAI."""

    takes_params = False

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._memory, self._rows = theirs.Memory(), _Rows()

    def internal_reward(self, memory: Memory, **kwargs: Any) -> float | None:
        """Return what it makes of the newest row; an empty array is no value."""
        self._rows.append(self._memory, self.uid, memory.tail(1), 0)
        found = self.theirs.internal_reward(self._memory, **kwargs)
        value = None if found is None or np.size(found) == 0 else float(np.asarray(found).reshape(-1)[0])
        self._memory.append(self.uid, objective=np.array([value]))
        return value


class HostedBrain(Hosted, Brain):
    """Play a brain of palaestrAI."""

    def __init__(self, **params: Any) -> None:
        Chance(self.rng)
        super().__init__(**params)
        self.theirs._name, self.theirs._seed = self.name, self.seed % 2**31
        self._taken: dict[str, float | None] = {}  # muscle -> objective of its row that is in the memory of theirs

    def setup(self) -> None:
        """Prepare; see `Brain`. A dump is loaded first, as palaestrAI does."""
        Chance(self.rng)
        brain = self.theirs
        brain.mode = _mode(self.mode)
        nothing = (None,) * (len(self.sensors) + len(self.actuators))
        brain.sensors = their_information(theirs.SensorInformation, self.sensors, {}, nothing)
        brain.actuators = their_information(theirs.ActuatorInformation, self.actuators, {}, nothing)
        brain._dumpers = [_Dumper(self.models, self.models, self.name)]
        if self.models.read_from != self.models.folder and _overrides(brain, "load"):
            brain.load()
            self._check()
        brain.setup()
        limit = brain.memory.size_limit
        self._newest_only = limit <= 2  # who says so looks at one row of each muscle, and may hold that it is all
        brain._memory = theirs.Memory(limit)  # its conductor makes a new one behind the set-up, too
        self._rows = _Rows(self.sensors, self.actuators)
        self.memory.size_limit = 2 * max(1, len(self.muscles))  # palaestrAI's memory is the one that is looked at

    def load(self) -> None:
        """Do nothing: the dumps were loaded before the set-up."""

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        """Think about the newest row, which its memory gets; None as data asks for a first update."""
        brain = self.theirs
        data = opened(data_from_muscle, _trusted(self.hosted))
        self.take(muscle_id)
        given, objective = self._taken.pop(muscle_id), _objective(self.memory.tail(1, [muscle_id]), 0)
        if given is not None and objective[0] != given:  # a filter of ours has changed it
            brain._memory._data[muscle_id].objective[-1] = objective
        update = brain.thinking(muscle_id, data)
        self._check()
        _note(self, brain)
        return packed(update)

    def take(self, muscle_id: str) -> None:
        """Give its memory the newest row of a muscle, which filters of palaestrAI look at before it thinks."""
        if muscle_id in self._taken:
            return
        memory, shard = self.theirs._memory, self.memory.tail(1, [muscle_id])
        objective = _objective(shard, 0)
        self._taken[muscle_id] = objective[0]
        if objective[0] is None:  # palaestrAI leaves others out
            return
        if self._newest_only and muscle_id in memory._index:
            memory._index.remove(muscle_id)
            del memory._data[muscle_id]
        self._rows.append(memory, muscle_id, shard, 0, objective=objective)

    def objective(self, muscle_id: str, objective: float | None) -> float | None:
        """Return an objective, or what a filter of palaestrAI has made of it in its memory."""
        given = self._taken.get(muscle_id)
        found = None if given is None else self.theirs._memory._data[muscle_id].objective[-1].item()
        return objective if found == given else found

    def initial_update(self, muscle_id: str) -> Any:
        """Return the newest update, before the first one what it thinks about nothing."""
        if self.last_update is not None:
            return self.last_update
        found = self.theirs.thinking(muscle_id, None)
        self._check()
        return packed(found)

    def evaluate(self, evaluation: Evaluation) -> EvaluationResult | None:
        """Ask it what it makes of an evaluation, whose episodes it finds where palaestrAI's store would be."""
        if not _overrides(self.theirs, "evaluate_rollouts"):
            return None
        from ganglion_palaestrai.hosted.store import shown  # needs SQLAlchemy

        found = self.theirs.evaluate_rollouts(**shown(self.name, evaluation))
        self._check()
        return None if found is None else EvaluationResult(found.metrics, found.checkpoint_id, found.checkpoint_hash)

    def store(self) -> None:
        """Let it keep its dumps."""
        if _overrides(self.theirs, "store"):
            self.theirs.store()
            self._check()

    def _check(self) -> None:
        for dumper in self.theirs._dumpers:
            dumper.check()


def _overrides(brain: Any, name: str) -> bool:
    """Say whether a brain has a method of its own."""
    return getattr(type(brain), name) is not getattr(theirs.Brain, name)


def _note(ours: Any, its: Any) -> None:
    """Take statistics: numbers as they are, of a map of numbers the mean; anything else is none."""
    for key, value in its.pop_statistics().items():
        given = list(value.values()) if isinstance(value, Mapping) else [value]
        if given and all(isinstance(it, int | float | np.number) for it in given):
            ours.add_statistics(key, float(np.mean(given)), allow_overwrite=True)
