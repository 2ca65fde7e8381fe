"""CONTRACT: what the author of a plugin reads.

Every public name of the room can be imported from here. Each is loaded when it is first asked for, so that a process
which needs only `Signal` or `Mode` does not pay for numpy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganglion.errors import (
        AuthorError,
        GanglionError,
        LaunchError,
        LimitExceeded,
        Nondeterministic,
        OutOfActionSpaceError,
        OutOfObservationSpaceError,
        OutOfRewardSpaceError,
        PluginInvalid,
        SpaceError,
        StoreError,
        UsageError,
    )
    from ganglion.sdk.brain import (
        Brain,
        CheckpointableBrain,
        EpisodeSummary,
        Evaluation,
        EvaluationResult,
        Transitions,
        Update,
        carries_update,
    )
    from ganglion.sdk.condition import (
        EpisodeMeans,
        EpisodeView,
        EvaluationView,
        PhaseView,
        TerminationCondition,
        WorkerView,
    )
    from ganglion.sdk.construct import Part, check_parameters, construct
    from ganglion.sdk.controller import Controller, ControllerBus, EpisodeEnded, Setpoints, StepResult
    from ganglion.sdk.environment import (
        Environment,
        EnvironmentBaseline,
        EnvironmentState,
        EnvironmentStateTransformer,
        ResetRequest,
        Reward,
        StateTransformer,
        StepBatch,
    )
    from ganglion.sdk.filter import Filter
    from ganglion.sdk.flow import Mode, Signal, SimTime, SimulationFlowControl
    from ganglion.sdk.information import (
        ActuatorInformation,
        Information,
        RewardInformation,
        SensorInformation,
        Statistics,
        Template,
        bootstrap_mask,
        resolve_flags,
    )
    from ganglion.sdk.memory import Memory, MemoryShard
    from ganglion.sdk.models import Models, digest_of, file_name, load_arrays, load_meta, save_arrays
    from ganglion.sdk.muscle import (
        Batch,
        ModelReader,
        Muscle,
        Objective,
        objective_value,
        read_batch_proposal,
        read_proposal,
    )
    from ganglion.sdk.session import Session
    from ganglion.sdk.spaces.kinds import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
    from ganglion.sdk.spaces.space import Space
    from ganglion.sdk.spaces.text import parse_space, space_from_wire
    from ganglion.sdk.store import Observer, Store, StoreReader, StoreWriter
    from ganglion.sdk.table import Table, TableRow

__all__ = [
    "ActuatorInformation",
    "AuthorError",
    "Batch",
    "Box",
    "Brain",
    "CheckpointableBrain",
    "Controller",
    "ControllerBus",
    "Dict",
    "Discrete",
    "Environment",
    "EnvironmentBaseline",
    "EnvironmentState",
    "EnvironmentStateTransformer",
    "EpisodeEnded",
    "EpisodeMeans",
    "EpisodeSummary",
    "EpisodeView",
    "Evaluation",
    "EvaluationResult",
    "EvaluationView",
    "Filter",
    "GanglionError",
    "Information",
    "LaunchError",
    "LimitExceeded",
    "Memory",
    "MemoryShard",
    "Mode",
    "ModelReader",
    "Models",
    "MultiBinary",
    "MultiDiscrete",
    "Muscle",
    "Nondeterministic",
    "Objective",
    "Observer",
    "OutOfActionSpaceError",
    "OutOfObservationSpaceError",
    "OutOfRewardSpaceError",
    "Part",
    "PhaseView",
    "PluginInvalid",
    "ResetRequest",
    "Reward",
    "RewardInformation",
    "SensorInformation",
    "Session",
    "Setpoints",
    "Signal",
    "SimTime",
    "SimulationFlowControl",
    "Space",
    "SpaceError",
    "StateTransformer",
    "Statistics",
    "StepBatch",
    "StepResult",
    "Store",
    "StoreError",
    "StoreReader",
    "StoreWriter",
    "Table",
    "TableRow",
    "Template",
    "TerminationCondition",
    "Transitions",
    "Tuple",
    "Update",
    "UsageError",
    "WorkerView",
    "bootstrap_mask",
    "carries_update",
    "check_parameters",
    "construct",
    "digest_of",
    "file_name",
    "load_arrays",
    "load_meta",
    "objective_value",
    "parse_space",
    "read_batch_proposal",
    "read_proposal",
    "resolve_flags",
    "save_arrays",
    "space_from_wire",
]

_HOMES = {
    "ganglion.errors": "AuthorError GanglionError LaunchError LimitExceeded Nondeterministic "
    "OutOfActionSpaceError OutOfObservationSpaceError OutOfRewardSpaceError PluginInvalid SpaceError "
    "StoreError UsageError",
    "ganglion.sdk.brain": "Brain CheckpointableBrain EpisodeSummary Evaluation EvaluationResult "
    "Transitions Update carries_update",
    "ganglion.sdk.condition": "EpisodeMeans EpisodeView EvaluationView PhaseView TerminationCondition WorkerView",
    "ganglion.sdk.construct": "Part check_parameters construct",
    "ganglion.sdk.controller": "Controller ControllerBus EpisodeEnded Setpoints StepResult",
    "ganglion.sdk.environment": "Environment EnvironmentBaseline EnvironmentState "
    "EnvironmentStateTransformer ResetRequest Reward StateTransformer StepBatch",
    "ganglion.sdk.filter": "Filter",
    "ganglion.sdk.flow": "Mode Signal SimTime SimulationFlowControl",
    "ganglion.sdk.information": "ActuatorInformation Information RewardInformation "
    "SensorInformation Statistics Template bootstrap_mask resolve_flags",
    "ganglion.sdk.memory": "Memory MemoryShard",
    "ganglion.sdk.models": "Models digest_of file_name load_arrays load_meta save_arrays",
    "ganglion.sdk.muscle": "Batch ModelReader Muscle Objective objective_value read_batch_proposal read_proposal",
    "ganglion.sdk.session": "Session",
    "ganglion.sdk.spaces.kinds": "Box Dict Discrete MultiBinary MultiDiscrete Tuple",
    "ganglion.sdk.spaces.space": "Space",
    "ganglion.sdk.spaces.text": "parse_space space_from_wire",
    "ganglion.sdk.store": "Observer Store StoreReader StoreWriter",
    "ganglion.sdk.table": "Table TableRow",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOME)
