"""What muscles answer: setpoints in the declared order; what a program answers is held to its agent's actuators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ganglion.errors import RemoteProtocolError
from ganglion.peer.failure import wrong_answer
from ganglion.peer.foreign import checked_row
from ganglion.peer.world import Actor
from ganglion.sdk.flow import Signal
from ganglion.wire.messages import Acted

_ACT = "muscle.act"


def heard(actors: Sequence[Actor], answers: Sequence[Acted]) -> list[Acted]:
    """Return the answers of these muscles as our own hosts would have sent them.

    Our hosts have checked what they send. What a program sends that cannot be taken is blamed on it, by CallFailed.
    """
    return [
        answer if actor.checks is None else _checked(actor, answer)
        for actor, answer in zip(actors, answers, strict=True)
    ]


def setpoints_of(actor: Actor, answer: Acted) -> list[Any]:
    """Return the one row of setpoints of an answer; CallFailed blames the muscle if there is none."""
    rows = answer.setpoints
    if rows is None or len(rows) != 1 or type(rows[0]) is not list or len(rows[0]) != len(actor.targets):
        text = f"setpoints: expected one row of {len(actor.targets)} values, found {rows!r:.80}"
        raise wrong_answer(actor.peer, _ACT, RemoteProtocolError(text))
    row: list[Any] = rows[0]
    return row


def _checked(actor: Actor, answer: Acted) -> Acted:
    if answer.setpoints is not None:
        setpoints_of(actor, answer)
    try:
        return replace(
            answer,
            setpoints=_rows(actor, answer.setpoints, "setpoints"),
            proposed=_rows(actor, answer.proposed, "proposed"),
            objective=_objective(answer.objective),
            signal=_signal(actor, answer.signal),
            excused=_excused(answer.excused),
        )
    except RemoteProtocolError as error:
        raise wrong_answer(actor.peer, _ACT, error) from error


def _rows(actor: Actor, rows: list[Any] | None, name: str) -> list[Any] | None:
    """Return the one row of values of the actuators, None where there is none."""
    if rows is None:
        return None
    layout = actor.checks
    assert layout is not None
    if len(rows) != 1 or type(rows[0]) is not list or len(rows[0]) != len(layout):
        raise RemoteProtocolError(f"{name}: expected one row of {len(layout)} values, found {rows!r:.80}")
    row = checked_row(layout, rows[0], name)
    infinite = layout.infinite(layout.from_row(row, name))
    if infinite is not None:
        raise RemoteProtocolError(f"{name}.{infinite}: expected a finite number")
    return [row]


def _objective(found: list[Any] | None) -> list[float | None] | None:
    if found is None or found == [None]:
        return found
    value: Any = found[0] if len(found) == 1 else found
    if type(value) not in (int, float) or not math.isfinite(value):
        raise RemoteProtocolError(f"objective: expected a list of one finite number or nil, found {found!r:.60}")
    return [float(value)]


def _signal(actor: Actor, found: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the wish of a brain, which its muscle hands on."""
    if found is None:
        return None
    if actor.setup.get("brain") is None:
        raise RemoteProtocolError(f"signal: there is no brain that could wish for it, found {found!r:.60}")
    name, reason = found.get("signal"), found.get("reason", "")
    known = isinstance(name, str) and name in Signal.__members__ and Signal[name].effect.scope != "run"
    if not known or not isinstance(reason, str):
        text = f"expected a signal up to STOP_PHASE and a reason in text, found {found!r:.60}"
        raise RemoteProtocolError(f"signal: {text}")
    return found


def _excused(found: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    for excuse in found or ():
        if not all(isinstance(excuse.get(key), str) for key in ("issuer", "hook", "reason")):
            raise RemoteProtocolError(f"excused: expected issuer, hook and reason as text, found {excuse!r:.60}")
    return found
