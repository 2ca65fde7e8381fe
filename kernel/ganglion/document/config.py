"""Settings files: places of results, store and kernel, and permissions; checked like documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ganglion.document.fault import report, settle
from ganglion.document.marks import Node, Source, compose
from ganglion.document.model import Expect, Form, PluginName, Text, validate
from ganglion.document.schema import cleaned
from ganglion.document.spelling import walk
from ganglion.errors import DocumentError
from ganglion.limits import JOURNAL_BEGIN_BYTES, JOURNAL_BYTES, PROCESSES_PER_RUN, PROCESSES_PER_RUN_MAX

NUMBERS = {"processes_per_run": (1, PROCESSES_PER_RUN_MAX), "journal_begin_bytes": (4096, JOURNAL_BYTES)}
"""Settings that are integers: the least and the largest."""

Names = Annotated[list[PluginName], Expect("a list of names")]


_PROCESSES, _BYTES = (Expect(f"an integer from {low} to {high}") for low, high in NUMBERS.values())


class Config(Form):
    """Hold the settings of all runs; none of them changes a result."""

    results: Text = Field("results", description="folder of the results, relative to the working folder")
    store: Text = Field("", description="URI of the store; default: ganglion.db in the results folder")
    kernel: Text = Field("", description="connection file of the kernel to talk to")
    bind: Text = Field("", description="endpoint for programs on other machines, encrypted")
    cpus: Text = Field(
        "auto",
        description="`auto`: a worker is kept on one processor where that is measured to be faster; `free`: the system "
        "places all processes; or the processors that runs are kept on, as in `0`, `0,2` or `1-3`",
    )
    launcher: Text = Field("local", description="plugin that starts the processes of runs")
    launchers: dict[PluginName, dict[str, Any]] = Field({}, description="arguments of launchers, by name")
    allow: Names = Field([], description="packages that import paths in documents may name")
    block: Names = Field([], description="plugins and distributions that are blocked, by name")
    commands: Literal["allow", "deny"] = Field("allow", description="whether documents may start programs")
    readers: Literal["owner", "group", "all"] = Field(
        "owner", description="who may read results, models and logs of runs"
    )
    processes_per_run: Annotated[int, Field(ge=1, le=PROCESSES_PER_RUN_MAX), _PROCESSES] = Field(
        PROCESSES_PER_RUN, description="how many processes a run may have"
    )
    journal_begin_bytes: Annotated[int, Field(ge=4096, le=JOURNAL_BYTES), _BYTES] = Field(
        JOURNAL_BEGIN_BYTES, description="length from which on the state of a process replaces its journal"
    )


def read_config(path: Path) -> dict[str, Node]:
    """Return the values of a settings file and their places; DocumentError has every fault."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    root, found = compose(Source(str(path), text), text)
    if root is not None and root.value is not None:
        walk(root, "")
        found = [*found, *validate(root, Config)]
        if not isinstance(root.value, dict):
            found = [root.fault(f"expected a map of settings, found {root.found()}")]
    if found:
        found = settle(found)
        raise DocumentError(report(found), found)
    return {} if root is None else root.map


def config_schema(installed: Any = None) -> dict[str, Any]:
    """Return the JSON Schema of settings files."""
    header = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Ganglion settings"}
    return {**header, **cleaned(Config.model_json_schema())}
