"""Protocol: what a condition written for palaestrAI is asked with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import Mode, Signal

__all__ = [
    "BrainView",
    "EnvironmentUpdateResponse",
    "EnvironmentView",
    "GovernorView",
    "MuscleUpdateRequest",
    "ObjectiveMemory",
    "ObjectiveShard",
    "SimulationControllerTerminationRequest",
]


@dataclass(frozen=True, slots=True)
class EnvironmentUpdateResponse:
    """Tell that an environment has made a step."""

    sender_environment_id: str
    done: bool
    terminated: bool
    truncated: bool

    @property
    def is_terminal(self) -> bool:
        """Whether the episode has ended in this environment."""
        return self.done


@dataclass(frozen=True, slots=True)
class EnvironmentView:
    """Show an environment to a condition: its uid and whether it has ended."""

    uid: str
    done: bool

    @property
    def name(self) -> str:
        """Its uid."""
        return self.uid


@dataclass(frozen=True, slots=True)
class ObjectiveShard:
    """Hold objectives, oldest first."""

    objective: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.objective)


@dataclass(frozen=True, slots=True)
class ObjectiveMemory:
    """Be what a condition may see of a memory: the objectives of this worker's decisions in this episode."""

    objectives: Sequence[float]

    def tail(self, n: int = 1) -> ObjectiveShard:
        """Return the last n of them, fewer if there are no more."""
        last = self.objectives[-n:] if n > 0 else ()
        return ObjectiveShard(np.array(last, dtype=np.float64))

    def __len__(self) -> int:
        return len(self.objectives)


@dataclass(frozen=True, slots=True)
class BrainView:
    """Show an agent to a condition: its name and the objectives in its memory."""

    name: str
    memory: ObjectiveMemory


@dataclass(frozen=True, slots=True)
class MuscleUpdateRequest:
    """Tell that an agent of a worker has acted."""

    sender_rollout_worker_id: str
    done: bool
    mode: Mode

    @property
    def sender(self) -> str:
        """The muscle, as `agent/worker`."""
        return self.sender_rollout_worker_id


@dataclass(frozen=True, slots=True)
class SimulationControllerTerminationRequest:
    """Tell that an episode of a worker has ended.

    Args:
        sender: The worker's number, as text.
        mode: Of the phase.
        flow_control_data: Class of a condition -> (its signal, None); CONTINUE if another one ended the episode.
    """

    sender: str
    mode: Mode
    flow_control_data: Mapping[str, tuple[Signal, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Run:
    """Say what the document says of a phase."""

    episodes: int | None
    workers: int

    def get_episodes(self, phase: int = 0) -> int | None:
        """Return the limit of episodes per worker, None if there is none."""
        return self.episodes

    def get_worker(self, phase: int = 0) -> int:
        """Return the number of workers."""
        return self.workers


@dataclass(frozen=True, slots=True)
class GovernorView:
    """Show a phase to a condition.

    Args:
        experiment_run: Has `get_episodes` and `get_worker` of the running phase.
        current_episode_counts: Worker, as text -> episodes that it had finished before the one that has just ended.
    """

    experiment_run: _Run
    current_episode_counts: Mapping[str, int]
    current_phase: int = 0

    @classmethod
    def of(cls, episodes: int | None, finished: Mapping[int, int]) -> GovernorView:
        """Return the view of a phase with this limit and these numbers of finished episodes."""
        counts = {str(worker): count for worker, count in finished.items()}
        return cls(_Run(episodes, len(finished)), counts)
