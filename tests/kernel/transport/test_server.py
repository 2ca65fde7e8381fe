from __future__ import annotations

import json
import subprocess
import sys

import pytest

ORDER = {"endpoints": ["ipc:///x"], "supervisor_token_sha256": 64 * "0"}


@pytest.mark.parametrize(
    ("order", "error"),
    [
        (ORDER, "expected more than 64 descriptors (ulimit -n), found 64"),
        ({**ORDER, "remote": ["tcp://0.0.0.0:0"]}, "secret_key: expected a CURVE key of 40 characters in Z85, found"),
        ({**ORDER, "listening": ["x"]}, "expected one line of JSON with endpoints and supervisor_token_sha256"),
        ({"endpoints": []}, "expected one line of JSON with endpoints and supervisor_token_sha256"),
    ],
)
def test_an_order_that_cannot_be_carried_out(order: object, error: str) -> None:
    """A broker that lacks descriptors, or does not understand its order, says so in one line and ends with 1."""
    broker = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -n 64 && exec "$0" "$@"', sys.executable, "-m", "ganglion.transport.server"],
        input=json.dumps(order) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )

    assert json.loads(broker.stdout)["error"].startswith(error)
    assert 1 == broker.returncode
