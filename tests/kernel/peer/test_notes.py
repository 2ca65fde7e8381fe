from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import AuthorError
from ganglion.peer.agent.decision import Notes
from ganglion.peer.author import ToleratedErrors
from ganglion.sdk import Brain


class FakeBrain(Brain):
    """Note what a test says."""

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        """Think of nothing."""


@pytest.fixture
def tolerated_errors() -> ToleratedErrors:
    """Return tolerated_errors of which nobody is told."""
    return ToleratedErrors(lambda: None, "r")


def test_a_successor_has_them(tolerated_errors: ToleratedErrors) -> None:
    """They are part of a checkpoint; what is left at the end is told by itself, once."""
    notes, brain, other = Notes(tolerated_errors), FakeBrain(), Notes(tolerated_errors)
    brain.add_statistics("loss", 1.0)
    tolerated_errors.take("brain:a", "thinking", AuthorError("no"))
    notes.take(2, brain)
    other.restore(notes.export())

    assert [{"issuer": "brain:a", "hook": "thinking", "reason": "AuthorError: no"}] == other.left()
    assert other.left() is None
    assert (None, {"brain.loss": 1.0}) == other.pop(2)
    assert notes.pop(2)[0] is not None
