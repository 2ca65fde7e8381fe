from __future__ import annotations

import typing
from dataclasses import FrozenInstanceError, fields

import pytest

from ganglion.run import effect


@pytest.mark.parametrize("kind", typing.get_args(effect.Effect))
def test_effects_do_not_change(kind: type) -> None:
    """What was decided stays decided, and is exported."""
    made = kind(*[None] * len(fields(kind)))

    assert kind.__name__ in effect.__all__
    with pytest.raises(FrozenInstanceError):
        setattr(made, fields(kind)[0].name, 1)
