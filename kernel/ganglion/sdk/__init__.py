"""CONTRACT: what the author of a plugin reads.

Every public name of the room can be imported from here. Each is loaded when it is first asked for, so that a process
which needs only `Signal` or `Mode` does not pay for numpy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganglion.errors import AuthorError as AuthorError
    from ganglion.errors import GanglionError as GanglionError
    from ganglion.errors import LaunchError as LaunchError
    from ganglion.errors import LimitExceeded as LimitExceeded
    from ganglion.errors import Nondeterministic as Nondeterministic
    from ganglion.errors import OutOfActionSpaceError as OutOfActionSpaceError
    from ganglion.errors import OutOfObservationSpaceError as OutOfObservationSpaceError
    from ganglion.errors import OutOfRewardSpaceError as OutOfRewardSpaceError
    from ganglion.errors import PluginInvalid as PluginInvalid
    from ganglion.errors import SpaceError as SpaceError
    from ganglion.errors import StoreError as StoreError
    from ganglion.errors import UsageError as UsageError
    from ganglion.sdk.brain import Brain as Brain
    from ganglion.sdk.brain import CheckpointableBrain as CheckpointableBrain
    from ganglion.sdk.brain import EpisodeSummary as EpisodeSummary
    from ganglion.sdk.brain import Evaluation as Evaluation
    from ganglion.sdk.brain import EvaluationResult as EvaluationResult
    from ganglion.sdk.brain import LateCredit as LateCredit
    from ganglion.sdk.brain import Transitions as Transitions
    from ganglion.sdk.brain import Update as Update
    from ganglion.sdk.brain import carries_update as carries_update
    from ganglion.sdk.condition import EpisodeMeans as EpisodeMeans
    from ganglion.sdk.condition import EpisodeView as EpisodeView
    from ganglion.sdk.condition import EvaluationView as EvaluationView
    from ganglion.sdk.condition import PhaseView as PhaseView
    from ganglion.sdk.condition import TerminationCondition as TerminationCondition
    from ganglion.sdk.condition import WorkerView as WorkerView
    from ganglion.sdk.controller import Controller as Controller
    from ganglion.sdk.controller import ControllerBus as ControllerBus
    from ganglion.sdk.controller import EpisodeEnded as EpisodeEnded
    from ganglion.sdk.controller import Setpoints as Setpoints
    from ganglion.sdk.controller import StepResult as StepResult
    from ganglion.sdk.environment import Body as Body
    from ganglion.sdk.environment import Environment as Environment
    from ganglion.sdk.environment import EnvironmentBaseline as EnvironmentBaseline
    from ganglion.sdk.environment import EnvironmentState as EnvironmentState
    from ganglion.sdk.environment import EnvironmentStateTransformer as EnvironmentStateTransformer
    from ganglion.sdk.environment import ResetRequest as ResetRequest
    from ganglion.sdk.environment import Reward as Reward
    from ganglion.sdk.environment import StateTransformer as StateTransformer
    from ganglion.sdk.environment import StepBatch as StepBatch
    from ganglion.sdk.filter import Filter as Filter
    from ganglion.sdk.flow import Mode as Mode
    from ganglion.sdk.flow import Signal as Signal
    from ganglion.sdk.flow import SimTime as SimTime
    from ganglion.sdk.flow import SimulationFlowControl as SimulationFlowControl
    from ganglion.sdk.functional import FunctionalEnvironment as FunctionalEnvironment
    from ganglion.sdk.functional import FunctionalStep as FunctionalStep
    from ganglion.sdk.information import ActuatorInformation as ActuatorInformation
    from ganglion.sdk.information import Group as Group
    from ganglion.sdk.information import Information as Information
    from ganglion.sdk.information import RewardInformation as RewardInformation
    from ganglion.sdk.information import SensorInformation as SensorInformation
    from ganglion.sdk.information import Statistics as Statistics
    from ganglion.sdk.information import Template as Template
    from ganglion.sdk.information import bootstrap_mask as bootstrap_mask
    from ganglion.sdk.information import mask_columns as mask_columns
    from ganglion.sdk.information import resolve_flags as resolve_flags
    from ganglion.sdk.launcher import Launched as Launched
    from ganglion.sdk.launcher import Launcher as Launcher
    from ganglion.sdk.launcher import LaunchSpec as LaunchSpec
    from ganglion.sdk.launcher import LaunchWatch as LaunchWatch
    from ganglion.sdk.memory import Memory as Memory
    from ganglion.sdk.memory import MemoryShard as MemoryShard
    from ganglion.sdk.models import Models as Models
    from ganglion.sdk.models import digest_of as digest_of
    from ganglion.sdk.models import file_name as file_name
    from ganglion.sdk.models import load_arrays as load_arrays
    from ganglion.sdk.models import load_meta as load_meta
    from ganglion.sdk.models import save_arrays as save_arrays
    from ganglion.sdk.muscle import Batch as Batch
    from ganglion.sdk.muscle import ModelReader as ModelReader
    from ganglion.sdk.muscle import Muscle as Muscle
    from ganglion.sdk.muscle import Objective as Objective
    from ganglion.sdk.muscle import objective_value as objective_value
    from ganglion.sdk.muscle import read_batch_proposal as read_batch_proposal
    from ganglion.sdk.muscle import read_proposal as read_proposal
    from ganglion.sdk.part import Part as Part
    from ganglion.sdk.part import check_parameters as check_parameters
    from ganglion.sdk.part import construct as construct
    from ganglion.sdk.session import Session as Session
    from ganglion.sdk.spaces import Box as Box
    from ganglion.sdk.spaces import Dict as Dict
    from ganglion.sdk.spaces import Discrete as Discrete
    from ganglion.sdk.spaces import Mask as Mask
    from ganglion.sdk.spaces import MultiBinary as MultiBinary
    from ganglion.sdk.spaces import MultiDiscrete as MultiDiscrete
    from ganglion.sdk.spaces import Ragged as Ragged
    from ganglion.sdk.spaces import Space as Space
    from ganglion.sdk.spaces import Tuple as Tuple
    from ganglion.sdk.spaces import parse_space as parse_space
    from ganglion.sdk.spaces import space_from_wire as space_from_wire
    from ganglion.sdk.store import Observer as Observer
    from ganglion.sdk.store import Store as Store
    from ganglion.sdk.store import StoreReader as StoreReader
    from ganglion.sdk.store import StoreWriter as StoreWriter
    from ganglion.sdk.table import Table as Table
    from ganglion.sdk.table import TableRow as TableRow
    from ganglion.sdk.topic import Topics as Topics

_HOMES = {
    "ganglion.errors": "AuthorError GanglionError LaunchError LimitExceeded Nondeterministic "
    "OutOfActionSpaceError OutOfObservationSpaceError OutOfRewardSpaceError PluginInvalid SpaceError "
    "StoreError UsageError",
    "ganglion.sdk.brain": "Brain CheckpointableBrain EpisodeSummary Evaluation EvaluationResult LateCredit "
    "Transitions Update carries_update",
    "ganglion.sdk.condition": "EpisodeMeans EpisodeView EvaluationView PhaseView TerminationCondition WorkerView",
    "ganglion.sdk.part": "Part check_parameters construct",
    "ganglion.sdk.controller": "Controller ControllerBus EpisodeEnded Setpoints StepResult",
    "ganglion.sdk.environment": "Environment EnvironmentBaseline EnvironmentState "
    "EnvironmentStateTransformer Body ResetRequest Reward StateTransformer StepBatch",
    "ganglion.sdk.filter": "Filter",
    "ganglion.sdk.flow": "Mode Signal SimTime SimulationFlowControl",
    "ganglion.sdk.functional": "FunctionalEnvironment FunctionalStep",
    "ganglion.sdk.information": "ActuatorInformation Group Information RewardInformation "
    "SensorInformation Statistics Template bootstrap_mask mask_columns resolve_flags",
    "ganglion.sdk.launcher": "LaunchSpec LaunchWatch Launched Launcher",
    "ganglion.sdk.memory": "Memory MemoryShard",
    "ganglion.sdk.models": "Models digest_of file_name load_arrays load_meta save_arrays",
    "ganglion.sdk.muscle": "Batch ModelReader Muscle Objective objective_value read_batch_proposal read_proposal",
    "ganglion.sdk.session": "Session",
    "ganglion.sdk.spaces": "Box Dict Discrete Mask MultiBinary MultiDiscrete Ragged Space Tuple "
    "parse_space space_from_wire",
    "ganglion.sdk.store": "Observer Store StoreReader StoreWriter",
    "ganglion.sdk.table": "Table TableRow",
    "ganglion.sdk.topic": "Topics",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)  # noqa: PLE0605 - the names that a type checker sees above


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOME)
