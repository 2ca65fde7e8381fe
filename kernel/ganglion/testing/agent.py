"""An agent's parts outside a run, made from what a document says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ganglion import registry
from ganglion.errors import UsageError
from ganglion.sdk.information import ActuatorInformation, RewardInformation, SensorInformation
from ganglion.testing.stage import StagedAgent

__all__ = ["make_agent"]

_KEYS = ("name", "brain", "muscle", "objective", "filters", "sensors", "actuators")


def make_agent(
    definition: Mapping[str, Any],
    *,
    sensors: Sequence[SensorInformation],
    actuators: Sequence[ActuatorInformation],
    rewards: Sequence[RewardInformation],
    mode: str = "train",
    seed: int = 1,
    models: Path | None = None,
    load: Path | None = None,
    folder: str = "",
    allow: Sequence[str] = (),
) -> StagedAgent:
    """Make an agent as a document defines it, without a run: `begin`, `step`, `store` and `close` it yourself.

    Args:
        definition: An entry of `agents`: `muscle`, `objective`, `brain` (absent, null or `none`: nobody learns) and
            `filters`, each a name, or a map {name, params}. Sensors and actuators that it names are all of those given.
        sensors: What it sees, with full ids.
        actuators: What it sets; values are their no-ops.
        rewards: What its objective judges.
        mode: `train`, `test` or `evaluate`.
        seed: Of the run.
        models: The folder where the brain stores.
        load: The folder of a model to begin with.
        folder: Where import paths of the definition begin.
        allow: Packages that import paths may name.

    Raises:
        UsageError: The definition has a key that no agent has.
        PluginInvalid: A name means no plugin, or a class that does not fit.
    """
    strange = [key for key in definition if key not in _KEYS]
    if strange:
        raise UsageError(f"definition: expected keys of {', '.join(_KEYS)}, found {strange[0]!r}")

    def part(kind: str, given: Any) -> tuple[Any, dict[str, Any]]:
        plugin: Any = {"name": given} if isinstance(given, str) else given
        if not isinstance(plugin, Mapping) or not isinstance(plugin.get("name"), str):
            raise UsageError(
                f"definition.{kind}: expected the name of a plugin, or a map {{name, params}}, found {given!r:.80}"
            )
        name, params = plugin["name"], plugin.get("params") or {}
        return registry.load(kind, name, folder=folder, allow=tuple(allow)), dict(params)

    muscle, muscle_params = part("muscle", definition.get("muscle"))
    objective, objective_params = part("objective", definition.get("objective") or "aggregate_rewards")
    learner = definition.get("brain")
    brain, brain_params = (None, {}) if learner in (None, "none") else part("brain", learner)
    return StagedAgent(
        muscle,
        sensors=sensors,
        actuators=actuators,
        rewards=rewards,
        objective=objective,
        brain=brain,
        muscle_params=muscle_params,
        objective_params=objective_params,
        brain_params=brain_params,
        filters=[part("filter", given) for given in definition.get("filters") or ()],
        mode=mode,
        seed=seed,
        models=models,
        load=load,
    )
