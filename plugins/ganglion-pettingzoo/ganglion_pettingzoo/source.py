"""Source: a PettingZoo environment made by its id, or by a class of an allowed package."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["APIS", "make"]

APIS = ("parallel", "aec")
# Particle environments have left PettingZoo for a package that is not in its registry.
PARTICLES = ("mpe", "mpe2")
PARTICLE_NAME = re.compile(r"[a-z][a-z0-9_]*_v[0-9]+")
CLASS_PATH = re.compile(r"([A-Za-z]\w*(?:\.[A-Za-z]\w*)*):([A-Za-z]\w*)")


def make(id: str, api: str | None, params: Mapping[str, Any]) -> Any:  # noqa: A002 - PettingZoo's own name for it
    """Return a new ParallelEnv or AECEnv.

    Args:
        id: `classic/tictactoe_v3` and what else is in PettingZoo's registry, `mpe/simple_tag_v3` and what else is in
            the package mpe2, or `module:Class`, a ParallelEnv or AECEnv of an allowed package.
        api: `parallel` or `aec`; None is parallel where there is that, else aec. A class is what it is.
        params: Arguments of the environment.

    Raises:
        ValueError: There is no such environment, it has another api, or its package is not allowed.
        ImportError: The package that it needs is not installed; the message says which.
    """
    if api is not None and api not in APIS:
        raise ValueError(f"api: expected parallel or aec, found {api!r}")
    if ":" in id:
        return _class(id, api)(**params)
    space, _, name = id.partition("/")
    if space in PARTICLES:
        return _particles(id, name, api)(**params)
    return _registered(id, api, params)


def _registered(id: str, api: str | None, params: Mapping[str, Any]) -> Any:  # noqa: A002 - as in `make`
    import pettingzoo  # type: ignore[import-untyped, unused-ignore]
    from pettingzoo.env_registry.exceptions import PettingZooRegistryError  # type: ignore[import-untyped, unused-ignore]

    for wanted in APIS if api is None else (api,):
        try:
            found = pettingzoo.spec(wanted, id)
        except PettingZooRegistryError:
            continue
        return pettingzoo.make(wanted, found, **params)
    kind = f"environment of the api {api}" if api else "environment"
    raise ValueError(f"id {id!r}: PettingZoo has no {kind} of this id in its registry")


def _particles(id: str, name: str, api: str | None) -> Any:  # noqa: A002 - as in `make`
    if PARTICLE_NAME.fullmatch(name) is None:
        raise ValueError(f"id {id!r}: expected mpe/NAME_vN, such as mpe/simple_tag_v3")
    try:
        module = importlib.import_module(f"mpe2.{name}")
    except ModuleNotFoundError as error:
        if error.name == f"mpe2.{name}":
            raise ValueError(f"id {id!r}: the package mpe2 has no such environment") from error
        raise ImportError(f"id {id!r} needs the package mpe2: pip install 'ganglion-pettingzoo[games]'") from error
    return module.env if api == "aec" else module.parallel_env


def _class(id: str, api: str | None) -> Any:  # noqa: A002 - as in `make`
    """Return the class that `module:Class` names, if its package is allowed; nothing is imported before."""
    from pettingzoo import AECEnv, ParallelEnv  # type: ignore[import-untyped, unused-ignore]

    path = CLASS_PATH.fullmatch(id)
    if path is None:
        raise ValueError(f"id {id!r}: expected namespace/name_vN, or module:Class without leading underscores")
    top = path[1].partition(".")[0]
    # What --allow, the setting `allow` and the variable of this name add up to.
    if top not in {name.strip() for name in os.environ.get("GANGLION_ALLOW", "").split(",")}:
        raise ValueError(f"id {id!r}: package {top!r} is not allowed (--allow it if you trust it)")
    found = getattr(importlib.import_module(path[1]), path[2], None)
    bases = {"parallel": ParallelEnv, "aec": AECEnv}
    wanted = tuple(bases.values()) if api is None else bases[api]
    if not inspect.isclass(found) or not issubclass(found, wanted):
        kinds = "ParallelEnv or AECEnv" if api is None else bases[api].__name__
        raise ValueError(f"id {id!r}: expected a class of kind {kinds}, found {found!r:.100}")
    return found
