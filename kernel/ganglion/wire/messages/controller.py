"""Calls of a controller: a worker's part of a phase, from its environments to its muscles."""

from typing import Any

from ganglion.wire.messages.declaration import message
from ganglion.wire.messages.governor import Verdict

__all__ = [
    "ControllerEvaluate",
    "ControllerReady",
    "ControllerSetup",
    "ControllerShutdown",
    "ControllerStart",
]


@message
class ControllerSetup:
    """Begin a phase in a worker: start its environments.

    `environments` are maps {uid, peer, content, plugin, params, reward, transformer, seed, stream, episode_seed,
    episode_stream}; `controller` and each of `conditions` are {plugin, params, name}.
    """

    run: str
    phase: int
    phase_name: str
    mode: str
    worker: int
    controller: dict[str, Any]
    conditions: list[dict[str, Any]]
    environments: list[dict[str, Any]]
    stream: bytes
    deadlines_s: dict[str, Any]
    governor: str
    store: str | None = None
    evaluation: bool = False  # this worker evaluates what others train
    parcels: dict[str, Any] | None = None  # field -> number of the blob that holds it
    mends: bool = False  # a lost environment is started anew: it is to be led to where it stood


@message
class ControllerReady:
    """Answer with what the environments declare: uid -> the fields of EnvironmentDeclared without readings."""

    declarations: dict[str, Any]


@message
class ControllerStart:
    """Set up the muscles and begin the first episode.

    `agents` are maps {name, peer, content, brain, muscle, objective, filters, sensors, actuators, rewards, stream,
    objective_stream, models, policy}; ids are full. `common` asks for a common boundary after each round.
    """

    agents: list[dict[str, Any]]
    common: bool
    sync: str
    verdict: Verdict
    settle: bool  # a condition reads objectives: rewards are settled in the step that earned them
    static_models: dict[str, Any] | None = None
    patient: bool = (
        False  # a verdict may wait for an evaluation, each of whose steps has a deadline of its own
    )
    parcels: dict[str, Any] | None = None  # field -> number of the blob that holds it


@message
class ControllerEvaluate:
    """Run the episodes of the next evaluation, from the one that the verdict names, by the newest policies."""

    verdict: Verdict


@message
class ControllerShutdown:
    """End a worker's part of a phase: muscles first; environments and the last records in a second call."""

    muscles: bool = False
    environments: bool = False
