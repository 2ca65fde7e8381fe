"""Trials: each environment of a plan started once, and what agents ask of it compared with what it declares."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from ganglion import registry
from ganglion.cli.child import Children
from ganglion.limits import DEADLINE_OTHER_S, DEADLINES_S
from ganglion.run.agents import ResolvedAgent, misfits, resolve, same_declarations
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, span_s
from ganglion.supervisor.child import exit_text

CHILD = "ganglion.cli.deep"
_IMPORT_S = 120.0  # importing torch from a cold disk takes tens of seconds
_AT_ONCE_MAX = 4  # each may be a simulator that takes a processor and much memory
_HANGS = "Timeout ("  # how faulthandler begins what it writes before it ends a process


def try_environments(
    plan: Plan, faults: Sequence[Mapping[str, Any]] = (), pairs: list[dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Start each environment of a plan once, in a process of its own, and return what is wrong as maps of faults.

    Told are what the author's code raises, values outside their spaces, workers that declare otherwise, and ids that
    nobody declares. An environment with `command` or `attach` is left out: its ids are unknown before it runs, and
    pass. Tracebacks go to standard error.

    Args:
        plan: Of a document without other faults.
        faults: Of plugins that cannot be loaded, or not with their parameters; they are left out, too.
        pairs: Filled with the brains of agents whose spaces are known by then, and with these, as questions.
    """
    shut = [_place(fault) for fault in faults]
    orders: dict[str, dict[str, Any]] = {}
    tree = {**plan.to_map(), "document": ""}
    for phase in plan.phases:
        for environment in phase.environments:
            for worker in _variants(phase, environment) if _can_start(environment, shut) else []:
                order = {"phase": phase.index, "environment": environment.uid, "worker": worker}
                orders.setdefault(_key(environment, worker), {"plan": tree, **order})
    answers = dict(zip(orders, _answers(plan, list(orders.values())), strict=True))
    for answer in answers.values():
        if answer.get("traceback"):
            sys.stderr.write(f"{answer['traceback']}\n")
    return [registry.fault(at, text) for at, text in _faults(plan, answers, [] if pairs is None else pairs)]


def _answers(plan: Plan, orders: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what the children say, in the order of their orders."""
    children = Children()
    with ThreadPoolExecutor(min(_AT_ONCE_MAX, os.cpu_count() or 1)) as pool:
        try:
            return list(pool.map(lambda order: _try(children, plan, order), orders))
        except BaseException:  # Ctrl-C above all: children have sessions of their own and do not hear it
            pool.shutdown(wait=False, cancel_futures=True)
            children.end()
            raise


def _can_start(environment: EnvironmentPlan, shut: Collection[Any]) -> bool:
    parts = (environment.plugin, environment.reward, environment.transformer)
    places = [_place(registry.fault(part.at, "")) for part in parts if part is not None]
    return environment.plugin is not None and not any(place in shut for place in places)


def _place(fault: Mapping[str, Any]) -> list[Any]:
    return [fault[key] for key in ("file", "line", "column", "path")]


def _variants(phase: PhasePlan, environment: EnvironmentPlan) -> range:
    """Return the workers whose parameters differ."""
    return range(min(phase.workers, max(1, len(environment.per_worker))))


def _key(environment: EnvironmentPlan, worker: int) -> str:
    """Return what two environments have in common if one trial is enough for both."""
    parts = [environment.plugin, environment.reward, environment.transformer]
    plugins = [None if part is None else {**asdict(part), "params": part.params, "at": ""} for part in parts]
    plugins[0] = {**(plugins[0] or {}), "params": environment.params_of(worker)}
    return json.dumps([environment.uid, plugins], sort_keys=True)


def _try(children: Children, plan: Plan, order: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a child found, or what its end says."""
    phase = plan.phases[order["phase"]]
    environment = next(e for e in phase.environments if e.uid == order["environment"])
    start_s, shutdown_s = (_span_s(phase, environment, word) for word in ("start", "shutdown"))
    answer = children.ask(CHILD, {"trial": order}, start_s + shutdown_s + _IMPORT_S)
    if answer.status == 0:
        found: dict[str, Any] = json.loads(answer.text)
        return found
    where = f"environment {order['environment']} (worker {order['worker']})"
    if answer.text.startswith(_HANGS):
        text = f"it hangs: expected it to start within {start_s:g} s and to shut down within {shutdown_s:g} s"
    elif answer.status is None:
        text = f"its process gave no answer within {start_s + shutdown_s + _IMPORT_S:g} s"
    else:
        text = f"its process ended while it was started: {exit_text(answer.status)}"
    return {"message": f"{where}: {text}", "traceback": answer.text}


def _span_s(phase: PhasePlan, environment: EnvironmentPlan, word: str) -> float:
    """Return how long a call of an environment may take; one that may take for ever gets the usual time."""
    table = (environment.recovery or phase).deadlines_s
    return span_s(f"environment.{word}", table) or DEADLINES_S.get(word) or DEADLINE_OTHER_S


def _faults(
    plan: Plan, answers: Mapping[str, dict[str, Any]], pairs: list[dict[str, Any]]
) -> Iterator[tuple[str, str]]:
    """Yield (place, message) of all that is wrong, in document order, and fill `pairs`."""
    for phase in plan.phases:
        declared: dict[str, dict[str, Any]] = {}
        unknown: list[str] = []
        for environment in phase.environments:
            found = [answers.get(_key(environment, worker)) for worker in _variants(phase, environment)]
            known = [answer for answer in found if answer is not None and "message" not in answer]
            at = "" if environment.plugin is None else environment.plugin.at
            yield from ((at, str(a["message"])) for a in found if a is not None and "message" in a)
            if len(known) < len(found):
                unknown.append(environment.uid)
                continue
            declared[environment.uid] = known[0]
            for worker, answer in enumerate(known):
                if not same_declarations(answer, known[0]):
                    text = f"environment {environment.uid} declares otherwise in worker {worker} than in worker 0"
                    yield at, text
                    break
        wrong = misfits(phase, declared, unknown)
        yield from wrong
        if not wrong and not unknown:
            pairs += [_pair(agent) for agent in resolve(phase, declared) if _can_judge(agent.plan)]


def _can_judge(agent: AgentPlan) -> bool:
    """Say whether a brain learns with the spaces that environments declare: filters declare others."""
    return agent.brain is not None and not agent.filters


def _pair(agent: ResolvedAgent) -> dict[str, Any]:
    """Return the brain of an agent and its declarations, as a question."""
    brain = agent.plan.brain
    assert brain is not None
    return {
        "agent": agent.plan.name,
        "brain": brain.name,
        "params": brain.params,
        "at": brain.at,
        "sensors": agent.sensors,
        "actuators": agent.actuators,
    }
