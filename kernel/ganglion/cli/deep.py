"""Checks that import plugins, in a child process: the command line itself never runs authors' code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from ganglion import registry
from ganglion.cli.child import Children
from ganglion.cli.trial import CHILD, try_environments
from ganglion.document.fault import Fault, placed
from ganglion.errors import LaunchError, PluginInvalid
from ganglion.run.plan import Plan
from ganglion.supervisor.check import inspect

_DEADLINE_S = 120.0  # importing torch from a cold disk takes tens of seconds; a module that hangs takes for ever


def deeply(plan: Plan) -> list[Fault]:
    """Return what the plugins that a plan names tell of it.

    Classes, parameters and conditions come first; then each environment is started once, if nothing is wrong with it
    already; then brains say whether they can learn with the spaces that were declared.
    """
    rows: list[dict[str, Any]] = _ask({"plan": plan.to_map()})
    errors = [row for row in rows if row["severity"] == "error"]
    pairs: list[dict[str, Any]] = []
    rows += try_environments(plan, errors, pairs)
    if pairs and not errors:
        rows += _ask({"pairs": pairs, "folder": plan.folder, "allow": plan.allow})
    faults = [Fault(**row) for row in rows]
    wrong = {fault.place for fault in faults if fault.severity == "error"}
    faults = [fault for fault in faults if fault.severity == "error" or fault.place not in wrong]
    lines = plan.document.split("\n")
    return [placed(fault, plan.source, lines) for fault in faults]


def misfits(entries: list[registry.Entry]) -> dict[tuple[str, str, str], str]:
    """Return what is wrong with plugins by (group, distribution, name), those that fit left out."""
    rows = [[entry.group, entry.distribution, entry.name] for entry in entries]
    return {(group, distribution, name): message for group, distribution, name, message in _ask({"entries": rows})}


def _ask(question: dict[str, Any]) -> list[Any]:
    """Ask a child process that may import plugins.

    Raises:
        LaunchError: it ended without an answer, or took too long.
    """
    answer = Children().ask(CHILD, question, _DEADLINE_S)
    if answer.status is None:
        raise LaunchError(f"the process that imports plugins gave no answer within {_DEADLINE_S:g} s")
    if answer.status != 0:
        raise LaunchError(f"the process that imports plugins ended with exit status {answer.status}")
    found: list[Any] = json.loads(answer.text)
    return found


def _misfits(rows: list[list[str]]) -> list[list[str]]:
    found = []
    for group, distribution, name in rows:
        try:
            registry.load(group, f"{distribution}:{name}")
        except PluginInvalid as error:
            found.append([group, distribution, name, str(error)])
    return found


def _unfit(pairs: list[dict[str, Any]], plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what brains say against the sensors and actuators of their agents, as maps of faults."""
    from ganglion.sdk import ActuatorInformation, SensorInformation  # arrays are for the child
    from ganglion.sdk.spaces.text import space_from_wire

    found = []
    for pair in pairs:
        rows: list[list[Any]] = [
            [kind(None, space_from_wire(row["space"]), row["id"]) for row in pair[word]]
            for word, kind in (("sensors", SensorInformation), ("actuators", ActuatorInformation))
        ]
        cls = registry.load("brain", pair["brain"], plan["folder"], plan["allow"])
        try:
            cls.check_spaces(*rows, **pair["params"])
        except Exception as error:  # noqa: BLE001 - authors' code may raise anything; it is told
            found.append(registry.fault(pair["at"], f"agent {pair['agent']}: {error}"))
    return found


def _child() -> None:
    """Answer one question; what plugins print while they are imported goes to stderr."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    question = json.load(sys.stdin)
    found: Any
    if "trial" in question:
        from ganglion.peer.trial import try_out  # what hosts need is for the child that hosts

        found = try_out(question["trial"], answer)
    else:
        answers: dict[str, Callable[[Any], list[Any]]] = {
            "plan": inspect,
            "entries": _misfits,
            "pairs": lambda pairs: _unfit(pairs, question),
        }
        (key,) = answers.keys() & question.keys()
        found = answers[key](question[key])
    with answer:
        json.dump(found, answer)


if __name__ == "__main__":
    _child()
