"""Programs that no host of ours speaks for: what they declare and answer is held to their own declarations."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from ganglion.errors import RemoteProtocolError, SpaceError
from ganglion.limits import IDS_PER_ENVIRONMENT, UID_BYTES
from ganglion.peer.layout import Layout
from ganglion.sdk.simtime import SimTime
from ganglion.sdk.spaces import space_from_wire


class Declared:
    """Know what a program declared; return its rows as our own hosts would have sent them.

    An integer where a float is declared becomes one, nested lists become bytes, so that equal programs in different
    languages leave equal results.
    """

    def __init__(self) -> None:
        self._layouts: dict[str, Layout] = {}
        self._time = SimTime(None, None)

    def declare(self, what: str, declarations: Sequence[Mapping[str, Any]]) -> None:
        """Take the declarations of its `sensors`, `actuators` (with their no-ops) or `rewards`."""
        layout = self._layouts[what] = layout_of(declarations, what)
        for i, row in enumerate(declarations):
            if row.get("value") is not None:
                one = Layout(layout.ids[i : i + 1], layout.spaces[i : i + 1])
                checked_row(one, [row["value"]], f"{what}: value")

    def row(self, what: str, row: list[Any], name: str) -> list[Any]:
        """Return a row as our hosts would send it; RemoteProtocolError names the id whose value does not fit."""
        layout = self._layouts[what]
        checked = checked_row(layout, row, name)
        infinite = layout.infinite(layout.from_row(checked, name)) if what == "rewards" else None
        if infinite is not None:
            raise RemoteProtocolError(f"{name}.{infinite}: expected a finite number")
        return checked

    def begin(self) -> None:
        """Let time begin again: an episode does."""
        self._time = SimTime(None, None)

    def pass_time(self, ticks: int | None, timestamp: str | None) -> None:
        """Take the time of a step; RemoteProtocolError if it falls or is none."""
        try:
            now = SimTime(ticks, None if timestamp is None else dt.datetime.fromisoformat(timestamp))
            fell = now.falls_behind(self._time)
        except (ValueError, TypeError) as error:  # TypeError: with a time zone after one without
            raise RemoteProtocolError(f"timestamp: expected ISO 8601, found {timestamp!r:.60}: {error}") from error
        if fell:
            raise RemoteProtocolError(f"simtime fell from {self._time} to {now}")
        self._time = now


def checked_row(layout: Layout, row: list[Any], name: str) -> list[Any]:
    """Return a row of values in their spaces, as our hosts would send it; RemoteProtocolError names a wrong one."""
    values = layout.from_row(row, name)
    for uid, space, value in zip(layout.ids, layout.spaces, values, strict=True):
        if not space.contains(value):
            raise RemoteProtocolError(f"{name}.{uid}: expected a value of {space}, found {value!r:.60}")
    return layout.to_row(values)


def layout_of(declarations: Sequence[Mapping[str, Any]], what: str) -> Layout:
    """Return the layout of declarations that come from outside; RemoteProtocolError says which one is wrong."""
    if len(declarations) > IDS_PER_ENVIRONMENT:
        raise RemoteProtocolError(
            f"{what}: expected at most {IDS_PER_ENVIRONMENT} declarations, found {len(declarations)}"
        )
    ids, spaces = [], []
    for i, row in enumerate(declarations):
        uid = row.get("id")
        if type(uid) is not str or not 0 < len(uid.encode()) <= UID_BYTES or not uid.isprintable():
            raise RemoteProtocolError(
                f"{what}[{i}].id: expected printable text of 1 to {UID_BYTES} bytes, found {uid!r:.60}"
            )
        if uid in ids:
            raise RemoteProtocolError(f"{what}[{i}].id: {uid!r} is declared twice")
        if type(row.get("space")) is not dict:
            raise RemoteProtocolError(f"{what}.{uid}.space: expected a map, found {row.get('space')!r:.60}")
        try:
            spaces.append(space_from_wire(row["space"]))
        except SpaceError as error:
            raise RemoteProtocolError(f"{what}.{uid}: {error}") from error
        ids.append(uid)
    return Layout(ids, spaces)
