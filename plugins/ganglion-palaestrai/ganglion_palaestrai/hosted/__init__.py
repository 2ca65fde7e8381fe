"""Hosted: palaestrAI's own classes, unmodified, as parts of a run; imported where palaestrAI is installed."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import pkgutil
import sys
from importlib import metadata
from typing import Any

import numpy as np

from ganglion_palaestrai.names import HOSTED

__all__ = ["host"]

# kind -> (their base class, the class of ours that hosts it)
_HOSTS = {
    "environment": ("palaestrai.environment:Environment", "environment:HostedEnvironment"),
    "reward": ("palaestrai.environment:Reward", "environment:HostedReward"),
    "transformer": ("palaestrai.environment:EnvironmentStateTransformer", "environment:HostedTransformer"),
    "muscle": ("palaestrai.agent:Muscle", "agent:HostedMuscle"),
    "brain": ("palaestrai.agent:Brain", "agent:HostedBrain"),
    "objective": ("palaestrai.agent:Objective", "agent:HostedObjective"),
    "filter": ("palaestrai.agent:Filter", "flow:HostedFilter"),
    "controller": ("palaestrai.simulation:SimulationController", "flow:HostedController"),
    "condition": ("palaestrai.experiment:TerminationCondition", "flow:HostedCondition"),
}


@functools.cache
def host(kind: str, theirs: type[Any]) -> type[Any]:
    """Return a class of ours that plays a class of palaestrAI.

    Its constructor takes what theirs takes.

    Raises:
        TypeError: It is a class of another kind, or one that the bus cannot play; says so and what is expected.
    """
    if kind not in _HOSTS:
        raise TypeError(f"is one of palaestrAI, whose classes of this kind are not hosted (those are: {_listed()})")
    base, place = _HOSTS[kind]
    if not issubclass(theirs, pkgutil.resolve_name(base)):
        others = [other for other, (name, _) in _HOSTS.items() if issubclass(theirs, pkgutil.resolve_name(name))]
        found = f", and it is a {others[0]} of palaestrAI" if others else ""
        raise TypeError(f"expected a subclass of {base.replace(':', '.')}{found}")
    lacking = sorted(getattr(theirs, "__abstractmethods__", ()))
    if lacking:
        raise TypeError(f"is abstract: it lacks {', '.join(lacking)}")
    for package in dict.fromkeys(it.__module__.partition(".")[0] for it in theirs.__mro__):
        _check_numpy(package)
    folder = os.environ.get("GANGLION_FOLDER")  # of the document, empty where it came over the network
    if folder and folder not in sys.path:
        sys.path.append(folder)  # for what its parameters name, such as a world of Gymnasium; behind everything else
    module, _, name = place.partition(":")
    ours = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    signature = ours.signature(theirs) if hasattr(ours, "signature") else inspect.signature(theirs.__init__)
    ours.check(theirs, signature.parameters)

    def made(self: Any, **params: Any) -> None:
        ours.__init__(self, **params)

    made.__signature__ = signature  # type: ignore[attr-defined]
    more = ours.body(theirs) if hasattr(ours, "body") else {}
    body = {**more, "hosted": theirs, "__init__": made, "__module__": theirs.__module__, "__doc__": theirs.__doc__}
    return type(theirs.__name__, (ours,), {**body, "__qualname__": theirs.__qualname__})


def _check_numpy(package: str) -> None:
    """Refuse a package of palaestrAI whose distribution pins numpy to versions of which none is installed."""
    if package not in HOSTED:
        return
    from packaging.requirements import Requirement

    whose, found = HOSTED[package], np.__version__
    for text in metadata.requires(whose) or ():
        if not text.startswith("numpy"):
            continue  # there are many, and reading one takes a millisecond
        wanted = Requirement(text)
        if wanted.name == "numpy" and wanted.marker is None and found not in wanted.specifier:
            raise TypeError(
                f"needs numpy{wanted.specifier}, as {whose} {metadata.version(whose)} pins it, found numpy {found}; "
                f"pip install 'numpy{wanted.specifier}' here, and what needs another numpy elsewhere"
            )


def _listed() -> str:
    return ", ".join(_HOSTS)
