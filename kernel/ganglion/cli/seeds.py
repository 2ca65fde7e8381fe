"""Seeds of streams for people to see, computed in a child process: the command line does without numpy."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from ganglion.cli.child import Children
from ganglion.errors import LaunchError
from ganglion.run.plan import PhasePlan, Process
from ganglion.wire.name import Role

_MODULE = "ganglion.cli.seeds"  # `__name__` is another one in the child
_DEADLINE_S = 60.0  # to import numpy from a cold disk takes seconds
_EVALUATE = "evaluate"


def path_of(phase: PhasePlan, process: Process) -> list[str | int]:
    """Return the path of the stream of random numbers that a process's object gets."""
    assert process.uid is not None or process.worker is not None
    mode = _EVALUATE if process.evaluation else phase.mode
    if process.role is Role.BRAIN:
        return ["phase", phase.name, "agent", str(process.uid), "brain"]
    where: list[str | int] = ["worker", -1 if process.worker is None else process.worker]
    if process.role is Role.CONTROLLER:
        return ["phase", phase.name, mode, "controller", *where]
    if process.role is Role.MUSCLE:
        return ["phase", phase.name, mode, "agent", str(process.uid), "muscle", *where]
    return ["phase", phase.name, mode, "environment", str(process.uid), *where]


def seeds_of(streams: Sequence[tuple[str, Sequence[str | int]]]) -> list[str]:
    """Return the integer of each stream, (seed of the run, path), as decimal text: it has up to 63 bits.

    Raises:
        LaunchError: the child process gave no answer.
    """
    answer = Children().ask(_MODULE, [[seed, list(path)] for seed, path in streams], _DEADLINE_S)
    if answer.status != 0:
        raise LaunchError(f"the process that computes seeds ended with exit status {answer.status}")
    found: list[str] = json.loads(answer.text)
    return found


def _child() -> None:
    from ganglion.sdk.seed import integer_from_words, words

    found = [str(integer_from_words(words(int(seed), path))) for seed, path in json.load(sys.stdin)]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    _child()
