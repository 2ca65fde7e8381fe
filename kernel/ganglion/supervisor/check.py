"""The check that needs the plugins: done in a child, so that no code of theirs runs where processes are started."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgpack

from ganglion import registry
from ganglion.errors import PluginInvalid
from ganglion.run.outline import outline
from ganglion.run.plan import EnvironmentPlan, PhasePlan, Plan, PluginPlan
from ganglion.supervisor.connection import write_private

VARIABLE = "GANGLION_CHECK"  # the private folder through which plan and faults go
PLAN, FAULTS = "plan.msgpack", "faults.msgpack"


def write_plan(folder: Path, plan: dict[str, Any]) -> None:
    """Write the plan that the child is to check."""
    write_private(folder / PLAN, msgpack.packb(plan))


def read_faults(folder: Path) -> list[dict[str, Any]] | None:
    """Return what the child found and remove both files; None if it has ended without a result."""
    try:
        found: list[dict[str, Any]] = msgpack.unpackb((folder / FAULTS).read_bytes())
    except (OSError, ValueError):
        return None
    finally:
        for name in (PLAN, FAULTS):
            (folder / name).unlink(missing_ok=True)
    return found


_Advice = tuple[str, str, str]  # place, message, severity


def inspect(tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the faults and warnings that the plugins themselves find in a plan, which `Plan.to_map` has made a tree.

    Imports authors' modules and makes their conditions: to be called in a child process.
    """
    return [*registry.deep_check(tree), *advise(tree)]


