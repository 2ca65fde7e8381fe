from __future__ import annotations

import itertools
from typing import Any

import pytest

from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

# What a connection may say in a state, and where that leads; everything else ends it.
EXPECTED = {
    ("connected", "HELLO"): "joined",
    ("connected", "BYE"): "gone",
    ("joined", "CALL"): "joined",
    ("joined", "REPLY"): "joined",
    ("joined", "ERROR"): "joined",
    ("joined", "TELL"): "joined",
    ("joined", "SIGNAL"): "joined",
    ("joined", "BEAT"): "joined",
    ("joined", "BYE"): "gone",
}


@pytest.mark.parametrize(("state", "verb"), list(itertools.product(["connected", "joined"], Verb)))
def test_broker_obeys_the_table(bus: Any, state: str, verb: Verb) -> None:
    """Each verb in each state leads where the table says; what is no cell is refused and ends the connection."""
    link = bus.connect() if state == "connected" else bus.join("farm/store", Role.STORE)
    said = bus.say(link, "", verb, 7)
    expected = EXPECTED.get((state, verb.name), "gone")
    if (state, verb) == ("connected", Verb.HELLO):
        expected = "gone"  # an empty HELLO says no version

    assert expected == link.state.value
    if (state, verb.name) not in EXPECTED:
        assert [(Verb.ERROR, 0, "protocol")] == [(row[2], row[3], row[5]["kind"]) for row in said]
        assert f"{verb.name} is not allowed for a peer that is {state}" == said[0][5]["message"]
    assert (link in bus.closed) == (expected == "gone")
