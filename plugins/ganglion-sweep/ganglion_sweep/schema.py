"""The JSON Schema (2020-12) of experiment documents, with that of run documents inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ganglion.cli.extension import cleaned
from ganglion.cli.extension import schema as run_schema
from ganglion_sweep.model import ExperimentForm


def schema(installed: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the schema; `installed` maps kinds of plugins to their short names, which become examples."""
    tree = ExperimentForm.model_json_schema()
    definitions = {name: cleaned(part) for name, part in tree.pop("$defs").items()}
    whole = cleaned(tree)
    run = run_schema(installed)
    header = {"$schema": run.pop("$schema"), "title": "Ganglion experiment document"}
    definitions |= run.pop("$defs")
    run.pop("title")
    run["required"] = [key for key in run.get("required", ()) if key not in ("uid", "seed")]
    about = whole["properties"]["run"]["description"]
    text = {"type": "string", "minLength": 1, "description": "path of a run document, relative to this one"}
    definitions["Run"] = run
    whole["properties"]["run"] = {"anyOf": [text, {"$ref": "#/$defs/Run"}], "description": about}
    name = {"type": "string", "minLength": 1, "examples": ["full", "list", *installed.get("design", ())]}
    definitions["DesignForm"]["properties"]["name"] |= {"examples": name["examples"]}
    design = whole["properties"]["design"]
    whole["properties"]["design"] = {
        "anyOf": [{**name, "description": "short for `{name: ...}`"}, {"$ref": "#/$defs/DesignForm"}],
        "default": "full",
        "description": design.get("description", ""),
    }
    whole["patternProperties"] = {"^x-": {"description": "ignored: a place for anchors"}}
    return {**header, **whole, "$defs": definitions}