def advise(tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return faults of conditions that cannot be made and that `registry.deep_check` does not find, and warnings."""
    plan = Plan.from_map(dict(tree))
    found: dict[_Advice, None] = {}
    for phase in plan.phases:
        for advice in _advise_phase(plan, phase):
            found.setdefault(advice)
    return [registry.fault(at, message, severity) for at, message, severity in found]


def _advise_phase(plan: Plan, phase: PhasePlan) -> Iterator[_Advice]:
    spans: list[dict[str, int | None]] = []
    for worker in range(phase.workers if any(e.per_worker for e in phase.environments) else 1):
        span: dict[str, int | None] = {}
        for environment in phase.environments:
            span[environment.uid], error = _longest(plan, environment, worker)
            if error and environment.plugin is not None:
                yield environment.plugin.at, error, "warning"
        spans.append(span)
    listed = [("episode", plugin) for plugin in phase.episode_conditions]
    listed += [("phase", plugin) for plugin in phase.phase_conditions]
    made = [(part, plugin, *_condition(plan, plugin, phase)) for part, plugin in listed]
    conditions = [condition for _, _, condition, _ in made if condition is not None]
    enders = [condition for part, _, condition, _ in made if part == "phase"]
    limits = any(condition is not None and "episodes" in condition.reads for condition in enders)
    document = {
        **outline(phase),
        "longest_episode": _of_all(conditions, spans),
        "episode_limit": phase.episodes if limits else None,
        "known_agents": sorted({agent.name for other in plan.phases for agent in other.agents}),
    }
    for part, plugin, condition, error in made:
        if condition is None:
            yield from [(plugin.at, error, "error")] if error else []
        elif part == "episode" and condition.has_phase_part() and not condition.has_episode_part():
            text = f"`{plugin.name}` is not read among `simulation.conditions`: it is phase-level"
            yield plugin.at, text, "warning"
        else:
            yield from _warnings(plugin, condition, {**document, "part": part})
    if enders and None not in enders:
        yield from _endless(phase, enders, limits)


def _longest(plan: Plan, environment: EnvironmentPlan, worker: int) -> tuple[int | None, str]:
    """Return the longest episode of an environment in a worker, and what its class did wrong when asked."""
    from ganglion.sdk.part import check_parameters  # needs numpy, which the supervisor must not import

    if environment.plugin is None:
        return None, ""
    name = environment.plugin.name
    params = environment.params_of(worker)
    try:
        cls = registry.load("environment", name, plan.folder, plan.allow)
        check_parameters(cls, params)
    except PluginInvalid:
        return None, ""
    try:
        steps = cls.longest_episode(**params)
    except Exception as error:  # noqa: BLE001 - authors' code may raise anything; it is told
        return None, f"environment `{name}`: longest_episode raised {_text(error)}"
    if steps is None or (type(steps) is int and steps >= 1):
        return steps, ""
    return (None, f"environment `{name}`: longest_episode: expected steps >= 1 or None, found {steps!r:.80}")


def _condition(plan: Plan, plugin: PluginPlan, phase: PhasePlan) -> tuple[Any, str]:
    """Return a condition as the run will make it, or None and why it cannot be made."""
    try:
        cls = registry.load("condition", plugin.name, plan.folder, plan.allow)
        return _make(cls, plugin, phase, int(plan.seed)), ""
    except PluginInvalid:
        return None, ""
    except Exception as error:  # noqa: BLE001 - likewise
        return None, f"condition `{plugin.name}`: {_text(error)}"


def _endless(phase: PhasePlan, enders: Sequence[Any], limits: bool) -> Iterator[_Advice]:
    at = phase.phase_conditions[0].at
    if phase.episodes is None and all("episodes" in condition.reads for condition in enders):
        yield at, f"nothing ends phase `{phase.name}`: neither `episodes` nor another condition", "warning"
    elif phase.episodes is not None and not limits:
        yield at, f"no condition of phase `{phase.name}` reads `episodes`", "warning"


def _warnings(plugin: PluginPlan, condition: Any, document: Mapping[str, Any]) -> Iterator[_Advice]:
    try:
        said = list(condition.warnings(document))
    except ValueError as error:  # it refuses the phase
        yield plugin.at, f"condition `{plugin.name}`: {_text(error)}", "error"
        return
    except Exception as error:  # noqa: BLE001 - likewise
        yield plugin.at, f"condition `{plugin.name}`: its warnings raised {_text(error)}", "warning"
        return
    for message in said:
        yield plugin.at, str(message), "warning"


def longest_episode(conditions: Sequence[Any], steps: Mapping[str, int | None]) -> int | None:
    """Return after how many steps environments (uid -> longest episode) have ended every episode, None if unknown."""
    listed = [condition for condition in conditions if "ended" in condition.reads]
    if not listed:  # the first environment that ends also ends the episode if nothing else is said
        return min((span for span in steps.values() if span is not None), default=None)
    spans = [condition.longest_episode(steps) for condition in listed]
    return min((span for span in spans if span is not None), default=None)


def _of_all(conditions: Sequence[Any], spans: Sequence[Mapping[str, int | None]]) -> int | None:
    """Return the longest episode of any worker, None if one of them is unknown."""
    found = [longest_episode(conditions, span) for span in spans]
    known = [span for span in found if span is not None]
    return max(known, default=None) if len(known) == len(found) else None


def _make(cls: type[Any], plugin: PluginPlan, phase: PhasePlan, seed: int) -> Any:
    from ganglion.sdk.flow import Mode
    from ganglion.sdk.part import construct  # likewise
    from ganglion.sdk.seed import generator_from_words, integer_from_words, words

    stream = words(seed, ["phase", phase.name, "condition", plugin.name])
    attributes = {
        "name": plugin.name,
        "mode": Mode(phase.mode),
        "seed": integer_from_words(stream),
        "rng": generator_from_words(stream),
        "params": plugin.params,
    }
    return construct(cls, plugin.params, {"uid": "", "seed": attributes["seed"], "broker_uri": ""}, attributes)


def _text(error: Exception) -> str:
    """Return an exception as a sentence, with the author's line unless it only refuses a value."""
    if isinstance(error, ValueError) and str(error):
        return str(error)
    text = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    return text if last is None else f"{text} ({last.filename}:{last.lineno})"


def main(variables: dict[str, str]) -> int:
    """Check the plan in the folder; the entry of the child's process."""
    folder = Path(variables[VARIABLE])
    faults = inspect(msgpack.unpackb((folder / PLAN).read_bytes()))
    write_private(folder / FAULTS, msgpack.packb(faults))
    return 0


if __name__ == "__main__":
    sys.exit(main(dict(os.environ)))
