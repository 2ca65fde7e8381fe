"""Contract: what an environment declares and answers, held against its form and what it declared before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ganglion.errors import AuthorError, SpaceError
from ganglion.limits import IDS_PER_ENVIRONMENT
from ganglion.peer.layout import Layout, freeze
from ganglion.sdk.information import ActuatorInformation, Information, RewardInformation, SensorInformation
from ganglion.sdk.spaces import Space

_KINDS: dict[str, type[Information]] = {
    "sensor": SensorInformation,
    "actuator": ActuatorInformation,
    "reward": RewardInformation,
}


def listed(what: str, given: Any) -> Sequence[Any]:
    """Return informations (`what` is sensor, actuator or reward); AuthorError says what stands in their place."""
    kind = _KINDS[what]
    if not isinstance(given, list | tuple):
        raise AuthorError(f"{what}s: expected a list of {kind.__name__}, found {given!r:.80}")
    for i, it in enumerate(given):
        if not isinstance(it, kind):
            raise AuthorError(f"{what}s[{i}]: expected a {kind.__name__}, found {it!r:.80}")
        if not isinstance(it.space, Space):
            raise AuthorError(f"{what} {it.uid!r}: expected a space, found {it.space!r:.80}")
    return given


def layout_of(what: str, given: Any) -> Layout:
    """Return the layout of a declaration; AuthorError names what is declared twice, or an actuator without a no-op."""
    informations = listed(what, given)
    if len(informations) > IDS_PER_ENVIRONMENT:
        raise AuthorError(f"expected at most {IDS_PER_ENVIRONMENT} {what}s, found {len(informations)}")
    layout = Layout([i.uid for i in informations], [i.space for i in informations], what == "reward")
    if len(layout.index) != len(informations):
        twice = sorted({u for u in layout.ids if layout.ids.count(u) > 1})
        raise AuthorError(f"{what} {twice[0]!r} is declared twice")
    if what == "actuator":
        empty = [it.uid for it in informations if it.value is None]
        if empty:
            raise AuthorError(f"actuator {empty[0]!r} has no value: expected its no-op")
        _check_noops(layout, informations)
    return layout


def _check_noops(layout: Layout, informations: Sequence[Information]) -> None:
    for it in informations:
        if not it.space.contains(it.value):  # an array that was changed after it was set
            type(it)(it.value, it.space, it.uid)  # refuses it by its id
    infinite = layout.infinite([it.value for it in informations])
    if infinite is not None:
        raise AuthorError(f"actuator {infinite!r}: expected a finite number as its no-op")


def difference(before: Sequence[tuple[str, Any]], now: Sequence[tuple[str, Any]]) -> str | None:
    """Return in words how declarations, as ids with spaces, differ from those before; None if they do not."""
    if list(before) == list(now):
        return None
    old, new = dict(before), dict(now)
    for uid in old:
        if uid not in new:
            return f"{uid} is missing"
    for uid in new:
        if uid not in old:
            return f"{uid} is new"
    for uid, space in new.items():
        if space != old[uid]:
            return f"the space of {uid} was {old[uid]!s:.200} and is {space!s:.200}"
    order, other = (", ".join(uid for uid, _ in pairs) for pairs in (before, now))
    return f"the order was {order:.200} and is {other:.200}"


def row_of(what: str, layout: Layout, informations: Any) -> list[Any]:
    """Return informations, in any order, as they travel.

    Raises:
        AuthorError: One is strange, missing, doubled or without a value, or a reward is infinite; it names the id.
        SpaceError: The declared space does not contain the value, whatever space its author gave it.
    """
    try:
        same = tuple([i.uid for i in informations]) == layout.ids
    except (AttributeError, TypeError):
        listed(what, informations)  # says what is wrong
        raise
    ordered = informations if same else _in_order(what, layout, informations)
    values = [i.value for i in ordered]
    for value, information, space in zip(values, ordered, layout.spaces, strict=True):
        if value is None:
            raise AuthorError(f"{what} {information.uid!r} has no value")
        if information.space is not space:  # else it was checked when it was set
            _contained(information, space)
    infinite = layout.infinite(values) if what == "reward" else None
    if infinite is not None:
        raise AuthorError(f"reward {infinite!r}: expected a finite number, found {values!r:.80}")
    try:
        return layout.to_row(values)
    except SpaceError:  # an array that was changed after it was set
        for information, space in zip(ordered, layout.spaces, strict=True):
            _contained(information, space)
        raise


def _in_order(what: str, layout: Layout, informations: Sequence[Information]) -> list[Information]:
    given = {i.uid: i for i in informations}
    strange = [uid for uid in given if uid not in layout.index]
    missing = [uid for uid in layout.ids if uid not in given]
    if strange:
        raise AuthorError(f"{what} {strange[0]!r} was not declared")
    if missing:
        raise AuthorError(f"{what} {missing[0]!r} is missing")
    if len(given) < len(informations):
        uids = [i.uid for i in informations]
        twice = next(uid for uid in uids if uids.count(uid) > 1)
        raise AuthorError(f"{what} {twice!r} is given twice")
    return [given[uid] for uid in layout.ids]


def _contained(information: Information, space: Space) -> None:
    if not space.contains(information.value):
        type(information)(information.value, space, information.uid)  # refuses it by its id


def static_model(given: Any) -> dict[str, Any] | None:
    """Return what an environment tells of itself as it travels; AuthorError names the path to what cannot."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise AuthorError(f"static_world_model: expected a map with text keys, found {given!r:.80}")
    frozen: dict[str, Any] = freeze(given, None, "static_world_model")
    return frozen
