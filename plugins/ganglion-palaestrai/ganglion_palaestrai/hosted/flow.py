"""Flow: controllers, conditions and filters of palaestrAI, played unmodified."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from inspect import Parameter
from types import SimpleNamespace
from typing import Any

from palaestrai import agent as their_agent
from palaestrai.core import BasicState
from palaestrai.experiment import TerminationCondition as TheirCondition
from palaestrai.simulation import SimulationController as TheirController
from palaestrai.simulation.simulation_controller import FlowControlChange as TheirChange
from palaestrai.types import Mode as TheirMode

from ganglion.sdk import ActuatorInformation, EpisodeEnded, Filter, SensorInformation, Signal, Space
from ganglion_palaestrai.experiment import TerminationCondition
from ganglion_palaestrai.hosted.agent import HostedBrain
from ganglion_palaestrai.hosted.parcel import opened, packed
from ganglion_palaestrai.hosted.part import Hosted
from ganglion_palaestrai.hosted.values import our_information, their_information
from ganglion_palaestrai.simulation import SimulationController

__all__ = ["HostedCondition", "HostedController", "HostedFilter"]


class HostedController(Hosted, SimulationController):
    """Let a controller of palaestrAI steer episodes: its `advance` or `simulate`, with `act` and `step` of ours."""

    over: EpisodeEnded | None = None

    @staticmethod
    def check(hosted: type[Any], parameters: Mapping[str, Parameter]) -> None:
        """Refuse one that steers nothing."""
        if hosted.advance is TheirController.advance and hosted.simulate is TheirController.simulate:
            raise TypeError("overrides neither advance nor simulate")

    @staticmethod
    def signature(hosted: type[Any]) -> inspect.Signature:
        """Return what it takes from a document: all but what palaestrAI's own controllers are told."""
        found, told = inspect.signature(hosted.__init__), inspect.signature(TheirController.__init__).parameters
        kept = [it for it in found.parameters.values() if it.name not in told or it.name == "self"]
        return found.replace(parameters=kept)

    def make(self, arguments: dict[str, Any]) -> Any:
        """Return the object of palaestrAI's class, whose steps are ours."""
        outer = self

        class Played(self.hosted):  # type: ignore[name-defined,misc]
            async def act(self, agents: Sequence[Any], *_: Any, **__: Any) -> Any:
                return await outer.act([str(agent) for agent in agents])

            async def step(self, agents: Sequence[Any], setpoints: Sequence[Any], *_: Any, **__: Any) -> Any:
                try:
                    return await outer.make_step([str(agent) for agent in agents], setpoints)
                except EpisodeEnded as error:
                    outer.over = error
                    raise TheirChange([]) from error

            async def flow_control(self) -> None:
                return None

            @property
            def agents(self) -> Any:
                return list(outer.agents)

        names = ("agent_conductor_ids", "environment_conductor_ids", "agents", "termination_conditions")
        told: dict[str, Any] = {name: {} if name == "agents" else [] for name in names}
        return Played(mode=TheirMode[self.mode.name], **told, **arguments)

    async def simulate(self) -> None:
        """Steer one episode."""
        self.over, self._running = None, True
        self.theirs._agents, self.theirs._state = dict(self._agents), BasicState.RUNNING
        await self.theirs.simulate()
        if self.over is None:
            raise RuntimeError("simulate returned before the episode was over")


class HostedCondition(Hosted, TerminationCondition):
    """Ask a condition of palaestrAI: each hook that it overrides."""

    @staticmethod
    def check(hosted: type[Any], parameters: Mapping[str, Parameter]) -> None:
        """Refuse one that decides by what is not in reach of a condition here."""
        if hosted.evaluation_flow_control is not TheirCondition.evaluation_flow_control:
            raise TypeError("overrides evaluation_flow_control, which is not asked here; use evaluation_objective")

    @staticmethod
    def body(hosted: type[Any]) -> dict[str, Any]:
        """Return the hooks that it overrides: a class of ours is asked for none that it has not."""
        hooks = ("brain_flow_control", "environment_flow_control", "phase_flow_control", "check_termination")
        return {name: _hook(name) for name in hooks if getattr(hosted, name) is not getattr(TheirCondition, name)}


