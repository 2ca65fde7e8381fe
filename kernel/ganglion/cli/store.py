"""`ganglion store`: brings a store of results to the revision of this software."""

from __future__ import annotations

import click

from ganglion.cli.settings import Settings
from ganglion.cli.stores import store_class, store_uri
from ganglion.cli.table import json_text
from ganglion.supervisor.output import printable, without_password


@click.group("store")
def command() -> None:
    """Look after the store of results."""


@command.command("migrate")
@click.pass_obj
def _migrate(settings: Settings) -> None:
    """Bring a store of an older revision to the one that this software writes.

    A copy is made first, beside it: `ganglion.db.revision-1`. An older store can be read as it is.
    """
    uri = store_uri(settings)
    before, after = store_class(uri).migrate(uri)
    if settings.json:
        click.echo(json_text({"before": before, "after": after}))
    elif before == after:
        click.echo(printable(f"{without_password(uri)}: is of revision {after} already"))
    else:
        click.echo(printable(f"{without_password(uri)}: revision {before}, now {after}"))
