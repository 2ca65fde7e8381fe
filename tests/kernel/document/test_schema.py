from __future__ import annotations

import json
from typing import Any

from ganglion import registry
from ganglion.document import schema
from ganglion.document.schema import PARAMETERISED


def test_header() -> None:
    """The schema names its draft."""
    assert "https://json-schema.org/draft/2020-12/schema" == schema()["$schema"]


def test_editors_and_loader_know_the_same_kinds() -> None:
    """Each kind of plugin that stands in a document has a place for its parameters, and is a kind that there is."""
    assert set(registry.GROUPS) >= set(PARAMETERISED)
    assert {"environment", "muscle", "brain", "objective", "condition", "controller"} <= set(PARAMETERISED)


PLACES = {  # kind -> path of a `{name, params}` in `document`
    "environment": ["schedule", 0, "one", "environments", 0, "environment"],
    "reward": ["schedule", 0, "one", "environments", 0, "reward"],
    "transformer": ["schedule", 0, "one", "environments", 0, "state_transformer"],
    "muscle": ["schedule", 0, "one", "agents", 0, "muscle"],
    "brain": ["schedule", 0, "one", "agents", 0, "brain"],
    "objective": ["schedule", 0, "one", "agents", 0, "objective"],
    "filter": ["schedule", 0, "one", "agents", 0, "filters", 0],
    "controller": ["schedule", 0, "one", "simulation"],
    "condition": ["run_config", "conditions", 0],
}


def document(kind: str, plugin: dict[str, Any]) -> dict[str, Any]:
    """Return a document in which one plugin has these keys."""
    own = {"name": "other", "params": {"size": "any"}}
    whole: dict[str, Any] = {
        "uid": "u",
        "seed": 1,
        "run_config": {"conditions": [own]},
        "schedule": [
            {
                "one": {
                    "environments": [{"environment": {"uid": "e", **own}, "reward": own, "state_transformer": own}],
                    "agents": [{"name": "a", "muscle": own, "brain": own, "objective": own, "filters": [own]}],
                    "simulation": own,
                }
            }
        ],
    }
    whole = json.loads(json.dumps(whole))
    *path, last = PLACES[kind]
    place: Any = whole
    for part in path:
        place = place[part]
    place[last] = {**({"uid": "e"} if kind == "environment" else {}), **plugin}
    return whole