def _hook(name: str) -> Any:
    def asked(self: Any, *given: Any) -> Any:
        return _signal(getattr(self.theirs, name)(*given))

    asked.__name__ = name
    return asked


def _signal(answer: Any) -> Any:
    """Return an answer with our signal of the same name."""
    if isinstance(answer, bool):
        return answer
    given = answer[0] if isinstance(answer, tuple) else answer
    return Signal[given.name]


class HostedFilter(Hosted, Filter):
    """Ask a filter of palaestrAI, in the processes of the muscles and of the brain.

    What it declares is found by asking another object of its class with values nearest to zero.
    """

    def setup(self) -> None:
        """Prepare; see `Filter`."""
        self.theirs.muscle = getattr(self.muscle, "theirs", self.muscle)
        self.theirs.brain = getattr(self.brain, "theirs", self.brain)
        self.theirs.setup()

    def declare(self, sensors: Any, actuators: Any) -> Any:
        """Return what the muscle sees behind it."""
        its = self.hosted(**self.meant(self.params))
        its.muscle = SimpleNamespace(uid=self.uid, mode=TheirMode.TEST)
        its.setup()
        readings = their_information(their_agent.SensorInformation, sensors, {}, [it.space.default() for it in sensors])
        self._noops = [it.space.default() if it.value is None else it.value for it in actuators]
        offered = their_information(their_agent.ActuatorInformation, actuators, {}, self._noops)
        seen, moved = its.muscle_pre_process(sensors=readings, actuators_available=offered)
        found = our_information(SensorInformation, seen, "", {})
        for it in found:
            it.value = None
        return found, our_information(ActuatorInformation, moved, "", {})

    def muscle_pre_process(self, sensors: Any, actuators: Any) -> Any:
        """Return what the muscle is to see."""
        readings = their_information(their_agent.SensorInformation, sensors, {})
        # Theirs get the setpoints with which an episode begins, ours none.
        noops = [noop if it.value is None else it.value for it, noop in zip(actuators, self._noops, strict=True)]
        offered = their_information(their_agent.ActuatorInformation, actuators, {}, noops)
        seen, moved = self.theirs.muscle_pre_process(sensors=readings, actuators_available=offered)
        return our_information(SensorInformation, seen, "", {}), our_information(ActuatorInformation, moved, "", {})

    def muscle_post_process(self, setpoints: Any, data: Any) -> Any:
        """Return what is to be applied."""
        given = their_information(their_agent.ActuatorInformation, setpoints, {})
        shown = opened(data, _TRUSTED)
        applied, more = self.theirs.muscle_post_process(setpoints=given, data_for_brain=shown)
        spaces: dict[str, Space] = {}
        return our_information(ActuatorInformation, applied, "", spaces), packed(more, "data for the brain")

    def brain_pre_process(self, muscle_id: str, data: Any) -> Any:
        """Return the data as the brain is to see it."""
        if isinstance(self.brain, HostedBrain):
            self.brain.take(muscle_id)
        shown = opened(data, _TRUSTED)
        _, found = self.theirs.brain_pre_process(muscle_id=muscle_id, data_from_muscle=shown)
        return packed(found, "data for the brain")

    def brain_objective(self, muscle_id: str, objective: float | None) -> float | None:
        """Return what it has made of an objective, in the memory of a brain of palaestrAI."""
        return self.brain.objective(muscle_id, objective) if isinstance(self.brain, HostedBrain) else objective

    def brain_post_process(self, update: Any) -> Any:
        """Return the update as the muscles are to get it."""
        return packed(self.theirs.brain_post_process(potential_update=opened(update, _TRUSTED)))


_TRUSTED = frozenset(("harl", "palaestrai"))
