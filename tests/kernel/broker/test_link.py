from __future__ import annotations

from ganglion.broker.link import Admission, Link, Route, State
from ganglion.wire.name import Role


def test_new_link_is_a_stranger() -> None:
    """A connection begins without a peer, a route or a debt."""
    link = Link(3, 5.0)

    assert (State.CONNECTED, None, {}, "stranger 3") == (link.state, link.peer, link.routes, link.name)
    assert (5.0, 5.0, None, 0) == (link.born_s, link.heard_s, link.asked_s, link.queued_bytes)


def test_new_route_owes_nothing() -> None:
    """A route begins without open calls and without a way back."""
    route = Route(1 << 3, b"me", Link(1, 0.0), 64)

    assert ([], None, 64) == (route.open, route.back, route.limit)


def test_links_and_routes_cost_no_dictionary() -> None:
    """There are as many routes as pairs of peers: each holds its fields and nothing more."""
    assert not hasattr(Link(1, 0.0), "__dict__")
    assert not hasattr(Route(0, b"", Link(1, 0.0), 1), "__dict__")


def test_pattern_stands_for_many() -> None:
    """A name that ends in a star is given out with numbers."""
    assert Admission("observer-*", Role.OBSERVER, "", b"").numbered
    assert not Admission("observer-1", Role.OBSERVER, "", b"").numbered
