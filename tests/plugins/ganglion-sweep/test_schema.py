from __future__ import annotations

import yaml
from jsonschema import Draft202012Validator

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


def test_documents_pass_or_fail_as_by_the_reader(grid: str, head: str) -> None:
    """What the reader takes passes the schema; a misspelt key, a wrong type and a missing one do not."""
    validator = Draft202012Validator(schema({}))
    sampled = f"{head}factors: {{a: {{set: x, range: {{low: 1, high: 2}}}}}}\ndesign: {{name: lhs}}\nsamples: 3\n"

    def takes(text: str) -> bool:
        return bool(validator.is_valid(yaml.safe_load(text)))

    assert all(map(takes, (grid, sampled, grid.split("run:")[0] + "run: base.yml\n", f"{grid}design: lhs\nx-a: 1\n")))
    wrong = (f"{grid}repetition: 2\n", f"{grid}repetitions: 0\n", f"{grid}seeds: []\n", grid.replace("uid: grid\n", ""))
    assert not any(map(takes, (*wrong, grid.replace("levels", "level"), grid.replace("phase_config", "phase_confg"))))
