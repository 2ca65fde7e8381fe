"""The check that needs the plugins: done in a child, so that no code of plugins runs in the supervisor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgpack

from ganglion import registry
from ganglion.errors import DocumentError, PluginInvalid, StoreError
from ganglion.peer.models import ModelStore, store_class
from ganglion.run.agents import blind, groups_of_bodies, replaying, with_groups_of
from ganglion.run.plan import (
    REPLAY,
    AgentPlan,
    EnvironmentPlan,
    PhasePlan,
    Plan,
    PluginPlan,
    budgets_end,
    conditions_of,
)
from ganglion.sdk.launcher import CREDENTIALS
from ganglion.sdk.naming import nearest
from ganglion.synced import write_synced

STORE = "store"  # key beside those of a plan: the URI of the store, where it may be read
RESULTS = "results"  # likewise: the folder of results, unless runs that go on may still leave models there
TRIED = "tried"  # likewise: that who asks starts all environments, and calls `fit_bodies` with what they declare

_TRIAL = "ganglion.cli.child"  # what starts an environment once, and says what it declares
_TRIALS_AT_ONCE = 4
_TRIAL_S = 45.0  # who needs longer says what is wrong in the run
_Advice = tuple[str, str, str]  # place, message, severity


def inspect(tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the faults and warnings that the plugins themselves find in a plan, which `Plan.to_map` has made a tree.

    Imports authors' modules and makes their conditions: to be called in a child process.
    """
    plan = {key: value for key, value in tree.items() if key not in (STORE, RESULTS, TRIED)}
    found = [*_store(plan, tree.get(STORE), tree.get(RESULTS)), *registry.deep_check(plan), *advise(plan)]
    for more in (partial(_sources, plan, tree), *([] if TRIED in tree else [partial(fit_bodies, plan)])):
        if not any(row["severity"] == "error" for row in found):
            found += more()
    return found


def _store(tree: Mapping[str, Any], uri: str | None, results: str | None) -> list[dict[str, Any]]:
    """Return what keeps a store from taking the run, or which models of earlier runs are nowhere.

    Code of authors, which comes later, finds no way into the store.
    """
    try:
        if uri:
            store_class(uri).check(uri)
        if results is not None:
            models = ModelStore(Plan.from_map(dict(tree)), "", str(Path(results, "-")), uri, print)
            return [registry.fault(at, text) for at, text in models.faults()]
    except StoreError as error:
        return [registry.fault("--store", str(error))]
    finally:
        for name in CREDENTIALS:
            os.environ.pop(name, None)
    return []


