"""The step boundary of one worker: which signals are requested there, and which one wins."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ganglion.run.effect import record_of
from ganglion.sdk.condition import EpisodeView
from ganglion.sdk.flow import Mode, Signal
from ganglion.wire.messages import Acted, Boundary, EpisodeEnded, Go, Stands, Verdict

if TYPE_CHECKING:
    from ganglion.peer.worker.episode import Episode
    from ganglion.peer.worker.world import Phase

_ENDED = "condition:environment"
_PAUSE_LOOK_S = 0.5
_TERMINATED, _TRUNCATED = attrgetter("terminated"), attrgetter("truncated")


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of an episode: its flags, its reason, and the signals that were requested."""

    terminated: bool
    truncated: bool
    reason: str
    causes: list[dict[str, Any]]


class WorkerRounds:
    """Hold the state that episodes and ticks share: rounds of brains, requested signals, tolerated errors, the end.

    Attributes:
        number, step: Number of the episode and step within it; for ticks: number of the evaluation, and ticks so far.
        round, participants: Number of the round of brains; agent -> workers, if other workers take part too.
    """

    _whose: int | None = None  # the number of the episode in records of tolerated errors

    def __init__(self, phase: Phase, verdict: Verdict) -> None:
        self.phase, self.number, self.step = phase, verdict.episode, 0
        self.round, self.participants = verdict.round, verdict.participants
        self._wishes: list[dict[str, Any]] = []
        self._tolerated = 0  # errors of authors
        self._ending: Ending | None = None
        self._closed = False
        self._alone = [phase.setup.worker]

    def _workers(self, name: str) -> list[int]:
        """Return the workers whose muscles take part in this round of an agent's brain."""
        return self._alone if self.participants is None else self.participants.get(name, self._alone)

    def _wish(self, name: str, peer: str, answer: Acted) -> None:
        """Record the tolerated errors, topics and brain signal of a muscle's reply."""
        self._note_tolerated(answer.excused)
        if answer.topics is not None:
            self.phase.topics.take(peer, "muscle.act", answer.topics)
        if answer.signal is not None:
            wish = {"signal": answer.signal["signal"], "reason": answer.signal.get("reason", "")}
            self._wishes.append({**wish, "issuer": f"brain:{name}"})

    def _note_tolerated(self, excused: list[dict[str, Any]] | None) -> None:
        setup = self.phase.setup
        mode = setup.mode if setup.evaluation else None
        for excuse in excused or ():
            self._tolerated += 1
            record = record_of(excuse, setup.phase, (setup.worker, self._whose, self.step), self.phase.moment, mode)
            self.phase.records.add([*record, -self._tolerated])  # this number identifies a repeated record

    def _tell_governor(self, report: EpisodeEnded) -> Verdict:
        """Report the end to the governor and return its verdict, which may wait for other workers and an evaluation."""
        phase = self.phase
        span = None if phase.common or phase.patient else phase.span_s("governor.episode")
        verdict: Verdict = phase.participant.call(phase.governor, "governor.episode", report, span)
        return verdict


