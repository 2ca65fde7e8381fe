"""Calls of a brain: the rows that it learns from, the updates that it hands out, the models that it stores."""

from typing import Any

from ganglion.wire.messages.declaration import message

__all__ = [
    "BrainEvaluate",
    "BrainEvaluated",
    "BrainJoin",
    "BrainLeave",
    "BrainPretrain",
    "BrainPretrained",
    "BrainSetup",
    "BrainStore",
    "BrainStored",
    "Think",
    "Thought",
    "UpdateAsked",
]


@message
class BrainSetup:
    """Begin a phase: make the brain, load its model. `models` is where it stores, `load` where it loads from."""

    run: str
    phase: int
    phase_name: str
    mode: str
    agent: str
    plugin: dict[str, Any]
    sensors: list[dict[str, Any]]
    actuators: list[dict[str, Any]]
    rewards: list[dict[str, Any]] | None
    muscles: list[str]
    workers: int
    stream: bytes
    models: str
    sync: str = "lockstep"
    load: str | None = None
    static_models: dict[str, Any] | None = None
    parcels: dict[str, Any] | None = None  # field -> number of the blob that holds it
    checkpoint_s: float | None = None  # least time between two checkpoints; None takes none
    filters: list[dict[str, Any]] | None = None  # as of MuscleSetup


@message
class BrainPretrain:
    """Learn from recorded episodes before anybody acts; `sha256` is that of the index in `folder`.

    What does not fit the declarations of the brain is left out where the index says so, and refused elsewhere.
    """

    folder: str
    sha256: str


@message
class BrainPretrained:
    """Say from how many episodes the brain has learned, each counted as often as it is shown."""

    sessions: int
    decisions: int
    excused: list[dict[str, Any]] | None = None  # as of Acted


@message
class BrainJoin:
    """Join a brain as the muscle of a worker; answered with the newest update, or the initial one."""

    worker: int


@message
class BrainLeave:
    """Leave a brain at the end of a phase."""

    worker: int


@message
class Think:
    """Give the rows of one completed decision, one per body.

    `readings` are those decided on, before filters; `proposed` the muscle's own setpoints, `applied` those after
    filters; `next_readings` those that came of it. `data` is what the muscle added. `observations` and
    `next_observations` are the readings after filters, null where there are none.
    """

    worker: int
    episode: int
    decision: int
    readings: list[Any]
    applied: list[Any]
    rewards: list[Any]
    objective: list[Any]
    next_readings: list[Any]
    terminated: bool = False
    truncated: bool = False
    proposed: list[Any] | None = None
    data: Any = None
    round: int = 0
    workers: list[int] | None = None
    reward_ids: list[dict[str, Any]] | None = None  # declarations, with the first row of each phase
    observations: list[Any] | None = None
    next_observations: list[Any] | None = None


@message
class UpdateAsked:
    """Ask for the newest update, without a row: the first decision of an episode."""

    worker: int
    round: int = 0
    workers: list[int] | None = None


@message
class Thought:
    """Answer with the newest update that this muscle does not have yet, and a signal of the brain.

    `fresh` says that `update` holds one: null may be an update too. `filters` are the newest arrays of those that
    published any, by their number, null if this muscle has them. `statistics` is what the brain noted while it thought,
    by names that begin with `brain.`.
    """

    update: Any = None
    fresh: bool = False
    signal: dict[str, Any] | None = None
    filters: dict[str, Any] | None = None
    excused: list[dict[str, Any]] | None = None  # as of Acted
    statistics: dict[str, Any] | None = None


@message
class BrainEvaluate:
    """Tell how an evaluation went.

    `episodes` are maps {worker, episode, steps, objective_mean, objective_sum, terminated, truncated}, by worker and
    episode.
    """

    number: int
    episodes: list[dict[str, Any]]


@message
class BrainEvaluated:
    """Answer with the brain's own metrics, finite numbers, and the model that it stored for this evaluation."""

    metrics: dict[str, Any]
    checkpoint_id: str | None = None
    checkpoint_hash: str | None = None
    excused: list[dict[str, Any]] | None = None  # as of Acted


@message
class BrainStore:
    """Store the model, a second time in `second`.

    A brain that does not take part in learning is given a `source`: it stores the model that lies there in `models`.
    """

    reason: str = "phase end"
    source: str | None = None
    models: str | None = None
    second: str | None = None


@message
class BrainStored:
    """List the files that were written: maps {tag, path, sha256, bytes, updates}."""

    files: list[dict[str, Any]]
    excused: list[dict[str, Any]] | None = None  # as of Acted: what no answer to a muscle has told
