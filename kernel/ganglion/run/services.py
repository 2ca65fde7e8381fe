"""What the governor needs of the world: streams, conditions, models, the wall clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ganglion.run.agents import ResolvedAgent
from ganglion.run.plan import AgentPlan, PhasePlan
from ganglion.sdk.condition import TerminationCondition
from ganglion.wire.messages import BrainPretrain

__all__ = ["Services"]


class Services(Protocol):
    """What the governor needs of the world; everything here is a function of its arguments and the run's seed."""

    def words(self, path: Sequence[str | int]) -> bytes:
        """Return the 32 bytes of a stream."""

    def integer(self, words: bytes) -> int:
        """Return a stream as an integer of 53 bits."""

    def conditions(self, phase: PhasePlan) -> list[tuple[str, TerminationCondition, str]]:
        """Return fresh conditions of a phase: name, object, and `episode` or `phase` for where they stand."""

    def now(self) -> str:
        """Return the wall clock as UTC text; it stands in records only."""

    def model(self, phase: PhasePlan, agent: AgentPlan, own: Mapping[tuple[int, str], str]) -> str | None:
        """Return the folder of the model that an agent begins a phase with, None to begin afresh.

        `own` is (phase index, agent) -> folder of what agents left earlier phases of this run with. DocumentError: what
        `load` asks for was not found. StoreError: it is damaged.
        """

    def fit(self, agents: Sequence[ResolvedAgent]) -> None:
        """Compare the recorded episodes of this phase with what agents see and set.

        DocumentError: something differs in an entry of `replay` that is strict.
        """

    def pretraining(self, agent: AgentPlan) -> BrainPretrain | None:
        """Return what tells a brain to learn from recorded episodes, None where there are none for it."""

    def shelf(self, agent: AgentPlan) -> str:
        """Return the folder of this run below the agent's `models`.

        Asked only where it has that key. DocumentError: models cannot be kept there.
        """
