"""What is allowed in a document and yet looks like a mistake: the run starts, the author is told."""

from __future__ import annotations

from collections.abc import Iterator

from ganglion import __version__
from ganglion.document.cascade import Expanded
from ganglion.document.check import AVERAGE, conditions_of
from ganglion.document.fault import Fault
from ganglion.document.marks import Node
from ganglion.document.recording import in_vain

__all__ = ["warnings"]

_READS_EPISODES = frozenset({"max_episodes", "vanilla"})
_NEVER = "condition can never fire"


def warnings(root: Node, phases: list[Expanded], versions: frozenset[str] = frozenset()) -> list[Fault]:
    """Return the warnings of a normalised document without faults and its expanded phases.

    `versions` are those of another project for which the document may have been written, as `major.minor`.
    """
    found = [_version(root, versions)]
    for index, phase in enumerate(phases):
        found += phase.faults
        found += [*_episodes(root, phase), *_without_effect(phase), *_evaluations(phase)]
        found += _objectives(root, phase)
        found += _unread(phase)
        found += _loads(phases[:index], phase)
        found += in_vain(phase)
        found += _blind(phases[:index], phase)
    return [fault for fault in found if fault is not None]


def _warn(node: Node, message: str) -> Fault:
    return node.fault(message, "warning")


def _number(node: Node | None) -> float | None:
    """Return the number that stands at a node, None where there is none."""
    value = None if node is None else node.value
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _config(phase: Expanded, key: str) -> Node | None:
    return None if phase.config is None else phase.config.map.get(key)


def _version(root: Node, versions: frozenset[str]) -> Fault | None:
    """Return the warning about a version that is not this one: another major or minor, none, or a number."""
    node = root.map.get("version")
    ours = ".".join(__version__.split(".")[:2])
    if node is None:
        return _warn(
            root,
            f"no `version`: expected the version of Ganglion it was written for, such as {__version__!r}",
        )
    theirs = ".".join(str(node.value).split(".")[:2])
    if theirs in versions:
        return None
    if not isinstance(node.value, str):
        return _warn(node, f"expected the version as text, found {node.found()}; write it in quotes")
    return None if theirs == ours else _warn(node, f"written for version {node.value}, this is {__version__}")


def _episodes(root: Node, phase: Expanded) -> Iterator[Fault]:
    """Yield a warning where `episodes` is given and nothing reads it, or nothing will ever end the phase."""
    episodes = _config(phase, "episodes")
    conditions = conditions_of(root, phase)[1]
    readers = [condition for condition in conditions if condition.text("name") in _READS_EPISODES]
    if episodes is not None and episodes.value is not None and _number(episodes) is None:
        return  # what it says is an error
    if episodes is None or episodes.value is None:
        if len(readers) == len(conditions):
            yield _warn(
                phase.mark, f"nothing ends phase `{phase.name}`: neither `episodes` nor another condition"
            )
    elif not readers:
        yield _warn(
            episodes, "`episodes` is read by the condition `max_episodes` only, which this phase has not"
        )


def _without_effect(phase: Expanded) -> Iterator[Fault]:
    """Yield warnings about keys of `phase_config` that change nothing, or give results that differ each time."""
    raw, sync = _config(phase, "store_raw_actuators"), _config(phase, "sync")
    if raw is not None:
        yield _warn(raw, "`store_raw_actuators` has no effect: what a muscle proposed is always stored")
    if sync is not None and sync.value == "async":
        yield _warn(sync, "`sync: async` is not reproducible: updates come in order of arrival")


def _evaluations(phase: Expanded) -> Iterator[Fault]:
    """Yield warnings about evaluations that never come."""
    every, mode = _config(phase, "evaluate_every"), _config(phase, "mode")
    period = _number(every)
    given = phase.given.map.get("phase_config")
    if every is None or period is None or given is None or "evaluate_every" not in given.map:
        return  # what a phase merely inherits was meant for another one
    if mode is not None and mode.value != "train":
        yield _warn(every, "this phase does not train: there is never an evaluation")
    most = (_number(_config(phase, "episodes")) or 0) * (_number(_config(phase, "worker")) or 1)
    if most and period > most:
        yield _warn(every, f"there is never an evaluation: this phase has at most {most:g} episodes")


def _objectives(root: Node, phase: Expanded) -> Iterator[Fault]:
    """Yield warnings about criteria on objectives that can never be met, or hardly in the way that was meant."""
    steps, episodes = _longest(root, phase), _limit(root, phase)
    brains = _brains(root, phase)
    for conditions in conditions_of(root, phase):
        for condition in conditions:
            name = condition.text("name")
            if name == "evaluation_objective" and _number(_config(phase, "evaluate_every")) is None:
                yield _warn(condition, f"{_NEVER}: without `evaluate_every` there is no evaluation")
            for agent, criteria in _criteria(condition):
                decisions = _decisions(phase, agent, steps)
                yield from _averages(criteria, brains.get(agent, []), steps, decisions, episodes)


