"""`ganglion check`, `schema`: commands for documents that start no run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ganglion import registry
from ganglion.cli.session import document_file
from ganglion.cli.settings import Settings
from ganglion.cli.stores import store_of
from ganglion.cli.table import opened
from ganglion.document import load_document, resolved, schema
from ganglion.document.config import config_schema
from ganglion.document.fault import Fault, gathered, report, settle, summary
from ganglion.document.schema import PARAMETERISED, with_parameters
from ganglion.document.spelling import AS_IT_IS
from ganglion.errors import DocumentError, UsageError
from ganglion.sdk.naming import nearest


@click.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--deep", is_flag=True, help="import the plugins in child processes and start each environment once")
@click.option("--strict", is_flag=True, help="warnings count as errors")
@click.option("--resolved", "whole", is_flag=True, help="print the document after cascade and defaults")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="set a value before checking")
@click.option("--allow", multiple=True, metavar="PACKAGE", help="a package that import paths may name")
@click.pass_obj
def check(settings: Settings, /, files: tuple[str, ...], deep: bool, strict: bool, whole: bool, **more: Any) -> int:
    """Check run documents and print all faults at once, importing no plugin unless asked to.

    Beside resolved documents the faults go to standard error.
    """
    rows: list[dict[str, Any]] = []
    severities: set[str] = set()
    for file in map(document_file, files):
        notes: list[Fault] = []
        tracebacks: list[str] = []
        row: dict[str, Any] = {}
        try:
            plan, faults = load_document(file, plugins=registry, notes=notes, **more)
            row = {"resolved": resolved(plan)} if whole else {}
            if deep:
                from ganglion.cli.child import check_deeply

                there = settings.store is not None or settings.results.is_dir()  # a run makes the folder of its results
                places = (store_of(settings) if there else None, str(settings.results.absolute()))
                faults = settle([*faults, *check_deeply(plan, *places, tracebacks)])
        except DocumentError as error:
            faults = list(error.faults)
        if notes and (settings.verbosity > 0 or any(note.message.endswith(AS_IT_IS) for note in notes)):
            click.echo(gathered(notes), err=True)
        errors = sum(fault.severity == "error" for fault in faults)
        head = {"file": file, "faults": [fault.to_map() for fault in faults]}
        rows.append({**head, "errors": errors, "warnings": len(faults) - errors, **row})
        severities |= {fault.severity for fault in faults}
        if not settings.json:
            if faults or not whole:
                click.echo(report(faults) if faults else f"{file}: {summary(faults)}", err=whole)
            if row:
                click.echo(("---\n" if len(files) > 1 else "") + row["resolved"], nl=False)
        for text in tracebacks:
            click.echo(text, err=True)
    if settings.json:
        click.echo(json.dumps(rows, indent=2))
    return 2 if "error" in severities or (strict and severities) else 0


@click.command("schema")
@click.argument("kind", default="run", metavar="[run|config|...]")
@click.option("--plugins", is_flag=True, help="the parameters of installed plugins, too; imports them in a child")
@click.option(
    "--out", type=click.Path(dir_okay=False), metavar="FILE", help="write to a new file, - for standard output"
)
def print_schema(kind: str, plugins: bool, out: str | None) -> None:
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

    A plugin's schema may contain the definitions of run documents; if so, it takes the parameters of plugins, too.
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
    from ganglion.cli.child import parameters

    return with_parameters(tree, parameters(PARAMETERISED))
