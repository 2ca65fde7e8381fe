"""Calls of a muscle: what it is made of, what it sees and what it proposes."""

from typing import Any

from ganglion.wire.messages.declaration import message

__all__ = ["Act", "Acted", "MuscleReset", "MuscleSetup"]


@message
class MuscleSetup:
    """Begin a phase: make the muscle, its objective and filters; join the brain.

    `sensors`, `actuators` and `rewards` are declarations with full ids, before filters; `rewards` null: they come with
    the first `muscle.act` that brings rewards. `filters` are maps {name, params, on_error, stream}. `brain` is the
    brain's name on the wire, null where nobody is asked (test mode, no brain). `models` is the directory of the model
    to act by in test mode.
    """

    run: str
    phase: int
    phase_name: str
    mode: str
    worker: int
    agent: str
    plugin: dict[str, Any]
    objective: dict[str, Any]
    sensors: list[dict[str, Any]]
    actuators: list[dict[str, Any]]
    rewards: list[dict[str, Any]] | None
    stream: bytes
    objective_stream: bytes
    brain: str | None = None
    filters: list[dict[str, Any]] | None = None
    models: str | None = None
    static_models: dict[str, Any] | None = None
    deadlines_s: dict[str, Any] | None = None  # of the calls to the brain
    policy: str | None = None  # the brain whose newest update is the policy, in an evaluation
    parcels: dict[str, Any] | None = None  # field -> number of the blob that holds it


@message
class Act:
    """Give readings, and the outcome of the decision before; ask for the next decision, or only settle.

    `rewards` are rows in the order of MuscleSetup.rewards, null if already settled. `round` and `workers` tell the
    brain whose rows to await before it thinks. `closing` marks the last message of an episode, `passing` a round in
    which the agent is awaited and does not act: nothing is completed or decided, and the brain awaits no row.
    """

    readings: list[Any]
    rewards: list[Any] | None = None
    decide: bool = True
    terminated: bool = False
    truncated: bool = False
    closing: bool = False
    round: int = 0
    workers: list[int] | None = None
    ticks: int | None = None
    reason: str = ""
    reward_ids: list[dict[str, Any]] | None = (
        None  # declarations, with the first rewards if not made at setup
    )
    passing: bool = False


@message
class Acted:
    """Answer with the setpoints, and the objective of the decision that was completed.

    `proposed` are the muscle's own where filters changed them. `signal` is a brain's wish: {signal, reason}. `excused`
    are exceptions of authors that the document excuses: maps {issuer, hook, reason}. `statistics` are those of the
    decision that is made, `learned` those of the brain, for the decision that was completed.
    """

    setpoints: list[Any] | None = None
    proposed: list[Any] | None = None
    objective: list[Any] | None = None
    signal: dict[str, Any] | None = None
    statistics: dict[str, Any] | None = None
    excused: list[dict[str, Any]] | None = None
    learned: dict[str, Any] | None = None


@message
class MuscleReset:
    """Begin the next episode in place; `prepare` asks for the newest policy before it."""

    episode: int
    prepare: bool = False
