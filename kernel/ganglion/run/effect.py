"""Effects: the governor's decisions, carried out in order by its host; the services it needs; how a run fails."""

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
"""The folder of a run's checkpoints, below the run's folder."""

_FORMAT = 1
_SEAL = "sha256"


def phase_checkpoint_name(phase: int) -> str:
    """Return the file name of the checkpoint at the start of a phase; names sort in the order of phases."""
    return f"phase-{phase:06}.json"


def checkpoint_text(checkpoint: Mapping[str, Any]) -> str:
    """Return the file text of a checkpoint of plain values; the text contains its own digest."""
    tree = {"format": _FORMAT, **checkpoint}
    return _text({**tree, _SEAL: _digest(tree)})


def read_checkpoint(text: str | bytes, where: str) -> dict[str, Any]:
    """Return the checkpoint in a text, without format and digest; StoreError names `where` if any byte was changed."""
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
    """Call a peer; the reply goes to `answered`, or the failure to `failed`, with the same tag."""

    tag: Tag
    peer: str
    call: str
    message: Any
    span_s: float | None


@dataclass(frozen=True, slots=True)
class Await:
    """Watch these peers; `joined` is called for each one that joins."""

    peers: Sequence[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a waiting call, identified by the token that came with it."""

    token: Any
    message: Any


@dataclass(frozen=True, slots=True)
class Steer:
    """Send a flow signal to a controller."""

    peer: str
    signal: FlowSignal


@dataclass(frozen=True, slots=True)
class Record:
    """Write one record to the store; `order` marks the record of an operator's order."""

    record: list[Any]
    order: bool = False


@dataclass(frozen=True, slots=True)
class Declare:
    """Write declarations to the store, as rows of (kind, environment, agent, declarations)."""

    phase: int
    rows: list[tuple[str, str | None, str | None, list[dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class PhaseCheckpoint:
    """Store what a restart of the run at this phase needs: models are rows of (phase, agent, folder).

    `used` are rows of (evaluation, worker, agent, environment, greatest number of a spawned body so far).
    """

    phase: int
    models: list[list[Any]]
    used: list[list[Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Recall:
    """Fetch the recorded episodes of a phase, to learn from or to play; later effects run once they are available."""

    phase: PhasePlan


@dataclass(frozen=True, slots=True)
class Event:
    """Notify observers."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finish:
    """End the run: drain the records, then notify the supervisor."""

    status: str
    reason: str
    exit_status: int
    failure: Failure | None = None
    peer: str | None = None


Effect = Ask | Await | Answer | Steer | Record | Declare | PhaseCheckpoint | Recall | Event | Finish


def record_of(
    error: Mapping[str, Any], phase: int, place: Sequence[int | None], moment: Sequence[int], mode: str | None = None
) -> list[Any]:
    """Return the row of `signals` for a tolerated error {issuer, hook, reason}.

    `place` is worker, episode and step, or None for each. `moment` is the round and the steps of the evaluation within
    it. `mode` None is the mode of the phase.
    """
    data = {"hook": str(error.get("hook", ""))} | ({} if mode is None else {"mode": mode})
    issuer, reason = str(error.get("issuer", "")), str(error.get("reason", ""))
    return ["signal", phase, *place, "CONTINUE", issuer, reason, data, *moment]


def records_of_errors(replies: Iterable[BrainPretrained | BrainStored], phase: int, position: int) -> list[Effect]:
    """Return the records of errors that brains tolerated before or after their episodes; they belong to no worker."""
    errors = (error for reply in replies for error in reply.excused or ())
    return [Record(record_of(error, phase, (None, None, None), (position, 0))) for error in errors]


_NOTHING_STARTED = ("document", "plugin", "usage")  # kinds of failure that a faulty document explains


def placed(report: WorkerFailed) -> Failure:
    """Return the failure of a worker, with the step at which it happened."""
    kind = "evaluation worker" if report.evaluation else "worker"
    place = f"{kind} {report.worker}, episode {report.episode}, step {report.step}"
    where = report.failure.where
    return replace(report.failure, where=f"{where} ({place})" if where else place, retry_after_ms=None)


def failed(failure: Failure, peer: str | None, stepped: bool, faulty: bool) -> Finish:
    """Return how a run ends after a failure of `peer`.

    The exit status is 2 if the document is the cause: it asks for something that does not exist (`faulty`), or a part
    that it names failed before any episode has `stepped`.
    """
    first = failure.message.splitlines()[0] if failure.message else ""
    early = failure.kind in _NOTHING_STARTED and not stepped
    return Finish("failed", f"failed: {first}", 2 if early or faulty else 1, failure, peer)


class Services(Protocol):
    """Provide what the governor needs from outside; every result depends only on the arguments and the run's seed."""

    def words(self, path: Sequence[str | int]) -> bytes:
        """Return the 32 bytes of a stream."""

    def integer(self, words: bytes) -> int:
        """Return a stream as an integer of 53 bits."""

    def conditions(self, phase: PhasePlan) -> list[tuple[str, TerminationCondition, str]]:
        """Return fresh conditions of a phase: name, object, and the scope `episode` or `phase`."""

    def now(self) -> str:
        """Return the wall clock as UTC text; the text is used in records only."""

    def model(self, phase: PhasePlan, agent: AgentPlan, own: Mapping[tuple[int, str], str]) -> str | None:
        """Return the folder of the model with which an agent begins a phase, None to begin afresh.

        `own` maps (phase index, agent) to the folder of the model with which the agent left that phase of this run.
        DocumentError: the model that `load` names was not found. StoreError: the model is damaged.
        """

    def fit(self, agents: Sequence[ResolvedAgent]) -> None:
        """Raise DocumentError if episodes of a strict `replay` do not fit an agent's sensors and actuators."""

    def plays(self, phase: PhasePlan) -> bool:
        """Say whether an environment of a phase plays recorded episodes; these are fetched before the phase begins."""

    def pretraining(self, agent: AgentPlan) -> BrainPretrain | None:
        """Return the message that makes a brain learn from recorded episodes, None if it has none."""

    def second_folder(self, agent: AgentPlan) -> str:
        """Return the folder of this run below the agent's `models`; DocumentError: models cannot be stored there."""
