from typing import Any

import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.wire.codec import codec_of, encode_map
from ganglion.wire.messages import EnvironmentUpdate, EnvironmentUpdated


def test_least_answer() -> None:
    """Readings and rewards are enough for a step: it has not ended, and says nothing of its time."""
    updated = codec_of(EnvironmentUpdated).decode(encode_map({"readings": [[0.5]], "rewards": [[1.0]]}))

    assert EnvironmentUpdated([[0.5]], [[1.0]], terminated=False, truncated=False, ticks=None) == updated


def test_flags_are_booleans() -> None:
    """A number is no flag: 1 is refused by the field's name."""
    body = {"readings": [], "rewards": [], "terminated": 1}

    with pytest.raises(RemoteProtocolError, match=r"environmentupdated\.terminated: expected"):
        codec_of(EnvironmentUpdated).decode(encode_map(body))


@pytest.mark.parametrize("value", [True, 3, 0.5, [0.5, 1.5], [[1, 2], [3, 4]], bytes(16)], ids=str)
def test_forms_of_a_value(value: Any) -> None:
    """A value of a row may be a number, a boolean, a nested list, or the bytes of an array, and stays what it is."""
    update = codec_of(EnvironmentUpdate).decode(encode_map({"setpoints": [[value]]}))

    assert (value, type(value)) == (update.setpoints[0][0], type(update.setpoints[0][0]))


def test_no_actuators_are_not_all() -> None:
    """`actuators` that are not given are all of them; an empty list is none."""
    codec = codec_of(EnvironmentUpdate)

    assert codec.decode(encode_map({"setpoints": [[]]})).actuators is None
    assert [] == codec.decode(encode_map({"setpoints": [[]], "actuators": []})).actuators