def _sources(tree: Mapping[str, Any], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the faults of recorded episodes that a plan names, where the store of the run is known."""
    from ganglion.peer.agent.replay import plays  # needs numpy

    plan = Plan.from_map(dict(tree))
    if STORE not in given or not any(replaying(phase) or plays(phase) for phase in plan.phases):
        return []
    found = registry.load("replay", REPLAY).faults(plan, given[STORE])
    return [registry.fault(at, text) for at, text in found]


# -- what bodies may be -----------------------------------------------------------------------------------------------
def fit_bodies(tree: Mapping[str, Any], declared: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return faults of bodies that are known when their environments have told what they declare.

    `declared` is what they have told, by `EnvironmentPlan.trial`. Without it each that matters is started once, in a
    process of its own. Of one that is no plugin of ours, that plays what is recorded, or that cannot be started,
    nothing is known: the run says what is wrong.
    """
    plan = Plan.from_map(dict(tree))
    if declared is None:
        declared = _declared({**tree, "document": ""}, _wanted(plan))
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for phase in plan.phases if declared else ():
        told = {e.uid: one for e in phase.environments if (one := declared.get(e.trial())) is not None}
        for at, text in _misfits(plan, phase, told):
            found.setdefault((at, text), registry.fault(at, text))
    return list(found.values())


def _wanted(plan: Plan) -> dict[str, tuple[PhasePlan, EnvironmentPlan]]:
    """Return the environments whose declarations decide whether bodies fit, by their trials."""
    wanted: dict[str, tuple[PhasePlan, EnvironmentPlan]] = {}
    for phase in plan.phases if any(phase.bodies is not None for phase in plan.phases) else ():
        known = {environment.uid: environment for environment in phase.environments}
        uids = {body.environment for body in phase.all_bodies if body.between == "zero"}
        for agent in phase.agents:
            uids |= _several(phase, agent) if _blind(plan, agent) else set()
        tried = [known[uid] for uid in uids if known[uid].plugin is not None and not _plays(known[uid])]
        wanted |= {environment.trial(): (phase, environment) for environment in tried}
    return wanted


def _misfits(plan: Plan, phase: PhasePlan, declared: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield place and text of what does not fit what these environments declare."""
    from ganglion.peer.step.layout import zero_outside  # needs numpy
    from ganglion.sdk.spaces import space_from_wire

    for uid in declared:
        with suppress(DocumentError):  # which the start of the phase tells
            declared[uid] = with_groups_of(phase, uid, declared[uid])
    for body in phase.all_bodies:
        if body.between == "zero" and body.environment in declared:
            rows = declared[body.environment]["actuators"]
            spaces = [(row["id"], space_from_wire(row["space"])) for row in rows]
            text = zero_outside(body.agent, body.environment, None if body.most else body.b, spaces)
            yield from [] if text is None else [(body.between_at, text)]
    for agent in phase.agents:
        uids = _places(phase, agent)
        groups = groups_of_bodies(phase, declared, agent) if uids <= declared.keys() else []
        if len(groups) > 1:
            yield from ((at, blind(agent.name, groups, what)) for at, what in _blind(plan, agent))


def _places(phase: PhasePlan, agent: AgentPlan) -> set[str]:
    """Return the environments of an agent's bodies."""
    return {body.environment for body in phase.all_bodies if body.agent == agent.name}


def _several(phase: PhasePlan, agent: AgentPlan) -> set[str]:
    """Return the environments of an agent's bodies where they may declare different things."""
    uids = _places(phase, agent)
    forms = {replace(e, uid="").trial() for e in phase.environments if e.uid in uids}
    named = agent.sensors or agent.actuators or agent.rewards or any(body.group for body in phase.bodies or ())
    return uids if len(uids) > 1 and (named or len(forms) > 1) else set()


def _blind(plan: Plan, agent: AgentPlan) -> list[tuple[str, str]]:
    """Return the parts of an agent that take bodies of one group alone, each with its place."""
    from ganglion.peer.step.arrays import takes_arrays

    found: list[tuple[str, str]] = []
    if agent.brain is not None and not registry.load("brain", agent.brain.name, plan.folder, plan.allow).takes_groups:
        found.append((agent.brain.at, f"brain {agent.brain.name}"))
    if agent.muscle is not None:
        muscle = registry.load("muscle", agent.muscle.name, plan.folder, plan.allow)
        if takes_arrays(muscle) and not muscle.takes_groups:
            found.append((agent.muscle.at, f"muscle {agent.muscle.name}"))
    return found


def _declared(tree: Mapping[str, Any], wanted: Mapping[str, tuple[PhasePlan, EnvironmentPlan]]) -> dict[str, Any]:
    """Start environments once, a few at a time, and return what they declare."""
    found: dict[str, Any] = {}
    orders = list(wanted.items())
    for begin in range(0, len(orders), _TRIALS_AT_ONCE):
        with ExitStack() as stack:
            children = []
            for key, (phase, environment) in orders[begin : begin + _TRIALS_AT_ONCE]:
                order = {"plan": tree, "phase": phase.index, "environment": environment.uid, "worker": 0}
                source, sink = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
                source.write(json.dumps({"trial": order}).encode())
                source.seek(0)
                child = subprocess.Popen([sys.executable, "-P", "-m", _TRIAL], stdin=source, stdout=sink)
                stack.callback(child.kill)
                children.append((key, child, sink))
            until_s = time.monotonic() + _TRIAL_S
            for key, child, sink in children:
                with suppress(subprocess.TimeoutExpired, ValueError):
                    if child.wait(max(0.0, until_s - time.monotonic())) == 0:
                        sink.seek(0)
                        told = json.loads(sink.read())
                        found |= {} if "message" in told else {key: told}
    return found


def advise(tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return faults of conditions that cannot be made and that `registry.deep_check` does not find, and warnings."""
    plan = Plan.from_map(dict(tree))
    found = dict.fromkeys(advice for phase in plan.phases for advice in _advise_phase(plan, phase))
    return [registry.fault(at, message, severity) for at, message, severity in found]


def _advise_phase(plan: Plan, phase: PhasePlan) -> Iterator[_Advice]:
    spans: list[dict[str, int | None]] = []
    for worker in range(phase.workers if any(e.per_worker for e in phase.environments) else 1):
        spans.append({})
        for environment in phase.environments:
            spans[-1][environment.uid], error = _longest(plan, environment, worker)
            if error and environment.plugin is not None:
                yield environment.plugin.at, error, "warning"
    if phase.bodies is not None:  # how its ticks are meant is in the params of its controller
        _, error = _made(plan, "controller", phase.controller, phase)
        yield from [(phase.controller.at, error, "error")] if error else []
    yield from _advise_tables(plan, phase)
    listed = [("episode", plugin) for plugin in phase.episode_conditions]
    listed += [("phase", plugin) for plugin in phase.phase_conditions]
    made = [(part, plugin, *_made(plan, "condition", plugin, phase)) for part, plugin in listed]
    enders = [condition for part, _, condition, _ in made if part == "phase"]
    limits = any(condition is not None and "episodes" in condition.reads for condition in enders)
    document = {
        **phase.outline(),
        "longest_episode": _longest_of_all([c for _, _, c, _ in made if c is not None and "ended" in c.reads], spans),
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
    if not enders or None in enders:
        return
    at = phase.phase_conditions[0].at
    if phase.bodies is not None:
        seen = {body.environment for body in phase.bodies}
        budgets = {
            e.uid: (e.budget_steps or e.budget_episodes) is not None or _plays(e)
            for e in phase.environments
            if e.uid in seen
        }
        conditions = [(plugin.name, condition, part) for part, plugin, condition, _ in made if condition is not None]
        if not budgets_end(budgets, phase.end) and not conditions_of(phase, conditions):
            names = ", ".join(f"`{plugin.name}`" for plugin in phase.phase_conditions)
            text = (
                f"nothing can end phase `{phase.name}`: with bodies {names} say no more than budgets, which are missing"
            )
            yield at, text, "error"
        return
    if any(_plays(environment) for environment in phase.environments):
        return
    if phase.episodes is None and all("episodes" in condition.reads for condition in enders):
        yield at, f"nothing ends phase `{phase.name}`: neither `episodes` nor another condition", "warning"
    elif phase.episodes is not None and not limits:
        yield at, f"no condition of phase `{phase.name}` reads `episodes`", "warning"


def _advise_tables(plan: Plan, phase: PhasePlan) -> Iterator[_Advice]:
    """Yield what is wrong with tables, and brains that would ask for one that does not serve them."""
    for table in phase.tables:
        if table.plugin is not None:
            _, error = _made(plan, "table", table.plugin, phase)
            yield from [(table.plugin.at, error, "error")] if error else []
    for agent in phase.agents if phase.mode == "train" else ():
        if agent.brain is None:
            continue
        served = [table.uid for table in phase.tables if agent.name in table.serve]
        asked: Sequence[str] = ()
        with suppress(Exception):  # a class that cannot be loaded has a fault of its own; so has a parameter
            asked = registry.load("brain", agent.brain.name, plan.folder, plan.allow).asks(**agent.brain.params)
        for uid in asked:
            if uid not in served:
                those = f"{', '.join(map(repr, served)) or 'none'}{nearest(uid, served)}"
                text = f"brain `{agent.brain.name}` asks the table `{uid}`, and agent `{agent.name}` is served by"
                yield agent.brain.at, f"{text} {those}", "error"


def _plays(environment: EnvironmentPlan) -> bool:
    """Say whether an environment plays recorded episodes: all of them once is its budget."""
    return environment.plugin is not None and registry.plays(environment.plugin.name)


def _longest(plan: Plan, environment: EnvironmentPlan, worker: int) -> tuple[int | None, str]:
    """Return the longest episode of an environment in a worker, and what its class did wrong when asked."""
    from ganglion.sdk.part import check_parameters  # needs numpy, which the supervisor must not import

    if environment.plugin is None:
        return None, ""
    name, params = environment.plugin.name, environment.params_of(worker)
    try:
        cls = registry.load("environment", name, plan.folder, plan.allow)
        check_parameters(cls, params)
        steps = cls.longest_episode(**params)
    except PluginInvalid:
        return None, ""
    except Exception as error:  # noqa: BLE001 - authors' code may raise anything; it is told
        return None, f"environment `{name}`: longest_episode raised {_text(error)}"
    if steps is None or (type(steps) is int and steps >= 1):
        return steps, ""
    return None, f"environment `{name}`: longest_episode: expected steps >= 1 or None, found {steps!r:.80}"


def _longest_of_all(conditions: Sequence[Any], spans: Sequence[Mapping[str, int | None]]) -> int | None:
    """Return the longest episode of any worker (`spans`: uid -> longest), None if that of one is unknown.

    Without a condition that reads `ended`, the first environment that ends also ends the episode.
    """
    longest = 0
    for steps in spans:
        known = [condition.longest_episode(steps) for condition in conditions] if conditions else steps.values()
        span = min((span for span in known if span is not None), default=None)
        if span is None:
            return None
        longest = max(longest, span)
    return longest or None


def _made(plan: Plan, kind: str, plugin: PluginPlan, phase: PhasePlan) -> tuple[Any, str]:
    """Return a condition or a controller as the run will make it, or None and why it cannot be made."""
    from ganglion.sdk.flow import Mode
    from ganglion.sdk.part import construct  # likewise
    from ganglion.sdk.seed import generator_from_words, integer_from_words, words

    stream = words(int(plan.seed), ["phase", phase.name, kind, plugin.name])
    seed, mode, params = integer_from_words(stream), Mode(phase.mode), plugin.params
    attributes = {
        "name": plugin.name,
        "mode": mode,
        "seed": seed,
        "rng": generator_from_words(stream),
        "params": params,
    }
    try:
        cls = registry.load(kind, plugin.name, plan.folder, plan.allow)
        return construct(cls, params, {"uid": "", "seed": seed, "broker_uri": ""}, attributes), ""
    except PluginInvalid:
        return None, ""
    except Exception as error:  # noqa: BLE001 - likewise
        return None, f"{kind} `{plugin.name}`: {_text(error)}"


def _warnings(plugin: PluginPlan, condition: Any, document: Mapping[str, Any]) -> Iterator[_Advice]:
    try:
        yield from [(plugin.at, str(message), "warning") for message in condition.warnings(document)]
    except ValueError as error:  # it refuses the phase
        yield plugin.at, f"condition `{plugin.name}`: {_text(error)}", "error"
    except Exception as error:  # noqa: BLE001 - likewise
        yield plugin.at, f"condition `{plugin.name}`: its warnings raised {_text(error)}", "warning"


def _text(error: Exception) -> str:
    """Return an exception as a sentence, with the author's line unless it only refuses a value."""
    if isinstance(error, ValueError) and str(error):
        return str(error)
    text = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno})" if frames else text


def main(variables: dict[str, str]) -> int:
    """Check the plan in the file `GANGLION_CHECK`, write faults beside it as `GANGLION_FAULTS`: a process's entry."""
    os.environ.update({name: variables[name] for name in CREDENTIALS if name in variables})
    faults = inspect(msgpack.unpackb(Path(variables["GANGLION_CHECK"]).read_bytes()))
    write_synced(Path(variables["GANGLION_FAULTS"]), msgpack.packb(faults), 0o600)
    return 0


if __name__ == "__main__":
    sys.exit(main(dict(os.environ)))
