"""`ganglion config`: the settings, and where each of them comes from."""

from __future__ import annotations

import json
from typing import Any

import click

from ganglion.cli.settings import BUILT_IN, KEYS, Settings
from ganglion.cli.stores import default_uri
from ganglion.cli.table import aligned
from ganglion.supervisor.output import printable, without_password


@click.command("config")
@click.pass_obj
def command(settings: Settings) -> None:
    """Show the settings with their origins: built in, a line of a file, a variable or an option.

    Files are /etc/ganglion/config.yml, ~/.config/ganglion/config.yml and .ganglion.yml of the working folder; the later
    one wins, key by key. `ganglion schema config` describes them.
    """
    rows: list[tuple[str, Any, str]] = [(key, _value(settings, key), settings.origin(key)) for key in KEYS]
    if settings.json:
        tree = {name: {"value": value, "origin": origin} for name, value, origin in rows}
        click.echo(json.dumps(tree, indent=2))
        return
    for line in aligned([(name, _text(value), printable(origin)) for name, value, origin in rows]):
        click.echo(line)


def _value(settings: Settings, key: str) -> Any:
    """Return a setting as it may be seen, None for one that is not set."""
    value = getattr(settings, key)
    if key == "store" and value is None and settings.origin(key) == BUILT_IN:
        value = default_uri(settings.results)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, int):
        return value
    return None if value is None else without_password(str(value))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(printable(part) for part in value) or "-"
    return "-" if value is None else printable(str(value))
