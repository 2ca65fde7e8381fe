"""Replay: the hook through which a plugin finds recorded episodes and teaches them to brains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ganglion import registry
from ganglion.peer.agent.filters import LearningFilters
from ganglion.peer.author import Hooks, Loader, ToleratedErrors
from ganglion.run.agents import ResolvedAgent, replaying
from ganglion.run.plan import REPLAY, PhasePlan, Plan
from ganglion.sdk.brain import Brain
from ganglion.wire.messages import BrainPretrain, BrainPretrained, BrainSetup, Think


class Recordings:
    """Hold the recordings of one run, in the governor's process; this base class serves a run without recordings."""

    def prepare(self, phase: PhasePlan) -> PhasePlan:
        """Find and copy the recordings of a phase, for its brains and its environments; return the phase.

        The parameters of environments that play name their copies. Missing budgets are those of the record.

        Raises:
            DocumentError: A recording is missing or incomplete.
            StoreError: A recording cannot be read or written.
        """
        return phase

    def request(self, agent: str) -> BrainPretrain | None:
        """Return the message that makes an agent's brain learn; None if there are no recordings."""
        return None

    def fit(self, agents: Sequence[ResolvedAgent]) -> None:
        """Compare recordings with the sensors and actuators of agents; DocumentError if they do not fit."""


@dataclass(frozen=True, slots=True)
class Learner:
    """A brain that is to learn, with the objects of its host; `filters` is None if there are none."""

    setup: BrainSetup
    brain: Brain
    hooks: Hooks
    loader: Loader
    filters: LearningFilters | None
    tolerated_errors: ToleratedErrors


class Lesson(Protocol):
    """Recorded episodes as one brain learns from them, in the brain's process."""

    @property
    def is_own(self) -> bool:
        """Say whether the brain has a `pretrain` of its own."""

    def teach(self, loaded: bool) -> Any:
        """Call the brain's own `pretrain`; return its update."""

    def rows(self) -> Iterator[Think]:
        """Yield all decisions in the form that muscles send."""

    def note(self, excused: Sequence[dict[str, Any]]) -> None:
        """Keep tolerated errors, up to a bound."""

    def reply(self, excused: Sequence[dict[str, Any]] | None = None) -> BrainPretrained:
        """Return the result."""


class Replay(Protocol):
    """The interface of a plugin of the group `replay`: `recorded` for agents, others for environments of their name."""

    def faults(self, plan: Plan, store: str | None) -> list[tuple[str, str]]:
        """Return place and text of each fault of a plan's sources, before anything is started.

        Recordings of earlier phases of the run are not checked, and long recordings are read only in part.
        """

    def recordings(
        self, plan: Plan, run: str, results: str, store: str | None, warn: Callable[[str], None]
    ) -> Recordings:
        """Return the object that finds and copies the recordings of a run."""

    def lesson(self, asked: BrainPretrain, learner: Learner) -> Lesson:
        """Return the episodes of one request, as a brain learns from them."""


def provider() -> Replay:
    """Return the plugin that carries out `replay`; PluginInvalid says what to install."""
    found: Replay = registry.load("replay", REPLAY)
    return found


def plays(phase: PhasePlan) -> bool:
    """Say whether an environment of a phase plays recorded episodes, or a table begins with some."""
    begun = any(one.plugin is not None and one.plugin.params.get("source") is not None for one in phase.pools)
    return begun or any(one.plugin is not None and registry.plays(one.plugin.name) for one in phase.environments)


def recordings(plan: Plan, run: str, results: str, store: str | None, warn: Callable[[str], None]) -> Recordings:
    """Return the recordings of a run; no plugin is needed if no brain learns from any."""
    if any(replaying(phase) or plays(phase) for phase in plan.phases):
        return provider().recordings(plan, run, results, store, warn)
    return Recordings()
