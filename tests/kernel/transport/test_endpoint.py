from __future__ import annotations

import pytest

from ganglion.errors import LaunchError
from ganglion.transport.endpoint import Endpoint, parse_endpoint

GOOD = {
    "ipc:///tmp/a.sock": (Endpoint(path="/tmp/a.sock"), True),
    "tcp://127.0.0.1:0": (Endpoint(host="127.0.0.1"), True),
    "tcp://127.9.9.9:65535": (Endpoint(host="127.9.9.9", port=65535), True),
    "tcp://localhost:5": (Endpoint(host="localhost", port=5), True),
    "tcp://[::1]:5": (Endpoint(host="::1", port=5), True),
    "tcp://10.0.0.1:5": (Endpoint(host="10.0.0.1", port=5), False),
    "tcp://0.0.0.0:5": (Endpoint(host="0.0.0.0", port=5), False),
    "tcp://localhost.example.org:5": (Endpoint(host="localhost.example.org", port=5), False),
}


@pytest.mark.parametrize("text", GOOD)
def test_good_endpoints(text: str) -> None:
    """An endpoint is read and printed again, and known to be of this machine or not."""
    endpoint, local = GOOD[text]

    assert endpoint == parse_endpoint(text)
    assert text == str(endpoint)
    assert local == endpoint.local


@pytest.mark.parametrize(
    "text",
    ["", "ipc://", "ipc://@abstract", "ipc://relative", "ipc:///" + "x" * 108, "tcp://host", "tcp://:5", "tcp://h:x",
     "tcp://h:70000", "tcp://h:\u0661", "udp://h:5", "/tmp/a.sock"],
)  # fmt: skip
def test_bad_endpoints(text: str) -> None:
    """What is no endpoint of ours is refused with what was expected."""
    with pytest.raises(LaunchError, match="expected"):
        parse_endpoint(text)
