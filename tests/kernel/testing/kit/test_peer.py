from __future__ import annotations

from typing import Any

import pytest

from ganglion.testing.kit.inmemory import PluginDriver
from ganglion.testing.kit.peer import Driver, Peer, Place
from ganglion.testing.kit.process import AttachedDriver, ProgramDriver


def _asked(protocol: type[Any]) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}


@pytest.mark.parametrize("driver", [PluginDriver("pendulum"), ProgramDriver(["cat"]), AttachedDriver("a")])
def test_driver_and_its_peer_have_all_that_the_kit_asks(driver: Driver) -> None:
    """Each way to a peer offers every call of the interface, and leaves nothing behind."""
    peer = driver.start(Place("environment", "kit/environment/a/0", "token"))
    try:
        assert [] == [name for name in _asked(Driver) if not hasattr(driver, name)]
        assert [] == [name for name in _asked(Peer) if not hasattr(peer, name)]
    finally:
        peer.stop()