class Boundaries:
    """Decide at each boundary whether the episode continues."""

    def __init__(self, phase: Phase) -> None:
        self._phase = phase
        self._mode = Mode(phase.setup.mode)
        self._pauses: list[dict[str, Any]] = []  # past pauses, reported with the end of the episode
        self._asked = [
            (name, condition, f"{type(condition).__name__}.episode")
            for name, condition in phase.conditions
            if condition.has_episode_part()
        ]
        self._says_end = not any("ended" in condition.reads for _, condition, _ in self._asked)
        self._uids = [world.uid for world in phase.worlds]

    def decide(self, episode: Episode, wishes: list[dict[str, Any]]) -> tuple[Ending | None, Go | None]:
        """Evaluate conditions in document order, then add signals that have arrived; the greatest signal wins.

        With a common boundary the governor decides, and pauses all workers if one asks for PAUSE. Otherwise the worker
        waits here while it is paused, before it closes an episode that ends at the same boundary.
        """
        causes = self._conditions(episode)
        phase = self._phase
        if wishes or phase.steps_left is not None or phase.signals:
            causes += [*wishes, *self._steps_over(), *self._arrived()]
        go: Go | None = None
        if not causes and not phase.common:
            return None, None
        if phase.common:
            go = self._ask(episode, causes)
            causes = self._without_pauses(episode, causes)
            if go.signal != Signal.CONTINUE.name:
                causes.append({"signal": go.signal, "issuer": go.issuer, "reason": go.reason, "known": True})
        while _asks_for_pause(causes) or _asks_for_pause([cause for cause in causes if cause.get("known")]):
            causes = self._without_pauses(episode, causes) + self._wait_out_pause(episode)
        winner = _greatest(causes)
        if winner is None or Signal[winner["signal"]] is Signal.CONTINUE:
            return None, go
        return self._ending(winner, [*self._pauses, *causes]), go

    def _without_pauses(self, episode: Episode, causes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the other causes; a PAUSE is kept for the report of the episode's end, with its own step."""
        paused = [cause for cause in causes if cause["signal"] == Signal.PAUSE.name]
        self._pauses += [{**cause, "steps": episode.step} for cause in paused]
        return [cause for cause in causes if cause not in paused]

    # -- wishes -------------------------------------------------------------------------------------------------------
    def _conditions(self, episode: Episode) -> list[dict[str, Any]]:
        phase = self._phase
        asked = self._asked
        causes: list[dict[str, Any]] = []
        terminated = dict(zip(self._uids, map(_TERMINATED, phase.worlds), strict=True))
        truncated = dict(zip(self._uids, map(_TRUNCATED, phase.worlds), strict=True))
        if self._says_end and (True in terminated.values() or True in truncated.values()):
            causes.append({"signal": "RESET", "issuer": _ENDED, "reason": self._how_ended()})
        if not asked:
            return causes
        view = EpisodeView(
            worker=phase.setup.worker,
            mode=self._mode,
            episode=episode.number,
            step=episode.step,
            terminated=terminated,
            truncated=truncated,
            simtime={world.uid: world.simtime for world in phase.worlds},
            objectives={a.name: a.given for a in phase.actors} if phase.settle else {},
        )
        for name, condition, hook in asked:
            signal = phase.hooks(hook, condition.episode, view)
            if type(signal) is not Signal:
                signal = Signal(signal)
            if signal is Signal.CONTINUE:
                continue
            issuer = f"condition:{condition.issuer or name}"
            if issuer == _ENDED and any(cause["issuer"] == _ENDED for cause in causes):
                continue  # the end of an environment is reported once, by however many conditions
            causes.append({"signal": signal.name, "issuer": issuer, "reason": condition.reason or name})
        return causes

    def _arrived(self) -> list[dict[str, Any]]:
        """Return the signals that have arrived; of PAUSE and CONTINUE only the last one counts."""
        signals = self._phase.signals
        found: list[dict[str, Any]] = []
        mild: list[dict[str, Any]] = []
        while signals:
            signal = signals.popleft()
            self._phase.heeded = signal.number
            if signal.data is not None and "topics" in signal.data:
                for entry in signal.data["topics"]:
                    self._phase.topics.set(*entry)
                continue
            self._phase.steps_left = signal.steps
            cause = {"signal": signal.signal, "issuer": signal.issuer, "reason": signal.reason, "known": True}
            if Signal[signal.signal].effect.ends_episode:
                found.append(cause)
            else:
                mild = [cause]
        return found + mild

    def _steps_over(self) -> list[dict[str, Any]]:
        """Return the PAUSE that ends a CONTINUE for a number of boundaries, when it is due."""
        phase = self._phase
        if phase.steps_left is None:
            return []
        phase.steps_left -= 1
        if phase.steps_left > 0:
            return []
        phase.steps_left = None
        return [{"signal": Signal.PAUSE.name, "issuer": "operator", "reason": "", "known": True}]

    # -- the governor -------------------------------------------------------------------------------------------------
    def _ask(self, episode: Episode, causes: list[dict[str, Any]]) -> Go:
        phase = self._phase
        winner = _greatest(causes)
        ending = winner is not None and self._ends(Signal[winner["signal"]])
        report = Boundary(
            worker=phase.setup.worker,
            round=phase.tick,
            steps=episode.step,
            ending=ending,
            next=episode.next_agents(episode.step),
            causes=causes,
            episode=episode.number,
            ended=self._ended(),
            telling=self._telling(),
        )
        go: Go = phase.participant.call(phase.governor, "governor.boundary", report, None)
        return go

    def _ends(self, signal: Signal) -> bool:
        """Return whether the worker reports an end after this signal."""
        return signal.effect.ends_episode

    def _ended(self) -> list[dict[str, Any]] | None:
        """Return the episodes that ended in this round, in a phase with bodies."""
        return None

    def _telling(self) -> list[str] | None:
        """Return the agents whose brains must first receive the ends of bodies, in a phase with bodies."""
        return None

    def _wait_out_pause(self, episode: Episode) -> list[dict[str, Any]]:
        """Report the pause, and wait until a signal other than PAUSE arrives."""
        phase = self._phase
        setup = phase.setup
        episode.hand_on()
        while True:
            report = Stands(setup.worker, episode.number, episode.step, setup.evaluation, phase.heeded)
            phase.participant.call(phase.governor, "governor.stands", report, phase.span_s("governor.stands"))
            while not phase.signals:
                if phase.participant.told_to_leave():
                    return [_leave()]
                phase.participant.pump(_PAUSE_LOOK_S)
            others = [cause for cause in self._arrived() if cause["signal"] != Signal.PAUSE.name]
            if others:
                return others  # otherwise CONTINUE was followed by PAUSE: the pause is reported again

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


def _asks_for_pause(causes: list[dict[str, Any]]) -> bool:
    winner = _greatest(causes)
    return winner is not None and winner["signal"] == Signal.PAUSE.name


_OURS = ("interrupted", "failed", "lost")
"""Prefixes of reasons reserved for the kernel; they mark incomplete episodes."""


def _reason(winner: dict[str, Any]) -> str:
    """Return an episode's reason, in the terms of the results."""
    issuer, reason = str(winner["issuer"]), str(winner["reason"])
    if issuer == "phase end":
        return "truncated: phase end"
    if issuer in ("interrupted", "failed"):
        return issuer if not reason else f"{issuer}: {reason}"
    word = issuer.partition(":")[0]
    if word == "operator":
        return f"truncated: signal {winner['signal']}"
    if word == "condition":
        return reason if reason.partition(":")[0] not in _OURS else f"condition: {reason}"
    return word if not reason else f"{word}: {reason}"


def _leave() -> dict[str, Any]:
    return {"signal": Signal.SHUTDOWN.name, "issuer": "interrupted", "reason": "told to leave", "known": True}
