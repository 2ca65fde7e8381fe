"""Calls of an environment: what it declares, how it begins, steps and begins again."""

from typing import Any

from ganglion.wire.messages.declaration import message

__all__ = [
    "EnvironmentDeclared",
    "EnvironmentReset",
    "EnvironmentStart",
    "EnvironmentUpdate",
    "EnvironmentUpdated",
]


@message
class EnvironmentStart:
    """Begin a phase: make the environment and open its first episode.

    `plugin` is null for a foreign program. `seed` is the object's own (53 bits), `episode_seed` that of the first
    episode; `stream` and `episode_stream` are the same for receivers that know numpy's bit generators (32 bytes).
    """

    run: str
    phase: int
    phase_name: str
    mode: str
    worker: int
    uid: str
    params: dict[str, Any]
    seed: int
    episode_seed: int
    stream: bytes = b""
    episode_stream: bytes = b""
    plugin: dict[str, Any] | None = None
    reward: dict[str, Any] | None = None
    transformer: dict[str, Any] | None = None
    parcels: dict[str, Any] | None = None  # field -> number of the blob that holds it


@message
class EnvironmentDeclared:
    """Declare sensors, actuators, rewards, and give the first readings.

    Each declaration is a map {id, space, value?, unit?, value_ids?}; an actuator's value is its no-op. `readings` are
    rows in declared order. `rewards` null: declared by the first update.
    """

    sensors: list[dict[str, Any]]
    actuators: list[dict[str, Any]]
    readings: list[Any]
    rewards: list[dict[str, Any]] | None = None
    ticks: int | None = 0
    timestamp: str | None = None
    static_model: dict[str, Any] | None = None


@message
class EnvironmentUpdate:
    """Apply the setpoints of this step and advance by one.

    `setpoints` are rows of the given `actuators` (indices into the declared order), of all of them if null.
    """

    setpoints: list[Any]
    actuators: list[int] | None = None


@message
class EnvironmentUpdated:
    """Answer with all declared readings, the rewards of this step, and the flags after it."""

    readings: list[Any]
    rewards: list[Any]
    terminated: bool = False
    truncated: bool = False
    ticks: int | None = None
    timestamp: str | None = None
    reward_ids: list[dict[str, Any]] | None = None  # declarations, in the first update if not made before
    world_state: Any = None
    state: dict[str, Any] | None = None  # of generators before a reset, for who has to lead a successor here
    excused: list[dict[str, Any]] | None = None  # as of Acted, of reward and transformer


@message
class EnvironmentReset:
    """Begin the next episode in place; `state` is put back before it, in the successor of a lost process."""

    episode: int
    seed: int
    stream: bytes = b""
    state: dict[str, Any] | None = None
