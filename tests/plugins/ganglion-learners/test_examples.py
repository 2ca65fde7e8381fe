from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from ganglion_learners import examples


@pytest.mark.parametrize("name", examples.__all__)
def test_is_found_by_its_name(name) -> None:
    """Each example is registered as a document, and its file is in the package under that uid."""
    place = getattr(examples, name)
    uid = name.lower().replace("_", "-")
    [point] = entry_points(group="ganglion.documents", name=uid)

    assert place == point.load()
    assert f"uid: {uid}" in place.read_text(encoding="utf-8").splitlines()
