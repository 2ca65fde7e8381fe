"""Host of a muscle: completes decisions, asks the brain, proposes the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import GanglionError, NotSetUp, RemoteProtocolError, SpaceError
from ganglion.peer.conversation import Request, episode_of
from ganglion.peer.hooks import Hooks, identity, seed_process
from ganglion.peer.layout import Layout, freeze, thaw
from ganglion.peer.loader import Loader
from ganglion.peer.matrix import Columns, Readings, takes_arrays
from ganglion.peer.participant import Handler, Participant
from ganglion.run.recovery import span_s
from ganglion.sdk.information import ActuatorInformation, RewardInformation, SensorInformation, Template
from ganglion.sdk.memory import Memory
from ganglion.sdk.mode import Mode
from ganglion.sdk.models import Models
from ganglion.sdk.muscle import Batch, Muscle, read_batch_proposal, read_proposal
from ganglion.sdk.objective import Objective, objective_value
from ganglion.sdk.seed import derive, generator_from_words
from ganglion.wire.envelope import Position
from ganglion.wire.messages import (
    Act,
    Acted,
    BrainJoin,
    BrainLeave,
    Done,
    MuscleReset,
    MuscleSetup,
    Nothing,
    Think,
    Thought,
    UpdateAsked,
)

__all__ = ["MuscleHost"]

Array = NDArray[Any]
_Read = tuple[list[Any], list[Any], Any, Any, list[bytes]]
"""Setpoints, these as they travel, the data, these as they travel, their blobs."""
POLICY = "policy"  # the tag of the last update beside a model


@dataclass(slots=True)
class _Decision:
    """A decision whose outcome is not known yet; `settled` once its objective is."""

    index: int
    readings: list[Any]
    readings_row: list[Any]  # as they travel
    setpoints: list[Any]
    setpoints_row: list[Any]
    data: Any
    frozen: Any  # the data as they travel; what their author changes later changes nothing
    blobs: list[bytes]
    rewards: list[Any] | None = None
    objective: float | None = None
    settled: bool = False


class _Policy:
    """Read the newest policy from the brain that is training, all else from the model that the phase began with."""

    def __init__(self, newest: Callable[[], tuple[bool, Any]], files: Models | None) -> None:
        self._newest, self._files = newest, files

    def load(self, tag: str = "") -> Any:
        """Return what was saved under a tag, None if nothing was."""
        if tag == POLICY:
            found, policy = self._newest()
            if found:
                return policy
        return None if self._files is None else self._files.load(tag)


class MuscleHost:
    """Host one muscle per phase, with its objective and its memory."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._muscle: Muscle | None = None
        self.participant: Participant  # set before anything is served

    def handlers(self) -> dict[str, Handler]:
        """Return what this host answers."""
        return {
            "muscle.setup": self.setup,
            "muscle.act": self.act,
            "muscle.reset": self.reset,
            "muscle.shutdown": self.shutdown,
        }

    # -- a phase ------------------------------------------------------------------------------------------------------
    def setup(self, request: Request, setup: MuscleSetup) -> Done:
        """Make muscle and objective, join the brain, take the first update or the stored policy."""
        self.participant.begin_tape([(request, None)])  # all of it is made here
        self._setup = setup
        self._worker, self._mode = setup.worker, Mode(setup.mode)
        uid = f"{setup.agent}/{setup.worker}"
        self._uid = uid
        blame = self._loader.blame("muscle", str(setup.plugin["name"]))
        self._hooks = hooks = Hooks(f"muscle {setup.agent} (worker {setup.worker}), {blame}")
        seed_process(setup.stream)
        self._sensor_layout, self._actuator_layout = Layout.of(setup.sensors), Layout.of(setup.actuators)
        sensors = [SensorInformation(None, s, u) for u, s in self._sensor_layout.pairs()]
        noops = self._actuator_layout.from_row(
            [
                d.get("value", s.default())
                for d, s in zip(setup.actuators, self._actuator_layout.spaces, strict=True)
            ],
            "setup.actuators",
        )
        actuators = [
            ActuatorInformation(value, space, uid)
            for value, (uid, space) in zip(noops, self._actuator_layout.pairs(), strict=True)
        ]
        for information in (*sensors, *actuators):
            information.space.seed(generator_from_words(derive(setup.stream, "space", information.uid)))
        self._sensors, self._actuators = Template(sensors), Template(actuators)
        self._memory = Memory()
        self._memory.declare(sensors, actuators)
        self._rewards: Layout | None = None
        self._told_rewards = False
        attributes = {
            "uid": uid,
            "name": setup.agent,
            "worker": setup.worker,
            "mode": self._mode,
            "memory": self._memory,
            "sensors": sensors,
            "actuators": actuators,
            "static_world_models": dict(setup.static_models or {}),
            "model_reader": self._model_reader(setup),
            **identity(setup.stream),
        }
        if setup.rewards is not None:
            self._declare_rewards(setup.rewards)
        blame = self._loader.blame("objective", str(setup.objective["name"]))
        self._judging = Hooks(f"objective of {setup.agent} (worker {setup.worker}), {blame}")
        self._objective: Objective = self._judging("__init__", self._make_objective, setup)
        muscle: Muscle = hooks("__init__", lambda: self._loader.make("muscle", setup.plugin, attributes))
        self._muscle = muscle
        self._actuator_list, self._bodies = actuators, [(setup.agent, 0)]
        self._canonical = [space.canonical for space in self._actuator_layout.spaces]
        self._columns = Columns(self._sensor_layout) if takes_arrays(muscle) else None
        hooks("setup", muscle.setup)
        self._begin_episode(episode_of(request))
        self._due: Thought | None = None  # an update that came with the end of an episode
        if setup.brain is not None:
            thought = self._ask("brain.join", BrainJoin(setup.worker), None)
            self._update(thought)
        else:
            self._prepare(muscle)
        return Done()

    def _prepare(self, muscle: Muscle) -> None:
        """Let the muscle take over the stored policy; what goes wrong is told with the model's folder."""
        try:
            self._hooks("prepare_model", muscle.prepare_model)
        except GanglionError as error:
            if self._setup.models is not None:
                error.add_note(f"model {self._setup.models}")
            raise

    def reset(self, request: Request, reset: MuscleReset) -> Done:
        """Begin the next episode."""
        muscle = self._running()
        self._begin_episode(reset.episode)
        if reset.prepare:
            self._hooks("prepare_model", muscle.prepare_model)
        self._hooks("reset", muscle.reset)
        return Done()

    def shutdown(self, request: Request, _: Any) -> Done:
        """End the phase for this muscle."""
        if self._muscle is not None:
            if self._setup.brain is not None:
                brain = self._setup.brain
                self.participant.call(
                    brain, "brain.leave", BrainLeave(self._worker), span_s("brain.leave", {})
                )
            self._hooks("teardown", self._muscle.teardown)
            self._hooks.close()
            self._judging.close()
            self._muscle = None
        return Done()

    def _model_reader(self, setup: MuscleSetup) -> _Policy | Models | None:
        """Return what `Muscle.load` reads from: the files that the phase began with, in an evaluation the brain too."""
        files = None if setup.models is None else Models(setup.models)
        return files if setup.policy is None else _Policy(self._policy, files)

    def _policy(self) -> tuple[bool, Any]:
        """Ask the brain for its newest update; says whether there is one."""
        assert self._setup.policy is not None
        span = span_s("brain.think", self._setup.deadlines_s or {})
        pending = self.participant.ask(self._setup.policy, "brain.policy", Nothing(), span)
        thought, parts = self.participant.collect([pending])[0]
        return thought.fresh, thaw(thought.update, parts, "update") if thought.fresh else None

    def _make_objective(self, setup: MuscleSetup) -> Any:
        attributes = {
            "uid": self._uid,
            "name": setup.agent,
            "worker": setup.worker,
            "mode": Mode(setup.mode),
            **identity(setup.objective_stream),
        }
        return self._loader.make("objective", setup.objective, attributes)

    def _begin_episode(self, episode: int) -> None:
        self._episode = episode
        self._episodes = np.array([episode])
        self._episodes.flags.writeable = False
        self._decision: _Decision | None = None
        self._decisions = 0
        self._hooks.step = None

    # -- a decision ---------------------------------------------------------------------------------------------------
    def act(self, request: Request, act: Act) -> Acted:
        """Complete the decision before, let the brain think, make the next decision."""
        muscle = self._running()
        if act.passing:
            return self._pass(act, request.head.position)
        if len(act.readings) != 1:
            raise RemoteProtocolError(f"act.readings: expected one row, found {len(act.readings)}")
        row = act.readings[0]
        matrix = None if self._columns is None else self._columns.matrix([row], "act.readings")
        # Where all are numbers the matrix has looked at them: they are the values.
        readings = row if matrix is not None and self._sensor_layout.scalar else self._from_row(row)
        if act.reward_ids is not None and self._rewards is None:
            self._declare_rewards(act.reward_ids)
        open_decision = self._decision
        objective: list[Any] | None = None
        if open_decision is not None and act.rewards is not None and not open_decision.settled:
            objective = [self._complete(open_decision, act, readings)]
        settles_only = not act.decide and not act.closing
        if settles_only:
            return Acted(objective=objective)
        thought = self._think(open_decision, act, readings, request.head.position)
        self._decision = None
        signal = None if thought is None else thought.signal
        if thought is not None and thought.fresh:
            self._due = thought
        if not act.decide:
            return Acted(objective=objective, signal=signal)
        if self._due is not None:
            due, self._due = self._due, None
            self._update(due)
        setpoints = self._propose(muscle, readings, row, matrix)
        statistics = muscle.pop_statistics() or None
        return Acted([setpoints], None, objective, signal, statistics)

    def _pass(self, act: Act, position: Position | None) -> Acted:
        """Have no row in a round that awaits one, so that the others' rows are thought about; keep what is new."""
        if self._setup.brain is None:
            return Acted()
        asked = UpdateAsked(self._worker, act.round, act.workers)
        thought = self._ask("brain.update", asked, position)
        if thought.fresh:
            self._due = thought
        return Acted(signal=thought.signal)

    def _complete(self, decision: _Decision, act: Act, readings: list[Any]) -> float | None:
        """Write the decision's row into the memory and let the objective judge it."""
        assert act.rewards is not None
        if self._rewards is None:
            raise RemoteProtocolError("act.rewards: they were not declared")
        self._judging.step = decision.index
        decision.rewards = self._rewards.from_row(act.rewards[0], "act.rewards")
        self._memory.append(
            self._uid,
            sensor_readings=decision.readings,
            actuator_setpoints=decision.setpoints,
            applied_setpoints=decision.setpoints,
            rewards=decision.rewards,
            next_readings=readings,
            dones=act.terminated or act.truncated,
            terminated=act.terminated,
            truncated=act.truncated,
            decision_index=decision.index,
            episode=self._episode,
            additional_data=decision.data,
        )
        result = self._judging("internal_reward", self._objective.internal_reward, self._memory)
        if type(result) is not float or result != result:
            result = self._judging("internal_reward", objective_value, result)
        decision.objective = result
        self._memory.complete(decision.objective)
        decision.settled = True
        return decision.objective

    def _think(
        self, decision: _Decision | None, act: Act, readings: list[Any], position: Position | None
    ) -> Thought | None:
        if decision is not None and act.closing:
            self._memory.close(act.terminated, act.truncated)
        if self._setup.brain is None:
            return None
        if decision is None or decision.rewards is None:
            return self._ask("brain.update", UpdateAsked(self._worker, act.round, act.workers), position)
        assert self._rewards is not None
        reward_ids = None if self._told_rewards else self._reward_ids
        self._told_rewards = True
        think = Think(
            self._worker,
            self._episode,
            decision.index,
            [decision.readings_row],
            [decision.setpoints_row],
            [self._rewards.to_row(decision.rewards)],
            [decision.objective],
            act.readings,
            act.terminated,
            act.truncated,
            None,
            decision.frozen,
            act.round,
            act.workers,
            reward_ids,
        )
        return self._ask("brain.think", think, position, decision.blobs)

    def _ask(
        self, call: str, message: Any, position: Position | None, blobs: Sequence[bytes] = ()
    ) -> Thought:
        assert self._setup.brain is not None
        span = span_s("brain.think", self._setup.deadlines_s or {})
        pending = self.participant.ask(self._setup.brain, call, message, span, position, blobs)
        thought: Thought
        thought, parts = self.participant.collect([pending])[0]
        return (
            thought if not thought.fresh else replace(thought, update=thaw(thought.update, parts, "update"))
        )

    def _update(self, thought: Thought) -> None:
        if thought.fresh and self._muscle is not None:
            self._hooks("update", self._muscle.update, thought.update)

    def _from_row(self, row: Any) -> list[Any]:
        return self._sensor_layout.from_row(row, "act.readings")

    def _propose(
        self, muscle: Muscle, readings: list[Any], row: list[Any], matrix: Array | None
    ) -> list[Any]:
        index = self._decisions
        self._hooks.step = index
        if matrix is None:
            hook, read = "propose_actions", self._read
            result = self._hooks(
                hook, muscle.propose_actions, self._sensors.fill(readings), self._actuators.empty()
            )
        else:
            hook, read = "propose_batch", self._read_batch
            result = self._hooks(hook, muscle.propose_batch, self._batch(matrix, index))
        values, setpoints, data, frozen, blobs = self._hooks(hook, read, result)
        self._decision = _Decision(index, readings, row, values, setpoints, data, frozen, blobs)
        self._decisions += 1
        return setpoints  # type: ignore[no-any-return]  # hooks return what they call

    def _batch(self, matrix: Array, index: int) -> Batch:
        assert self._columns is not None
        readings = Readings(self._columns, matrix)
        return Batch(matrix, readings, self._bodies, np.array([index]), self._episodes, self._mode)

    def _read(self, result: Any) -> _Read:
        """Return what is known of a proposal of `propose_actions`."""
        layout = self._actuator_layout
        values, data = read_proposal(result, layout.ids)
        for it in result[0] if isinstance(result, tuple) and len(result) == 2 else result:
            space = layout.spaces[layout.index[it.uid]]
            if it.space is not space and not space.contains(it.value):  # its author gave it another one
                ActuatorInformation(it.value, space, it.uid)  # refuses it by its id
        return values, layout.to_row(values), data, *self._freeze(data, "propose_actions[1]")

    def _read_batch(self, result: Any) -> _Read:
        """Return what is known of a proposal of `propose_batch`."""
        layout = self._actuator_layout
        if type(result) is np.ndarray and layout.scalar and result.shape == (1, len(layout)):
            try:  # numbers in their canonical form are what travels
                row = [make(value) for make, value in zip(self._canonical, result.tolist()[0], strict=True)]
            except SpaceError:
                pass  # refused below, by its id
            else:
                return row, row, None, None, []
        rows, data = read_batch_proposal(result, self._actuator_list, 1)
        return rows[0], layout.to_row(rows[0]), data[0], *self._freeze(data[0], "propose_batch[1]")

    def _freeze(self, data: Any, path: str) -> tuple[Any, list[bytes]]:
        """Return data as they travel, with their blobs; nothing where nobody gets them."""
        blobs: list[bytes] = []
        return (None if self._setup.brain is None else freeze(data, blobs, path)), blobs

    def _declare_rewards(self, declarations: list[dict[str, Any]]) -> None:
        self._reward_ids = declarations
        self._rewards = Layout.of(declarations, missing=True)
        self._memory.declare(
            rewards=[RewardInformation(None, space, uid) for uid, space in self._rewards.pairs()]
        )

    def _running(self) -> Muscle:
        if self._muscle is None:
            raise NotSetUp("expected muscle.setup first")
        return self._muscle
