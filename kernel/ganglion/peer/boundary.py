"""The step boundary of one worker: who wants what, and which signal wins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ganglion.sdk.condition import EpisodeView, TerminationCondition
from ganglion.sdk.flow import Signal
from ganglion.sdk.mode import Mode
from ganglion.sdk.simtime import SimTime
from ganglion.wire.messages import Boundary, FlowSignal, Go

if TYPE_CHECKING:
    from ganglion.peer.episode import Episode, Phase

__all__ = ["Boundaries", "Ending"]

_ENVIRONMENT = (
    "environment",
    "vanilla",
)  # conditions whose episode part speaks for environments that have ended
_ENDED = "condition:environment"
_PAUSE_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Ending:
    """How an episode ends: its flags, its reason, and the signals that were wished for."""

    terminated: bool
    truncated: bool
    reason: str
    causes: list[dict[str, Any]]


class Boundaries:
    """Decide at each boundary whether the episode goes on."""

    def __init__(self, phase: Phase) -> None:
        self._phase = phase

    def stand(self, episode: Episode, wishes: list[dict[str, Any]]) -> tuple[Ending | None, Go | None]:
        """Ask conditions in document order, then take signals that have arrived; the greatest wins.

        With a common boundary the governor has the last word; PAUSE is waited out here.
        """
        causes = [*self._conditions(episode), *wishes, *self._arrived()]
        go: Go | None = None
        if self._phase.common:
            go = self._ask(episode, causes)
            if go.signal != Signal.CONTINUE.name:
                causes.append({"signal": go.signal, "issuer": go.issuer, "reason": go.reason, "known": True})
        winner = _greatest(causes)
        while winner is not None and Signal[winner["signal"]] is Signal.PAUSE:
            causes = [
                cause for cause in causes if cause["signal"] != Signal.PAUSE.name
            ] + self._wait_out_pause()
            winner = _greatest(causes)
        if winner is None or Signal[winner["signal"]] is Signal.CONTINUE:
            return None, go
        return self._ending(winner, causes), go

    # -- wishes -------------------------------------------------------------------------------------------------------
    def _conditions(self, episode: Episode) -> list[dict[str, Any]]:
        phase = self._phase
        ended = any(world.ended for world in phase.worlds)
        asked = [(name, c) for name, c in phase.conditions if c.has_episode_part()]
        causes: list[dict[str, Any]] = []
        if ended and not any(name in _ENVIRONMENT for name, _ in asked):
            causes.append({"signal": "RESET", "issuer": _ENDED, "reason": self._how_ended()})
        if not asked:
            return causes
        view = self._view(episode)
        for name, condition in asked:
            signal = self._ask_condition(condition, view)
            issuer = f"condition:{condition.issuer or name}"
            if signal is Signal.CONTINUE or (issuer == _ENDED and any(c["issuer"] == _ENDED for c in causes)):
                continue  # that an environment has ended is said once, by however many conditions
            causes.append({"signal": signal.name, "issuer": issuer, "reason": condition.reason or name})
        return causes

    def _ask_condition(self, condition: TerminationCondition, view: EpisodeView) -> Signal:
        result = self._phase.hooks(f"{type(condition).__name__}.episode", condition.episode, view)
        return Signal(result)

    def _view(self, episode: Episode) -> EpisodeView:
        phase = self._phase
        return EpisodeView(
            phase.setup.worker,
            Mode(phase.setup.mode),
            episode.number,
            episode.step,
            {w.uid: w.terminated for w in phase.worlds},
            {w.uid: w.truncated for w in phase.worlds},
            {w.uid: SimTime(w.ticks, None) for w in phase.worlds},
            {a.name: [o for o in a.objectives if o is not None] for a in phase.actors}
            if phase.settle
            else {},
        )

    def _arrived(self) -> list[dict[str, Any]]:
        signals = self._phase.signals
        found = []
        while signals:
            signal = signals.popleft()
            found.append(
                {"signal": signal.signal, "issuer": signal.issuer, "reason": signal.reason, "known": True}
            )
        return found

    # -- the governor -------------------------------------------------------------------------------------------------
    def _ask(self, episode: Episode, causes: list[dict[str, Any]]) -> Go:
        phase = self._phase
        winner = _greatest(causes)
        ending = winner is not None and Signal[winner["signal"]] >= Signal.RESET
        report = Boundary(
            phase.setup.worker, phase.tick, episode.step, ending, episode.next_agents(episode.step), causes
        )
        pending = phase.participant.ask(phase.governor, "governor.boundary", report, None)
        go: Go = phase.participant.gather([pending])[0]
        return go

    def _wait_out_pause(self) -> list[dict[str, Any]]:
        """Stand until a signal other than PAUSE comes."""
        phase = self._phase
        while True:
            phase.participant.pump(_PAUSE_LOOK_S)
            others = [cause for cause in self._arrived() if cause["signal"] != Signal.PAUSE.name]
            if others or phase.participant.told_to_leave():
                return others or [_leave()]

    # -- the end ------------------------------------------------------------------------------------------------------
    def _ending(self, winner: dict[str, Any], causes: list[dict[str, Any]]) -> Ending:
        worlds = self._phase.worlds
        own = [cause for cause in causes if cause["issuer"] == _ENDED]
        if own and any(world.ended for world in worlds):
            terminated = any(world.terminated for world in worlds)
            return Ending(terminated, not terminated, self._how_ended(), causes)
        return Ending(False, True, _reason(winner), causes)

    def _how_ended(self) -> str:
        terminated = any(world.terminated for world in self._phase.worlds)
        return "terminated" if terminated else "truncated: environment"


def _greatest(causes: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the first cause with the greatest signal."""
    return max(causes, key=lambda cause: Signal[cause["signal"]], default=None)


def _reason(winner: dict[str, Any]) -> str:
    """Return an episode's reason, in the words of the results."""
    issuer, reason = str(winner["issuer"]), str(winner["reason"])
    if issuer == "phase end":
        return "truncated: phase end"
    if issuer in ("interrupted", "failed"):
        return issuer if not reason else f"{issuer}: {reason}"
    word = issuer.partition(":")[0]
    if word == "operator":
        return f"truncated: signal {winner['signal']}"
    if word == "condition":
        return reason
    return word if not reason else f"{word}: {reason}"


def _leave() -> dict[str, Any]:
    signal = FlowSignal(Signal.SHUTDOWN.name, "interrupted")
    return {"signal": signal.signal, "issuer": signal.issuer, "reason": "told to leave", "known": True}
