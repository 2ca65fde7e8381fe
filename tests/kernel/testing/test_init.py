from __future__ import annotations

import subprocess
import sys

import pytest

from ganglion import testing


@pytest.mark.parametrize("name", testing.__all__)
def test_each_public_name_is_there(name: str) -> None:
    """It is loaded from its module when it is asked for."""
    assert name == getattr(testing, name).__name__


def test_a_strange_name_is_none() -> None:
    """It is refused as by any module."""
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        testing.nothing  # noqa: B018 - asking is what is tested


def test_the_room_alone_loads_nothing() -> None:
    """Numpy comes with the first check, not with the package."""
    script = "import ganglion.testing, sys; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert ("False", "") == (done.stdout.strip(), done.stderr)
