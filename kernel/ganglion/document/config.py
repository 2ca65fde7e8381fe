"""Settings files: where results, store and kernel are, what is allowed, which limits hold; checked like documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ganglion.document.fault import Fault, nearest, report, settle
from ganglion.document.marks import Node, Source, compose
from ganglion.document.model import Expect, Form, Text, validate
from ganglion.document.schema import cleaned
from ganglion.document.spelling import walk
from ganglion.errors import DocumentError
from ganglion.limits import changeable

Packages = Annotated[
    list[str],
    Expect(
        "a list of names",
        lambda v: isinstance(v, list) and all(isinstance(part, str) and part for part in v),
        {"type": "array", "items": {"type": "string", "minLength": 1}},
    ),
]
Commands = Annotated[
    str, Expect("one of allow, deny", lambda v: v in ("allow", "deny"), {"enum": ["allow", "deny"]})
]
_READERS = ("owner", "group", "all")
Readers = Annotated[
    str, Expect("one of owner, group, all", lambda v: v in _READERS, {"enum": list(_READERS)})
]
Limits = Annotated[dict[str, Any], Expect("a map", lambda v: isinstance(v, dict), {"type": "object"})]


class Config(Form):
    """Say what is so for all runs; what changes a result is none of these."""

    results: Text = Field("results", description="folder of the results, seen from the working folder")
    store: Text = Field("", description="URI of the store; default: ganglion.db in the results folder")
    kernel: Text = Field("", description="connection file of the kernel to talk to")
    bind: Text = Field("", description="endpoint for programs on other machines, encrypted")
    cpus: Text = Field(
        "", description="processors that runs are kept on, as in `0`, `0,2` or `1-3`; default: all"
    )
    allow: Packages = Field([], description="packages that import paths in documents may name")
    block: Packages = Field([], description="plugins and distributions that nobody may use, by name")
    commands: Commands = Field("allow", description="whether documents may start programs")
    readers: Readers = Field("owner", description="who may read results, models and logs of runs")
    limits: Limits = Field({}, description="bounds of all processes of a kernel, by name")


def read_config(path: Path) -> dict[str, Node]:
    """Return the values of a settings file with their places; an empty file has none.

    Raises:
        DocumentError: With every fault in `faults`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    root, found = compose(Source.of(str(path), text), text)
    if root is not None and root.value is not None:
        walk(root, "")
        found = [*found, *(fault for _, fault in validate(root, Config)), *_limits(root)]
        if not isinstance(root.value, dict):
            found = [root.fault(f"expected a map of settings, found {root.found()}")]
    if found:
        found = settle(found)
        raise DocumentError(report(found), found)
    return {} if root is None else root.map


def is_limit(name: str, value: Any) -> str:
    """Return what is wrong with a value for a limit, nothing if it is one."""
    known = changeable()
    if name not in known:
        return f"unknown limit{nearest(name, known)}"
    if isinstance(known[name], int):
        return "" if type(value) is int and value >= 1 else "expected an integer >= 1"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return "" if number and 0 < value < float("inf") else "expected a number > 0"


def config_schema(installed: Any = None) -> dict[str, Any]:
    """Return the JSON Schema of settings files."""
    tree = Config.model_json_schema()
    kinds = {int: {"type": "integer", "minimum": 1}, float: {"type": "number", "exclusiveMinimum": 0}}
    limits = {name: {**kinds[type(value)], "default": value} for name, value in changeable().items()}
    tree["properties"]["limits"] |= {"properties": limits, "additionalProperties": False}
    header = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Ganglion settings"}
    return {**header, **cleaned(tree)}


def _limits(root: Node) -> list[Fault]:
    found = []
    part = root.map.get("limits")
    for name, node in ({} if part is None else part.map).items():
        wrong = is_limit(name, node.plain())
        if wrong.startswith("unknown"):
            found.append(part.keys[name].fault(wrong))  # type: ignore[union-attr]  # it has entries
        elif wrong:
            found.append(node.fault(f"{wrong}, found {node.found()}"))
    return found
