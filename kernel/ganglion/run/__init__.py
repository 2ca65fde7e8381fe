"""RUNS: the governor's phases, workers, episodes and verdicts; events in, effects out."""

import importlib
import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    """The package `ganglion.run`, callable as `ganglion.run(document)`: the package and the function share the name."""

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        return importlib.import_module("ganglion.registry").load("python", "run")(*arguments, **more)


sys.modules[__name__].__class__ = _Room
