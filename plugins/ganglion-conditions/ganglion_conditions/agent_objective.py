"""Agent objective: an episode, or a phase, is over when an agent is good enough."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ganglion.sdk import EpisodeView, PhaseView, Signal, TerminationCondition, WorkerView
from ganglion_conditions.mean import mean
from ganglion_conditions.parameter import known, number, table

__all__ = ["AgentObjective", "Criterion"]

_KEY = re.compile(r"(brain|phase)_avg([1-9][0-9]*)\Z", re.ASCII)
_NAME = "agent_objective"
_NEVER = "condition can never fire"


@dataclass(frozen=True, slots=True)
class Criterion:
    """Ask that the mean over the last `last` values of an agent reaches `threshold`; `key` is its spelling."""

    agent: str
    key: str
    last: int
    threshold: float

    def reached(self, values: Sequence[float]) -> float | None:
        """Return the mean of the last values if there are enough and it is at least the threshold, else None."""
        if len(values) < self.last:
            return None
        found = mean(values[-self.last :])
        return found if found >= self.threshold else None

    def reason(self, found: float, where: str = "") -> str:
        """Return the reason of the signal that a mean of `found` gives."""
        return f"{_NAME}: {self.agent} {self.key} {found:g} >= {self.threshold:g}{where}"


class AgentObjective(TerminationCondition):
    """End episodes by the newest objectives of an agent, and the phase by the means of its episodes.

    Episode part: RESET at the first boundary at which the last N decisions of this episode of this worker have a mean
    objective of at least `brain_avgN`. Phase part: STOP_PHASE when in every worker, all at the same time, the mean
    over the last N finished episodes of the episode's mean objective is at least `phase_avgN`. Equality counts; a
    decision, or an episode, without value does not; nor does an episode that the end of the phase cut short. An
    episode has the same weight whatever its length. A worker that was stopped keeps its last episodes.

    A phase-level one without any `phase_avgN` ends the phase as soon as a `brain_avgN`, its own or an episode-level
    one's, has ended an episode of any worker.

    It has no state: the views hold all that it looks at.

    Params:
        <agent>: A map of criteria `brain_avgN` and `phase_avgN`, N >= 1, to the mean that is enough, in the unit of
            the agent's objective. Of several criteria and several agents one suffices.
    """

    reads: ClassVar[frozenset[str]] = frozenset({"objectives"})
    issuer = _NAME

    def __init__(self, /, **criteria: Mapping[str, float]) -> None:
        super().__init__()
        table("params", criteria, "agents to their criteria")
        found = [pair for agent, given in criteria.items() for pair in _criteria(agent, given)]
        self._agents = list(criteria)
        self.brain = tuple(criterion for kind, criterion in found if kind == "brain")
        self.whole = tuple(criterion for kind, criterion in found if kind == "phase")

    def episode(self, view: EpisodeView) -> Signal:
        """Return RESET if a `brain_avgN` is reached at this boundary."""
        for criterion in self.brain:
            found = criterion.reached(view.objectives.get(criterion.agent, ()))
            if found is not None:
                self.reason = criterion.reason(found)
                return Signal.RESET
        return Signal.CONTINUE

    def phase(self, view: PhaseView) -> Signal:
        """Return STOP_PHASE if all workers reach a `phase_avgN`, or as said above of one without any."""
        if not self.whole:
            return self._fired(view)
        for criterion in self.whole:
            found = [criterion.reached(_means(worker, criterion)) for worker in view.workers]
            reached = [value for value in found if value is not None]
            if found and len(reached) == len(found):
                where = " in every worker" if len(found) > 1 else ""
                self.reason = criterion.reason(min(reached), where)
                return Signal.STOP_PHASE
        return Signal.CONTINUE

    def _fired(self, view: PhaseView) -> Signal:
        for worker in view.workers:
            if _NAME in worker.fired:
                where = f" in worker {worker.worker}" if len(view.workers) > 1 else ""
                self.reason = f"{worker.fired[_NAME]}{where}"
                return Signal.STOP_PHASE
        return Signal.CONTINUE

    def distances(self, phase: PhaseView, episodes: Sequence[EpisodeView]) -> Sequence[tuple[str, float, float]]:
        """Return the greatest mean of a worker for each `brain_avgN`, the least one for each `phase_avgN`.

        Where there are fewer decisions, or episodes, than are asked for, it is the mean of those there are.
        """
        found = []
        for criterion in self.brain:
            newest = [view.objectives.get(criterion.agent, ())[-criterion.last :] for view in episodes]
            if any(newest):
                best = max(mean(values) for values in newest if values)
                found.append((f"{criterion.agent} {criterion.key}", best, criterion.threshold))
        for criterion in self.whole:
            values = [_means(worker, criterion) for worker in phase.workers]
            if values and all(values):
                found.append((f"{criterion.agent} {criterion.key}", min(map(mean, values)), criterion.threshold))
        return found

    def warnings(self, document: Mapping[str, Any]) -> Sequence[str]:
        """Return what can never be reached, or hardly in the way that was meant.

        Raises:
            ValueError: No phase has an agent of that name.
        """
        known(self._agents, document)
        if document.get("part") == "episode":
            unread = [f"`{c.key}` is not read among `simulation.conditions`: it is phase-level" for c in self.whole]
        else:
            unread = [text for criterion in self.whole for text in self._hardly(document, criterion)]
        return [*(text for criterion in self.brain for text in _too_short(document, criterion)), *unread]

    def _hardly(self, document: Mapping[str, Any], criterion: Criterion) -> list[str]:
        """Return the warnings about a `phase_avgN`."""
        key, limit = criterion.key, document.get("episode_limit")
        found = []
        if limit is not None and criterion.last > limit:
            found.append(f"{_NEVER}: {key} needs {criterion.last} episodes, the phase ends after {limit}")
        given = [pair for params in _listed(document, _NAME) for pair in params.get(criterion.agent, {}).items()]
        brain = [threshold for other, threshold in given if other.startswith("brain")]
        brain += [own.threshold for own in self.brain if own.agent == criterion.agent]
        if not brain:
            found.append(f"{key} without a brain_avgN of this agent: palaestrAI needs one")
        elif criterion.threshold >= min(brain):
            usual = "an episode ends when its last values reach that, the mean of all of them is usually below"
            found.append(f"{key}: {criterion.threshold:g} beside a brain_avgN of {min(brain):g}: {usual}")
        return found


def _criteria(agent: str, given: Any) -> list[tuple[str, Criterion]]:
    """Return (kind, criterion) of an agent in document order."""
    what = "criteria such as brain_avg10 or phase_avg10 to numbers"
    found = []
    for key, threshold in table(agent, given, what).items():
        match = _KEY.match(key) if isinstance(key, str) else None
        if match is None:
            raise ValueError(f"{agent}: expected brain_avgN or phase_avgN with N >= 1, found {key!r}")
        wanted = number(f"{agent}.{key}", threshold)
        found.append((match[1], Criterion(agent, key, int(match[2]), wanted)))
    return found


def _means(worker: WorkerView, criterion: Criterion) -> Sequence[float]:
    """Return the means of the last episodes of a worker that count, oldest first, at most as many as are wanted."""
    found: list[float] = []
    for episode in reversed(worker.finished):
        if len(found) == criterion.last:
            break
        if not episode.cut and criterion.agent in episode.means:
            found.append(episode.means[criterion.agent])
    return found[::-1]


def _decisions(document: Mapping[str, Any], agent: str, steps: int) -> int:
    """Return how many decisions an agent has in an episode of so many steps."""
    names = [entry["name"] for entry in document["agents"]]
    if not _takes_turns(document) or agent not in names:
        return steps
    behind = steps - names.index(agent)
    return max(0, -(-behind // len(names)))


def _takes_turns(document: Mapping[str, Any]) -> bool:
    return str(document["simulation"]["name"]).rpartition(":")[2] == "taking_turns"


def _listed(document: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the parameters of all conditions of a name that a phase has."""
    listed = [*document["simulation"]["conditions"], *document["phase_config"]["conditions"]]
    return [entry["params"] for entry in listed if entry["name"] == name]


def _too_short(document: Mapping[str, Any], criterion: Criterion) -> list[str]:
    """Return the warning about a `brain_avgN` for which no episode is long enough."""
    ends = "the environments end it" if len(document["environments"]) > 1 else "this environment ends"
    spans = [
        (steps, "max_steps ends it") for it in _listed(document, "max_steps") if type(steps := it.get("steps")) is int
    ]
    if document.get("longest_episode") is not None:
        spans.append((document["longest_episode"], ends))
    if not spans:
        return []
    steps, who = min(spans, key=lambda span: span[0])
    decisions = _decisions(document, criterion.agent, steps)
    if criterion.last <= decisions:
        return []
    share = "" if decisions == steps else f", {decisions} of them in this agent's turns"
    return [f"{_NEVER}: {criterion.key} needs {criterion.last} decisions per episode, {who} after {steps}{share}"]
