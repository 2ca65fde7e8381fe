"""`ganglion config`: the settings, and where each comes from."""

from __future__ import annotations

from typing import Any

import click

from ganglion.cli.settings import BUILT_IN, KEYS, Settings
from ganglion.cli.stores import default_uri
from ganglion.cli.table import aligned, json_text, tell, without_password


@click.command("config")
@click.pass_obj
def config(settings: Settings) -> None:
    """Show the settings with their origins: built in, a line of a file, a variable or an option.

    Files are /etc/ganglion/config.yml, ~/.config/ganglion/config.yml and .ganglion.yml of the working folder; the later
    one wins, key by key. `ganglion schema config` describes them.
    """
    keys = [*KEYS[: KEYS.index("launcher") + 1], "launchers", *KEYS[KEYS.index("launcher") + 1 :]]
    rows = {key: {"value": _shown(settings, key), "origin": settings.origins.get(key, BUILT_IN)} for key in keys}
    tell(settings, rows, aligned([(key, _text(row["value"]) or "-", row["origin"]) for key, row in rows.items()]))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return json_text(value) if value else ""
    return ", ".join(value) if isinstance(value, list) else str(value or "")


def _shown(settings: Settings, key: str) -> Any:
    """Return a setting as it may be seen, None for one that is not set."""
    value = getattr(settings, key)
    if key == "store" and value is None and key not in settings.origins:
        value = default_uri(settings.results)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, dict):
        return {name: {k: _hidden(v) for k, v in arguments.items()} for name, arguments in value.items()}
    return value if value is None or isinstance(value, int) else without_password(str(value))


def _hidden(value: Any) -> Any:
    return without_password(value) if isinstance(value, str) else value
