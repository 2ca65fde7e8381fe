"""`ganglion schema`: the JSON Schema of documents, for editors and other programs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ganglion import registry
from ganglion.document import schema
from ganglion.errors import UsageError

__all__ = ["command"]


@click.command("schema")
@click.argument("kind", type=click.Choice(["run"]), default="run")
@click.option("--out", type=click.Path(dir_okay=False), metavar="FILE", help="write to a new file")
def command(kind: str, out: str | None) -> None:
    """Print the JSON Schema (2020-12) of run documents; installed plugins are examples, not a closed list."""
    installed = {group: [entry.name for entry in registry.entries(group)] for group in registry.GROUPS}
    text = json.dumps(schema(installed), indent=2)
    if out is None:
        click.echo(text)
        return
    try:
        with Path(out).open("x", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise UsageError(
            f"{out}: cannot be written: {error.strerror or error}; nothing is overwritten"
        ) from error
