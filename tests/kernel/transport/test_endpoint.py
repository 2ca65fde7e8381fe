from __future__ import annotations

import pytest

from ganglion.errors import LaunchError
from ganglion.transport.endpoint import parse_endpoint


@pytest.mark.parametrize(
    "text",
    ["", "ipc://", "ipc://@abstract", "ipc://relative", "ipc:///" + "x" * 108, "tcp://host", "tcp://:5", "tcp://h:x",
     "tcp://h:70000", "tcp://h:\u0661", "udp://h:5", "/tmp/a.sock"],
)  # fmt: skip
def test_bad_endpoints(text: str) -> None:
    """What is no endpoint of ours is refused with what was expected."""
    with pytest.raises(LaunchError, match="expected"):
        parse_endpoint(text)
