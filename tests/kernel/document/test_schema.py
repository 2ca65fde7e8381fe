from __future__ import annotations

from ganglion import registry
from ganglion.document.schema import PARAMETERISED


def test_editors_and_loader_know_the_same_kinds() -> None:
    """Each kind of plugin that stands in a document has a place for its parameters, and is a kind that there is."""
    assert set(registry.GROUPS) >= set(PARAMETERISED)
    assert {"environment", "muscle", "brain", "objective", "condition", "controller"} <= set(PARAMETERISED)
