"""The kit as a program: `python -m ganglion_conformance`, with what is to be judged as JSON on standard input.

The command line is a neighbour that does not import it, and arrays would be too heavy there.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

from ganglion.errors import GanglionError
from ganglion_conformance.bench import DEADLINE_S, STEPS, Order
from ganglion_conformance.drivers import AttachedDriver, Driver, PluginDriver, ProgramDriver
from ganglion_conformance.kit import judge


def main(question: dict[str, Any]) -> int:
    """Judge one peer, print the report, and return the exit status: 0 it conforms, 1 it does not, 2 nothing was asked.

    `question` has one of `name`, `argv` and `attach`; further `role`, `only`, `params`, `steps`, `curve`, `allow`,
    `json`, and `again`, the command that asks one case again.
    """
    driver: Driver
    name, role = question.get("name"), str(question["role"])
    uid = "peer"
    if name is not None:
        driver = PluginDriver(name, str(Path.cwd()), question.get("allow", ()))
    elif question.get("attach") is not None:
        driver, uid = AttachedDriver(question["attach"]), question["attach"]
    else:
        driver = ProgramDriver(question["argv"])
    order = Order(
        role=role,
        uid=uid,
        params=question.get("params", {}),
        plugin=name,
        steps=question.get("steps", STEPS),
        deadline_s=question.get("deadline_s", DEADLINE_S),
        curve=name is None and question.get("curve", True),
        attached=question.get("attach") is not None,
        more=question.get("more", {}),
    )
    heard = sys.stderr if name is None else io.StringIO()  # what a plugin is told is in the report
    try:
        with contextlib.redirect_stderr(heard):
            report = judge(driver, order, question.get("only", ()), question.get("again", "{case}"))
    except GanglionError as error:
        sys.stderr.write(f"ganglion: {error}\n")
        return 2
    shown = json.dumps(report.to_map(), indent=2) if question.get("json") else "\n".join(report.lines())
    sys.stdout.write(shown + "\n")
    return report.exit_status


if __name__ == "__main__":
    sys.exit(main(json.load(sys.stdin)))
