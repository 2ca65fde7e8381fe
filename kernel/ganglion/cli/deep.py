"""Checks that import plugins, in a child process: the command line itself never runs authors' code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from ganglion import registry
from ganglion.document.fault import Fault, placed
from ganglion.errors import LaunchError, PluginInvalid
from ganglion.run.plan import Plan
from ganglion.supervisor.advice import inspect

__all__ = ["deeply", "misfits"]

_DEADLINE_S = (
    120.0  # importing torch from a cold disk takes tens of seconds; a module that hangs takes for ever
)


def deeply(plan: Plan) -> list[Fault]:
    """Return what is wrong with the plugins that a plan names and with their parameters."""
    faults = _ask({"plan": plan.to_map()})
    lines = plan.document.split("\n")
    return [placed(Fault(**fault), plan.source, lines) for fault in faults]


def misfits(entries: list[registry.Entry]) -> dict[tuple[str, str, str], str]:
    """Return what is wrong with plugins by (group, distribution, name), those that fit left out."""
    rows = [[entry.group, entry.distribution, entry.name] for entry in entries]
    return {
        (group, distribution, name): message for group, distribution, name, message in _ask({"entries": rows})
    }


def _ask(question: dict[str, Any]) -> list[Any]:
    """Ask a child process that may import plugins.

    Raises:
        LaunchError: it ended without an answer, or took too long.
    """
    command = [
        sys.executable,
        "-P",
        "-m",
        "ganglion.cli.deep",
    ]  # -P: nothing in the working folder shadows a module
    try:
        done = subprocess.run(
            command,
            input=json.dumps(question),
            stdout=subprocess.PIPE,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LaunchError(
            f"the process that imports plugins gave no answer within {_DEADLINE_S:g} s"
        ) from error
    if done.returncode != 0:
        raise LaunchError(f"the process that imports plugins ended with exit status {done.returncode}")
    answer: list[Any] = json.loads(done.stdout)
    return answer


def _misfits(rows: list[list[str]]) -> list[list[str]]:
    found = []
    for group, distribution, name in rows:
        try:
            registry.load(group, f"{distribution}:{name}")
        except PluginInvalid as error:
            found.append([group, distribution, name, str(error)])
    return found


def _child() -> None:
    """Answer one question; what plugins print while they are imported goes to stderr."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    question = json.load(sys.stdin)
    found: Any = inspect(question["plan"]) if "plan" in question else _misfits(question["entries"])
    with answer:
        json.dump(found, answer)


if __name__ == "__main__":
    _child()
