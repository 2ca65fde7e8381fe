"""`ganglion check`: all faults of documents at once; starts nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from ganglion import registry
from ganglion.cli.session import document_file
from ganglion.cli.settings import Settings
from ganglion.document import load_document, resolved
from ganglion.document.fault import Fault, gathered, report, settle, summary
from ganglion.errors import DocumentError
from ganglion.run.plan import Plan


@click.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--deep", is_flag=True, help="import the plugins in child processes and start each environment once")
@click.option("--strict", is_flag=True, help="warnings count as errors")
@click.option("--resolved", "whole", is_flag=True, help="print the document after cascade and defaults")
@click.option("--format", "form", type=click.Choice(["text", "json"]), help="json: as --json [text]")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="set a value before checking")
@click.option("--allow", multiple=True, metavar="PACKAGE", help="a package that import paths may name")
@click.pass_obj
def command(
    settings: Settings,
    files: tuple[str, ...],
    deep: bool,
    strict: bool,
    whole: bool,
    form: str | None,
    overrides: tuple[str, ...],
    allow: tuple[str, ...],
) -> int:
    """Check run documents and print all faults at once, importing no plugin unless asked to."""
    rows = []
    for file in map(document_file, files):
        notes: list[Fault] = []
        plan, faults = _check(file, overrides, allow, deep, notes)
        if notes and settings.verbosity > 0:
            click.echo(gathered(notes), err=True)
        rows.append((file, plan, faults))
    _print(rows, settings.json if form is None else form == "json", whole)
    severities = {fault.severity for _, _, faults in rows for fault in faults}
    return 2 if "error" in severities or (strict and severities) else 0


def _check(
    file: str, overrides: Sequence[str], allow: Sequence[str], deep: bool, notes: list[Fault]
) -> tuple[Plan | None, list[Fault]]:
    """Return the plan of a document, None where it has faults, and the faults and warnings; fill `notes`."""
    try:
        plan, faults = load_document(file, plugins=registry, overrides=overrides, allow=allow, notes=notes)
    except DocumentError as error:
        return None, list(error.faults)
    if deep:
        from ganglion.cli.child import deeply  # child processes are for those who ask for them

        faults = settle([*faults, *deeply(plan)])
    return plan, faults


def _print(rows: list[tuple[str, Plan | None, list[Fault]]], as_json: bool, whole: bool) -> None:
    """Print what was found; beside resolved documents the faults go to stderr."""
    if as_json:
        click.echo(json.dumps([_row(file, plan if whole else None, faults) for file, plan, faults in rows], indent=2))
        return
    for file, plan, faults in rows:
        if faults:
            click.echo(report(faults), err=whole)
        elif not whole:
            click.echo(f"{file}: {summary(faults)}")
        if whole and plan is not None:
            click.echo(("---\n" if len(rows) > 1 else "") + resolved(plan), nl=False)


def _row(file: str, plan: Plan | None, faults: list[Fault]) -> dict[str, Any]:
    row: dict[str, Any] = {"file": file, "faults": [fault.to_map() for fault in faults]}
    row["errors"] = sum(fault.severity == "error" for fault in faults)
    row["warnings"] = len(faults) - row["errors"]
    return row if plan is None else {**row, "resolved": resolved(plan)}
