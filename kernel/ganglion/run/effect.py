"""Effects: what the governor decided, for its host to carry out in order; what it needs of the world; how it fails."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol

from ganglion.errors import StoreError
from ganglion.run.agents import ResolvedAgent
from ganglion.run.plan import AgentPlan, PhasePlan
from ganglion.sdk.condition import TerminationCondition
from ganglion.wire.messages import BrainPretrain, BrainPretrained, BrainStored, Failure, FlowSignal, WorkerFailed


class Stage(Enum):
    """Say how far a run is; a phase goes through NEEDING to CLOSING in this order."""

    PLANNED = "planned"
    NEEDING = "the supervisor starts processes"
    JOINING = "processes join"
    SETTING_UP = "environments start"
    BRAINS = "brains are set up"
    RUNNING = "episodes run"
    MUSCLES_LEAVING = "muscles leave"
    STORING = "brains store"
    CLOSING = "environments shut down"
    FAILING = "workers close their episodes"
    ENDED = "ended"


FOLDER = "checkpoints"
"""Where the checkpoints of a run are, below its folder."""

_FORMAT = 1
_SEAL = "sha256"


def phase_checkpoint_name(phase: int) -> str:
    """Return the name of the file of the checkpoint at the begin of a phase; names sort like phases."""
    return f"phase-{phase:06}.json"


def checkpoint_text(checkpoint: Mapping[str, Any]) -> str:
    """Return the one text that a checkpoint of plain values has as a file; its digest is a part of it."""
    tree = {"format": _FORMAT, **checkpoint}
    return _text({**tree, _SEAL: _digest(tree)})


def read_checkpoint(text: str | bytes, where: str) -> dict[str, Any]:
    """Return the checkpoint in a text, without format and digest; StoreError names `where` if a byte is another."""
    try:
        tree = json.loads(text)
        digest = tree.pop(_SEAL)
        if digest != _digest(tree):
            raise ValueError("it is not what was written")
        if tree.pop("format") != _FORMAT:
            raise ValueError("its format is not read")
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise StoreError(f"checkpoint {where}: the file is damaged: {error}") from error
    found: dict[str, Any] = tree
    return found


def _text(tree: Mapping[str, Any]) -> str:
    return json.dumps(tree, ensure_ascii=False, indent=1) + "\n"


def _digest(tree: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(tree).encode()).hexdigest()


Tag = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Call a peer; the answer comes back to `answered` or `failed` with the same tag."""

    tag: Tag
    peer: str
    call: str
    message: Any
    span_s: float | None


@dataclass(frozen=True, slots=True)
class Await:
    """Watch these peers; each is told by `joined`."""

    peers: Sequence[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a call that waits, by the token that came with it."""

    token: Any
    message: Any


@dataclass(frozen=True, slots=True)
class Steer:
    """Send a flow signal to a controller."""

    peer: str
    signal: FlowSignal


@dataclass(frozen=True, slots=True)
class Record:
    """Write one record to the store; `order` says that it tells of what an operator did, and when."""

    record: list[Any]
    order: bool = False


@dataclass(frozen=True, slots=True)
class Declare:
    """Write declarations to the store: they are rows of (kind, environment, agent, declarations)."""

    phase: int
    rows: list[tuple[str, str | None, str | None, list[dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class PhaseCheckpoint:
    """Keep what the run needs to begin again with a phase: models are rows of (phase, agent, folder).

    `used` are rows of (evaluation, worker, agent, environment, the greatest number that a spawned body has had).
    """

    phase: int
    models: list[list[Any]]
    used: list[list[Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Recall:
    """Fetch the recorded episodes of a phase, to learn from or to play; what follows is done if they are there."""

    phase: PhasePlan


@dataclass(frozen=True, slots=True)
class Event:
    """Tell observers."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finish:
    """End the run: drain the records, tell the supervisor."""

    status: str
    reason: str
    exit_status: int
    failure: Failure | None = None
    peer: str | None = None


Effect = Ask | Await | Answer | Steer | Record | Declare | PhaseCheckpoint | Recall | Event | Finish


def record_of(
    error: Mapping[str, Any], phase: int, place: Sequence[int | None], moment: Sequence[int], mode: str | None = None
) -> list[Any]:
    """Return the row of `signals` that tells of a tolerated error {issuer, hook, reason}.

    `place` is worker, episode and step, or None for each; `moment` the round, and the steps of the evaluation within
    it; `mode` None is that of the phase.
    """
    data = {"hook": str(error.get("hook", ""))} | ({} if mode is None else {"mode": mode})
    issuer, reason = str(error.get("issuer", "")), str(error.get("reason", ""))
    return ["signal", phase, *place, "CONTINUE", issuer, reason, data, *moment]


def records_of_errors(replies: Iterable[BrainPretrained | BrainStored], phase: int, position: int) -> list[Effect]:
    """Return the records of tolerated errors of brains before or after their episodes, which concern no worker."""
    errors = (error for reply in replies for error in reply.excused or ())
    return [Record(record_of(error, phase, (None, None, None), (position, 0))) for error in errors]


_NOTHING_STARTED = ("document", "plugin", "usage")  # kinds of failure that a faulty document explains


def placed(report: WorkerFailed) -> Failure:
    """Return the failure of a worker, with the step at which it has happened."""
    kind = "evaluation worker" if report.evaluation else "worker"
    place = f"{kind} {report.worker}, episode {report.episode}, step {report.step}"
    where = report.failure.where
    return replace(report.failure, where=f"{where} ({place})" if where else place, retry_after_ms=None)


def failed(failure: Failure, peer: str | None, stepped: bool, faulty: bool) -> Finish:
    """Return how a run ends by a failure of `peer`.

    Its exit status is 2 where the document is to blame: it asks for what is not there (`faulty`), or what it says has
    failed before any episode has `stepped`.
    """
    first = failure.message.splitlines()[0] if failure.message else ""
    early = failure.kind in _NOTHING_STARTED and not stepped
    return Finish("failed", f"failed: {first}", 2 if early or faulty else 1, failure, peer)


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

        `own` maps (phase index, agent) to the folder of the model that the agent left that phase of this run with.
        DocumentError: what `load` asks for was not found. StoreError: it is damaged.
        """

    def fit(self, agents: Sequence[ResolvedAgent]) -> None:
        """Raise DocumentError where recorded episodes of a strict `replay` differ from what agents see and set."""

    def plays(self, phase: PhasePlan) -> bool:
        """Say whether an environment of a phase plays recorded episodes, which are fetched before it begins."""

    def pretraining(self, agent: AgentPlan) -> BrainPretrain | None:
        """Return what tells a brain to learn from recorded episodes, None where there are none for it."""

    def second_folder(self, agent: AgentPlan) -> str:
        """Return the folder of this run below the agent's `models`; DocumentError: models cannot be kept there."""
