from __future__ import annotations

from ganglion_sweep.model import ExperimentForm
from ganglion_sweep.schema import schema


def test_schema() -> None:
    """Every key is there with its description; the run document is inside, without the keys that may be missing."""
    tree = schema({"environment": ["dummy"], "design": ["lhs"]})

    assert "https://json-schema.org/draft/2020-12/schema" == tree["$schema"]
    assert set(ExperimentForm.model_fields) == set(tree["properties"])
    assert all(part.get("description") for part in tree["properties"].values())
    assert {"uid", "seed", "run"} == set(tree["required"])
    assert "schedule" in tree["$defs"]["Run"]["properties"]
    assert not {"uid", "seed"} & set(tree["$defs"]["Run"]["required"])
    assert ["full", "list", "lhs"] == tree["$defs"]["DesignForm"]["properties"]["name"]["examples"]
    assert "dummy" in tree["$defs"]["Environment"]["properties"]["name"]["examples"]


def test_every_reference_leads_somewhere() -> None:
    """Definitions that are referred to are there."""

    def references(tree: object) -> set[str]:
        if isinstance(tree, dict):
            own = {tree["$ref"]} if isinstance(tree.get("$ref"), str) else set()
            return own.union(*(references(part) for part in tree.values()))
        return set().union(*(references(part) for part in tree)) if isinstance(tree, list) else set()

    tree = schema({})
    assert references(tree) <= {f"#/$defs/{name}" for name in tree["$defs"]}
