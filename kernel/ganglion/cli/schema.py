"""`ganglion schema`: the JSON Schema of documents, for editors and other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ganglion import registry
from ganglion.cli.table import opened
from ganglion.document import schema
from ganglion.document.config import config_schema
from ganglion.document.fault import nearest
from ganglion.document.schema import PARAMETERISED, with_parameters
from ganglion.errors import UsageError


@click.command("schema")
@click.argument("kind", default="run", metavar="[run|config|...]")
@click.option("--plugins", is_flag=True, help="the parameters of installed plugins, too; imports them in a child")
@click.option(
    "--out", type=click.Path(dir_okay=False), metavar="FILE", help="write to a new file, - for standard output"
)
def command(kind: str, plugins: bool, out: str | None) -> None:
    """Print the JSON Schema (2020-12) of a kind of documents, or of settings files (`config`).

    Installed plugins are examples, not a closed list.
    """
    text = json.dumps(_schema(kind, plugins), indent=2)
    if out is None:
        click.echo(text)
        return
    with opened(Path(out)) as file:
        file.write(text + "\n")


def _schema(kind: str, plugins: bool) -> dict[str, Any]:
    """Return the schema of run documents, or that of a kind of documents that a plugin knows.

    That one may have the definitions of run documents inside; then it takes the parameters of plugins, too.
    """
    installed = {group: [entry.name for entry in registry.entries(group)] for group in registry.GROUPS}
    kinds = {"run": schema, "config": config_schema, **{entry.name: None for entry in registry.entries("schema")}}
    if kind not in kinds:
        names = ", ".join(repr(name) for name in kinds)
        raise UsageError(f"expected a kind of documents, {names}, found {kind!r}{nearest(kind, kinds)}")
    make = kinds[kind] or registry.load("schema", kind)
    tree: dict[str, Any] = make(installed)
    if not plugins:
        return tree
    if "Agent" not in tree.get("$defs", {}):
        raise UsageError(f"--plugins: documents of the kind {kind!r} name no plugins")
    from ganglion.cli.child import parameters  # child processes are for those who ask for them

    return with_parameters(tree, parameters(PARAMETERISED))
