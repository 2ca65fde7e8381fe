from __future__ import annotations

from ganglion_toys.none import NoneBrain


def test_never_answers(make) -> None:
    """The none brain has no update, with data and without."""
    brain = make(NoneBrain)

    assert (None, None) == (brain.thinking("m/0", None), brain.thinking("m/0", 3))
