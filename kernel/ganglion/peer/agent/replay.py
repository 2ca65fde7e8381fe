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
    """Hold the recordings of one run, in the governor's process; of a run in which no brain learns from any, none."""

    def prepare(self, phase: PhasePlan) -> PhasePlan:
        """Find and keep all that the brains of a phase learn from and its environments play; return the phase.

        Environments that play find their copies in its parameters; budgets that are missing are those of the record.

        Raises:
            DocumentError: It is nowhere, or not whole.
            StoreError: It cannot be read or written.
        """
        return phase

    def request(self, agent: str) -> BrainPretrain | None:
        """Return what tells the brain of an agent to learn; None where there is nothing."""
        return None

    def fit(self, agents: Sequence[ResolvedAgent]) -> None:
        """Compare what was recorded with what agents see and set; DocumentError where it does not fit."""


@dataclass(frozen=True, slots=True)
class Learner:
    """A brain that is to learn, with what its host has made of it; `filters` is None where it has none."""

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
        """Call the brain's own `pretrain`; return the update that comes of it."""

    def rows(self) -> Iterator[Think]:
        """Yield all decisions as muscles would tell of them."""

    def note(self, excused: Sequence[dict[str, Any]]) -> None:
        """Keep tolerated errors, up to a bound."""

    def reply(self, excused: Sequence[dict[str, Any]] | None = None) -> BrainPretrained:
        """Return what came of it."""


class Replay(Protocol):
    """What a plugin of the group `replay` offers: `recorded` to agents, others to the environments of their name."""

    def faults(self, plan: Plan, store: str | None) -> list[tuple[str, str]]:
        """Return place and text of what the sources of a plan lack, before anything is started.

        What earlier phases of the run are to record is left out, and not all of what is long is read.
        """

    def recordings(
        self, plan: Plan, run: str, results: str, store: str | None, warn: Callable[[str], None]
    ) -> Recordings:
        """Return what finds and keeps the recordings of a run."""

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
    """Return the recordings of a run; no plugin is needed where no brain learns from any."""
    if any(replaying(phase) or plays(phase) for phase in plan.phases):
        return provider().recordings(plan, run, results, store, warn)
    return Recordings()
