"""What documents and classes written for palaestrAI need.

Documents: the table in `names`. Classes: the modules `agent`, `environment`, `types`, `simulation` and `experiment`
take the place of those of palaestrAI in the imports of a class that was written for it; every name of theirs can be
imported from here, too.
"""

from __future__ import annotations

import importlib
from typing import Any

# Module -> what it has. Each is loaded when it is first asked for: the command line reads `names` without numpy.
_EXPORTS = {
    "agent": (
        "ActuatorInformation", "Brain", "BrainDumper", "CheckpointableBrain", "EvaluationResult", "Filter", "Memory",
        "MemoryShard", "Muscle", "NoBrainFoundError", "Objective", "RewardInformation", "SensorInformation",
        "bootstrap_mask",
    ),
    "environment": (
        "Environment", "EnvironmentBaseline", "EnvironmentState", "EnvironmentStateTransformer", "ResetRequest",
        "Reward",
    ),
    "experiment": ("TerminationCondition",),
    "simulation": ("Agent", "AgentUpdateResponse", "FlowControlChange", "Setpoint", "SimulationController"),
    "types": (
        "Box", "Dict", "Discrete", "Mode", "MultiBinary", "MultiDiscrete", "OutOfActionSpaceError",
        "OutOfObservationSpaceError", "SimTime", "SimulationFlowControl", "Space", "Tuple",
    ),
}  # fmt: skip
_HOMES = {name: module for module, names in _EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
