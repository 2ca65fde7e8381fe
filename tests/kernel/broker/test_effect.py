from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from ganglion.broker.link import Close, Link, Note, Send


@pytest.mark.parametrize("effect", [Send(Link(1, 0.0), (b"",)), Close(Link(1, 0.0), "left"), Note("info", "x")])
def test_effects_do_not_change(effect: Send | Close | Note) -> None:
    """What was decided stays decided."""
    field = effect.__slots__[0]

    with pytest.raises(FrozenInstanceError):
        setattr(effect, field, None)
