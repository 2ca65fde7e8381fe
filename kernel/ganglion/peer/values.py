"""Values as a controller sees them: made from rows of the wire when it looks, and checked when it gives them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from ganglion.errors import AuthorError, SpaceError
from ganglion.peer.layout import Layout
from ganglion.peer.world import Actor
from ganglion.sdk.information import ActuatorInformation

LayoutOf = Callable[[str], Layout]
"""Agent -> the layout of its rows."""


class Layouts:
    """Know the layouts of agents' rows; each is made when a controller looks at values for the first time."""

    def __init__(self, actors: Mapping[str, Actor]) -> None:
        self._actors = actors
        self._made: dict[tuple[str, str], Layout] = {}

    def sensors(self, agent: str) -> Layout:
        """Return the layout of an agent's readings."""
        return self._layout("sensors", agent, self._actors[agent].setup["sensors"])

    def actuators(self, agent: str) -> Layout:
        """Return the layout of an agent's setpoints."""
        return self._layout("actuators", agent, self._actors[agent].setup["actuators"])

    def rewards(self, agent: str) -> Layout:
        """Return the layout of an agent's rewards; there are none before they are declared."""
        return self._layout("rewards", agent, self._actors[agent].reward_declarations or [])

    def _layout(self, what: str, agent: str, declared: Sequence[Mapping[str, Any]]) -> Layout:
        if (what, agent) not in self._made:
            self._made[what, agent] = Layout.of(declared, missing=what == "rewards")
        return self._made[what, agent]


class Values(MutableMapping[str, Sequence[Any]]):
    """Map agents to their values in declared order: numbers, and arrays of a space's shape.

    Most controllers hand on what they get without a look at it; for them nothing is converted. What is shown is a copy.
    """

    __slots__ = ("_layouts", "_rows", "_shown")

    def __init__(self, rows: dict[str, list[Any]], layouts: LayoutOf) -> None:
        self._rows, self._layouts = rows, layouts
        self._shown: dict[str, Sequence[Any]] = {}

    def __getitem__(self, name: str) -> Sequence[Any]:
        if name not in self._shown:
            self._shown[name] = self._layouts(name).from_row(self._rows[name], name)
        return self._shown[name]

    def __setitem__(self, name: str, values: Sequence[Any]) -> None:
        self._rows.setdefault(name, [])
        self._shown[name] = values

    def __delitem__(self, name: str) -> None:
        del self._rows[name]
        self._shown.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return repr(dict(self))

    def travel(self) -> dict[str, list[Any]]:
        """Return the rows; those that were looked at may have been changed, and are checked."""
        if not self._shown:
            return self._rows
        changed = {name: _row(name, self._layouts(name), values) for name, values in self._shown.items()}
        return {**self._rows, **changed}


def rows_of(setpoints: Mapping[str, Sequence[Any]], layouts: LayoutOf) -> dict[str, list[Any]]:
    """Return setpoints that an author gives as rows; AuthorError says which one does not fit."""
    if isinstance(setpoints, Values):
        return setpoints.travel()
    return {name: _row(name, layouts(name), values) for name, values in setpoints.items()}


def _row(name: str, layout: Layout, values: Sequence[Any]) -> list[Any]:
    if isinstance(values, str | bytes) or not hasattr(values, "__len__") or len(values) != len(layout):
        found = len(values) if hasattr(values, "__len__") else type(values).__name__
        raise AuthorError(f"setpoints of agent {name}: expected {len(layout)} values, found {found}")
    try:
        for (uid, space), value in zip(layout.pairs(), values, strict=True):
            if not space.contains(value):
                ActuatorInformation(value, space, uid)  # refuses it by its id
        return layout.to_row(values)
    except SpaceError as error:
        raise AuthorError(f"setpoints of agent {name}: {error}") from None
