from __future__ import annotations

from typing import Any

from ganglion.run.effect import Services


def test_it_names_what_a_governor_asks(kit: Any) -> None:
    """Whoever stands in for the world of a governor has all that is asked of it."""
    asked = {name for name in vars(Services) if not name.startswith("_")}

    assert {"words", "integer", "conditions", "now", "model", "shelf", "fit", "pretraining"} == asked
    assert asked <= set(dir(kit.FakeServices))
