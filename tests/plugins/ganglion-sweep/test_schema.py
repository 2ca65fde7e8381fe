from __future__ import annotations

import yaml
from jsonschema import Draft202012Validator

from ganglion_sweep.schema import schema


def test_documents_pass_or_fail_as_by_the_reader(grid: str, head: str) -> None:
    """What the reader takes passes the schema; a misspelt key, a wrong type and a missing one do not."""
    validator = Draft202012Validator(schema({}))
    sampled = f"{head}factors: {{a: {{set: x, range: {{low: 1, high: 2}}}}}}\ndesign: {{name: lhs}}\nsamples: 3\n"

    def takes(text: str) -> bool:
        return bool(validator.is_valid(yaml.safe_load(text)))

    assert all(map(takes, (grid, sampled, grid.split("run:")[0] + "run: base.yml\n", f"{grid}design: lhs\nx-a: 1\n")))
    wrong = (f"{grid}repetition: 2\n", f"{grid}repetitions: 0\n", f"{grid}seeds: []\n", grid.replace("uid: grid\n", ""))
    assert not any(map(takes, (*wrong, grid.replace("levels", "level"), grid.replace("phase_config", "phase_confg"))))
