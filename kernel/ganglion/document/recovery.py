"""Recovery in documents: what is said of the run, a phase and one of its entries, merged; the nearest wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganglion.document.fault import Fault, nearest
from ganglion.document.marks import Node
from ganglion.limits import DEADLINES_S
from ganglion.run.recovery import FAIL, ON_LOSS, RECOVER, RESTART, Recovery

__all__ = ["INNER", "faults", "recovery"]

INNER = ("deadlines_s", "restarts")
"""Keys whose maps are merged key by key, too."""


def recovery(levels: Sequence[Node | None], repeatable: bool = True) -> Recovery:
    """Return what holds where these are said, the farthest first.

    `repeatable` says whether the controller asks in an order that it would keep in another run.
    """
    found: dict[str, Any] = {}
    for level in levels:
        for key, value in _plain(level).items():
            found[key] = {**found.get(key, {}), **value} if key in INNER else value
    restarts = found.get("restarts", {})
    deterministic = bool(found.get("deterministic", True))
    known = {key: found[key] for key in ("checkpoint_s", "deadlines_s", "run_as") if key in found}
    return Recovery(
        on_loss=_on_loss(found.get("on_loss"), deterministic and repeatable),
        deterministic=deterministic,
        **{f"restarts_{key}": value for key, value in restarts.items()},
        **known,
    )


def faults(levels: Sequence[Node | None], repeatable: bool = True) -> list[Fault]:
    """Return what is wrong with the last of these: the others have been looked at where they stand."""
    own = levels[-1]
    if own is None:
        return []
    return [*_deadlines(own), *_contradictions(levels, own, repeatable)]


def _on_loss(said: str | None, repeats: bool) -> str:
    """Return what a loss means; who does not do again what he did cannot go on as if nothing had happened."""
    if repeats:
        return said or ON_LOSS
    return FAIL if said == FAIL else RESTART


def _contradictions(levels: Sequence[Node | None], own: Node, repeatable: bool) -> list[Fault]:
    """Refuse `recover` for what is said, here or farther away, not to be repeatable."""
    asked = own.map.get("on_loss")
    if asked is None or asked.value != RECOVER:
        return []
    given = [level.map["deterministic"] for level in levels if level and "deterministic" in level.map]
    if given and given[-1].value is False:
        why = f"`deterministic: false` (line {given[-1].line + 1})"
    elif not repeatable:
        why = "the mode `free` of the controller"
    else:
        return []
    text = f"expected restart or fail beside {why}, found recover: what gives other answers again is not led back"
    return [asked.fault(text)]


def _deadlines(own: Node) -> list[Fault]:
    """Return a fault for each deadline of a call that there is not."""
    table = own.map.get("deadlines_s")
    keys = {} if table is None else table.keys
    unknown = [(name, mark) for name, mark in keys.items() if name not in DEADLINES_S]
    return [mark.fault(f"unknown call `{name}`{nearest(name, DEADLINES_S)}") for name, mark in unknown]


def _plain(level: Node | None) -> dict[str, Any]:
    return {} if level is None or not isinstance(level.value, dict) else level.plain()
