from __future__ import annotations

from ganglion_store.nearest import nearest


def test_the_nearest_name_is_offered() -> None:
    """A name like another is answered with it, any other with all there are, none with nothing."""
    assert "; did you mean `steps`?" == nearest("stpes", ["runs", "steps"])
    assert "; there are: runs, steps" == nearest("x", ["runs", "steps"])
    assert not nearest("x", [])
