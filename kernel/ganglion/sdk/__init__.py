"""CONTRACT: what the author of a plugin reads.

Import every public name of the room from here. A name is loaded at its first use, so that a process that needs only
`Signal` or `Mode` does not import numpy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganglion.errors import *
    from ganglion.sdk.brain import *
    from ganglion.sdk.condition import *
    from ganglion.sdk.controller import *
    from ganglion.sdk.environment import *
    from ganglion.sdk.filter import *
    from ganglion.sdk.flow import *
    from ganglion.sdk.functional import *
    from ganglion.sdk.information import *
    from ganglion.sdk.launcher import *
    from ganglion.sdk.memory import *
    from ganglion.sdk.models import *
    from ganglion.sdk.muscle import *
    from ganglion.sdk.naming import *
    from ganglion.sdk.part import *
    from ganglion.sdk.pool import *
    from ganglion.sdk.session import *
    from ganglion.sdk.spaces import *
    from ganglion.sdk.store import *
    from ganglion.sdk.table import *
    from ganglion.sdk.topic import *

_HOMES = {
    "ganglion.errors": "AuthorError GanglionError LaunchError LimitExceeded Nondeterministic "
    "OutOfActionSpaceError OutOfObservationSpaceError OutOfRewardSpaceError PluginInvalid SpaceError "
    "StoreError UsageError",
    "ganglion.sdk.brain": "Brain CheckpointableBrain EpisodeSummary Evaluation EvaluationResult LateCredit "
    "Transitions Update carries_update",
    "ganglion.sdk.condition": "EpisodeMeans EpisodeView EvaluationView PhaseView TerminationCondition WorkerView",
    "ganglion.sdk.part": "Part check_parameters construct",
    "ganglion.sdk.controller": "Controller EpisodeEnded Setpoints StepResult",
    "ganglion.sdk.environment": "Environment EnvironmentBaseline EnvironmentState Body ResetRequest Reward "
    "StateTransformer StepBatch",
    "ganglion.sdk.filter": "Filter FilterBatch",
    "ganglion.sdk.flow": "Mode Signal SimTime",
    "ganglion.sdk.functional": "FunctionalEnvironment FunctionalStep",
    "ganglion.sdk.information": "ActuatorInformation Group Information RewardInformation "
    "SensorInformation Statistics bootstrap_mask mask_columns",
    "ganglion.sdk.launcher": "LaunchError LaunchSpec LaunchWatch Launched Launcher",
    "ganglion.sdk.memory": "Memory MemoryShard",
    "ganglion.sdk.models": "Models digest_of load_arrays save_arrays",
    "ganglion.sdk.naming": "file_name",
    "ganglion.sdk.muscle": "Batch Muscle Objective",
    "ganglion.sdk.pool": "INSERT Ask Pool",
    "ganglion.sdk.session": "Session",
    "ganglion.sdk.spaces": "Box Dict Discrete Mask MultiBinary MultiDiscrete Ragged Space Tuple parse_space",
    "ganglion.sdk.store": "Observer Store StoreReader StoreWriter",
    "ganglion.sdk.table": "Table TableRow",
    "ganglion.sdk.topic": "Topics",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)  # noqa: PLE0605 - a type checker sees the modules above


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOME)