def _brains(root: Node, phase: Expanded) -> dict[str, list[float]]:
    """Return the numbers of the `brain_avgN` of each agent, of all conditions: each ends the agent's episodes."""
    found: dict[str, list[float]] = {}
    for conditions in conditions_of(root, phase):
        for condition in conditions:
            for agent, criteria in _criteria(condition):
                numbers = [_number(node) for key, node in criteria.map.items() if key.startswith("brain")]
                found.setdefault(agent, []).extend(number for number in numbers if number is not None)
    return found


def _criteria(condition: Node) -> list[tuple[str, Node]]:
    """Return agent and criteria of each agent in an `agent_objective`."""
    if condition.text("name") != "agent_objective" or "params" not in condition.map:
        return []
    return list(condition.map["params"].map.items())


def _limit(root: Node, phase: Expanded) -> float | None:
    """Return after how many episodes of each worker the phase ends, None where nothing reads `episodes`."""
    readers = [c for c in conditions_of(root, phase)[1] if c.text("name") in _READS_EPISODES]
    return _number(_config(phase, "episodes")) if readers else None


def _decisions(phase: Expanded, agent: str, steps: float | None) -> float | None:
    """Return how many decisions an agent has in so many steps: under `taking_turns` each has a share of them."""
    names = list(phase.agents)
    turns = phase.simulation is not None and phase.simulation.text("name") == "taking_turns"
    if steps is None or not turns or agent not in names:
        return steps
    return max(0, -(-(steps - names.index(agent)) // len(names)))


def _averages(
    criteria: Node, brain: list[float], steps: float | None, decisions: float | None, episodes: float | None
) -> Iterator[Fault]:
    """Yield warnings about one agent's `brain_avgN` and `phase_avgN`."""
    found = [(m[1], int(m[2]), mark) for key, mark in criteria.keys.items() if (m := AVERAGE.match(key))]
    numbers = {key: value for key, node in criteria.map.items() if (value := _number(node)) is not None}
    for kind, n, mark in found:
        key = str(mark.value)
        if kind == "brain":
            if decisions is not None and n > decisions:
                share = "" if decisions == steps else f", {decisions:g} of them in this agent's turns"
                needs = f"{key} needs {n} decisions per episode, max_steps ends it after {steps:g}{share}"
                yield _warn(mark, f"{_NEVER}: {needs}")
            continue
        if episodes is not None and n > episodes:
            yield _warn(
                mark, f"{_NEVER}: {key} needs {n} episodes, max_episodes ends the phase after {episodes:g}"
            )
        if not brain:
            yield _warn(mark, f"{key} without a brain_avgN of this agent: palaestrAI needs one")
        elif key in numbers and numbers[key] >= min(brain):
            usual = (
                "an episode ends when its last values reach that, the mean of all of them is usually below"
            )
            yield _warn(mark, f"{key}: {numbers[key]:g} beside a brain_avgN of {min(brain):g}: {usual}")


def _longest(root: Node, phase: Expanded) -> float | None:
    """Return after how many steps `max_steps` ends an episode, None where it does not."""
    found = []
    for conditions in conditions_of(root, phase):
        for condition in conditions:
            if condition.text("name") == "max_steps" and "params" in condition.map:
                found.append(_number(condition.map["params"].map.get("steps")))
    return min((steps for steps in found if steps is not None), default=None)


def _unread(phase: Expanded) -> Iterator[Fault]:
    """Yield a warning for each phase-level criterion among the episode-level conditions."""
    conditions = phase.simulation.map.get("conditions") if phase.simulation is not None else None
    for condition in conditions.items if conditions is not None else []:
        name = condition.text("name")
        if name in ("max_episodes", "evaluation_objective"):
            yield _warn(condition, f"`{name}` is not read among `simulation.conditions`: it is phase-level")
        if condition.text("name") == "agent_objective" and "params" in condition.map:
            for criteria in condition.map["params"].map.values():
                for key, mark in criteria.keys.items():
                    if key.startswith("phase_avg"):
                        yield _warn(
                            mark, f"`{key}` is not read among `simulation.conditions`: it is phase-level"
                        )


def _blind(earlier: list[Expanded], phase: Expanded) -> Iterator[Fault]:
    """Yield a warning for each agent with a brain that sees and sets nothing; once, since phases inherit."""
    for name, agent in phase.agents.items():
        brain = agent.map.get("brain")
        learns = brain is not None and brain.value is not None and brain.text("name") != "none"
        given = [agent.map[key].items for key in ("sensors", "actuators") if key in agent.map]
        if learns and not any(given) and not any(name in before.agents for before in earlier):
            yield _warn(
                agent, f"agent `{name}` has neither `sensors` nor `actuators`: it sees and sets nothing"
            )


def _loads(earlier: list[Expanded], phase: Expanded) -> Iterator[Fault]:
    """Yield a warning where `load: {}` finds no earlier phase of its agent, or keys stand beside `agent: ~`."""
    for name, agent in phase.agents.items():
        load = agent.map.get("load")
        if load is not None and load.value == {} and not any(name in before.agents for before in earlier):
            yield _warn(load, f"no earlier phase has the agent `{name}`: it starts fresh")
        if load is not None and "agent" in load.map and load.map["agent"].value is None:
            vain = [key for key in load.map if key not in ("agent", "optional")]
            if vain:
                yield _warn(load, f"`agent: ~` starts fresh: `{vain[0]}` has no effect")
