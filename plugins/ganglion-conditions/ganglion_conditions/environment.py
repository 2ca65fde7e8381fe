"""Environment: an episode is over when environments have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ganglion.sdk import EpisodeView, PhaseView, Signal, TerminationCondition

__all__ = ["EnvironmentCondition"]

WORDS = ("any", "all")


class EnvironmentCondition(TerminationCondition):
    """End the episode when environments have ended; at phase level end the phase.

    Episode part: RESET when the environments of `when` have ended; the reason is `terminated` if one of those that
    ended has no future, else `truncated: environment`. Phase part: STOP_PHASE when they have in any worker; the
    reason is `environment`.

    Params:
        when: `any` (default): one has ended. `all`: all have. A list of uids: all of these have.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"ended"})
    local: ClassVar[frozenset[str]] = frozenset({"episode"})
    issuer = "environment"
    """The short name under which its signals are recorded."""

    def __init__(self, when: str | Sequence[str] = "any") -> None:
        super().__init__()
        if isinstance(when, str) and when not in WORDS:
            raise ValueError(f"when: expected any, all or a list of uids of environments, found {when!r}")
        if not isinstance(when, str) and not when:
            raise ValueError("when: an empty list of environments would never end an episode")
        self.when: str | tuple[str, ...] = when if isinstance(when, str) else tuple(when)

    def episode(self, view: EpisodeView) -> Signal:
        """Return RESET if the episode is over."""
        ended = view.ended
        if not ended or not self._over(ended, view.environments):
            return Signal.CONTINUE
        terminated = any(view.terminated[uid] for uid in ended)
        self.reason = "terminated" if terminated else "truncated: environment"
        return Signal.RESET

    def phase(self, view: PhaseView) -> Signal:
        """Return STOP_PHASE if the environments have ended in a worker at this boundary."""
        environments = tuple(view.environments_ended)
        if not any(self._over(worker.ended, environments) for worker in view.workers):
            return Signal.CONTINUE
        self.reason = "environment"
        return Signal.STOP_PHASE

    def longest_episode(self, environments: Mapping[str, int | None]) -> int | None:
        """Return after how many steps the environments of `when` have ended."""
        if self.when == "any":
            return min((steps for steps in environments.values() if steps is not None), default=None)
        wanted = environments if self.when == "all" else self.when
        known = [steps for uid in wanted if (steps := environments.get(uid)) is not None]
        return max(known, default=None) if len(known) == len(wanted) else None

    def _over(self, ended: Sequence[str], environments: Sequence[str]) -> bool:
        """Tell whether enough environments have ended."""
        if not ended:
            return False
        if self.when == "any":
            return True
        return set(environments if self.when == "all" else self.when) <= set(ended)

    def warnings(self, document: Mapping[str, Any]) -> Sequence[str]:
        """Return one warning for each environment of `when` that the phase does not have."""
        if isinstance(self.when, str):
            return ()
        known = [entry["environment"]["uid"] for entry in document.get("environments", ())]
        return [
            f"condition can never fire: the phase has no environment {uid!r}" for uid in self.when if uid not in known
        ]
