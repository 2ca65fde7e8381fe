"""Calls of a governor: a run begins, workers report the end of episodes and are told how to go on."""

from typing import Any

from ganglion.wire.messages.declaration import message
from ganglion.wire.messages.joining import Failure

__all__ = [
    "Boundary",
    "EpisodeEnded",
    "Go",
    "GovernorStart",
    "Incident",
    "Rebuild",
    "Rebuilt",
    "Stands",
    "Verdict",
    "WorkerFailed",
]


@message
class GovernorStart:
    """Begin a run: its plan, as the document's room makes it."""

    run: str
    plan: dict[str, Any]
    store: str | None = None  # name of the store's peer
    parcels: dict[str, Any] | None = None  # field -> number of the blob that holds it
    resume: dict[str, Any] | None = (
        None  # a cut {phase, models: [[phase, agent, folder], ...], ...}: the run goes on with this phase
    )


@message
class Incident:
    """Tell the governor what became of a process, for the table of incidents; no result depends on it."""

    time: str  # of the wall clock, UTC
    name: str  # whose, without the run
    incarnation: int
    kind: str  # lost, restarted, rewound, poison, restarts
    position: str | None = None  # which call it heard last, and where in the run
    detail: str | None = None
    failure: Failure | None = None  # it does not come back: the run ends with this


@message
class EpisodeEnded:
    """Report the end of an episode and ask for the verdict.

    `causes` are maps {signal, issuer, reason}; `agents` maps an agent to {decisions, sum, mean, values?}.
    """

    worker: int
    episode: int
    steps: int
    terminated: bool
    truncated: bool
    reason: str
    agents: dict[str, Any]
    causes: list[dict[str, Any]]
    ended: list[str]  # environments that ended by themselves
    next: list[str]  # agents that act in the first step of the next episode
    ticks: int | None = None
    round: int = 0  # steps of this worker in this phase
    evaluation: bool = False  # by a worker that evaluates
    lost: bool = False  # given up with somebody who took part: it does not count as an episode


@message
class WorkerFailed:
    """Report that a worker cannot go on; its open episode has been closed with the reason `failed`.

    `peer` is who failed; null: the controller itself.
    """

    worker: int
    episode: int
    step: int
    failure: Failure
    peer: str | None = None
    evaluation: bool = False


@message
class Rebuild:
    """Tell that a peer is lost, and ask for word when its successor has joined.

    With `unreachable` the broker has not met the peer: a broker was lost, and the peer may come back to its successor.
    """

    worker: int
    peer: str
    unreachable: bool = False


@message
class Rebuilt:
    """Answer: a successor has joined, or none will."""

    joined: bool


@message
class Stands:
    """Report that a worker stands at a boundary because of PAUSE, where there is no common boundary.

    `heeded` is the number of the last signal that it has acted on: one that is on its way to it may end this.
    """

    worker: int
    episode: int
    steps: int
    evaluation: bool = False
    heeded: int | None = None


@message
class Boundary:
    """Report that a worker stands at the common boundary after a round.

    `ending` says that its episode ends here; `next` are the agents that act in its next step.
    """

    worker: int
    round: int
    steps: int
    ending: bool
    next: list[str]
    causes: list[dict[str, Any]]
    episode: int = 0


@message
class Go:
    """Answer a boundary: go on (`signal` CONTINUE), or end the episode for this signal.

    `participants` maps an agent to the workers whose rows its brain awaits in the next round.
    """

    signal: str = "CONTINUE"
    issuer: str = ""
    reason: str = ""
    round: int = 0
    participants: dict[str, list[int]] | None = None


@message
class Verdict:
    """Answer an episode's end: RESET begins `episode` with these seeds, anything greater ends the worker's part."""

    signal: str
    reason: str = ""
    episode: int = 0
    seeds: dict[str, Any] | None = None  # environment -> {seed: int of 53 bits, stream: 32 bytes}
    round: int = 0
    participants: dict[str, list[int]] | None = None
